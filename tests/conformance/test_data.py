"""`utils.data` beside PyTorch's: indices, splits, batches, errors, and what is drawn on the way."""

from __future__ import annotations

import collections
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data as torch_data
from torch.utils.data._utils.worker import _generate_state

import flambeau
import flambeau.utils.data as data
from flambeau.utils.data.workers import numpy_seed

Point = collections.namedtuple("Point", ["x", "y"])
ROWS = np.random.default_rng(0).standard_normal((13, 3), dtype=np.float32)
LABELS = np.arange(13)


class Side:
    """One of the two libraries, with its data."""

    def __init__(self, lib: Any, data: Any) -> None:
        self.lib, self.data = lib, data

    def tensors(self) -> Any:
        return self.data.TensorDataset(self.lib.from_numpy(ROWS), self.lib.from_numpy(LABELS))

    def stream(self, count: int, length: int | None = None) -> Any:
        """An iterable dataset of some numbers."""
        members = {"__iter__": lambda self: iter(range(count))}
        if length is not None:
            members["__len__"] = lambda self: length
        return type("Stream", (self.data.IterableDataset,), members)()


THEIRS, OURS = Side(torch, torch_data), Side(flambeau, data)
Case = Callable[[Side], Any]


def plain(value: Any) -> Any:
    """A result as what both libraries have in common."""
    if isinstance(value, torch.Tensor | flambeau.Tensor):
        return ("tensor", str(value.dtype).split(".")[1], list(value.shape), value.tolist())
    if isinstance(value, dict):
        return type(value).__name__, {key: plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list | collections.UserList | collections.deque):
        return type(value).__name__, [plain(each) for each in value]
    return value


def outcome(side: Side, case: Case) -> Any:
    """What a case gives, or which error, and where the default generator stands afterwards."""
    side.lib.manual_seed(5)
    try:
        found = plain(case(side))
    except Exception as error:  # noqa: BLE001 - which one it is will be compared
        found = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
    return found, side.lib.get_rng_state().numpy().tobytes()


def seeded(side: Side) -> Any:
    return side.lib.Generator().manual_seed(3)


SAMPLERS: dict[str, Case] = {
    "sequential": lambda s: list(s.data.SequentialSampler(range(5))),
    "random": lambda s: list(s.data.RandomSampler(range(100))),
    "random twice": lambda s: [list(each) for each in [s.data.RandomSampler(range(9))] * 2],
    "random generator": lambda s: list(s.data.RandomSampler(range(9), generator=seeded(s))),
    "random fewer": lambda s: list(s.data.RandomSampler(range(9), num_samples=4)),
    "random more": lambda s: list(s.data.RandomSampler(range(9), num_samples=21)),
    "random replacement": lambda s: list(s.data.RandomSampler(range(9), True, 70)),
    "random replacement, generator in use": lambda s: [
        (index, s.lib.rand(()).item())
        for index in s.data.RandomSampler(range(9), True, 40, s.lib.default_generator)
    ],
    "random of nothing": lambda s: s.data.RandomSampler([]),
    "random replacement of no bool": lambda s: s.data.RandomSampler(range(3), replacement=1),
    "random of -1": lambda s: s.data.RandomSampler(range(3), num_samples=-1),
    "subset": lambda s: list(s.data.SubsetRandomSampler([4, 8, 15, 16, 23, 42])),
    "subset generator": lambda s: list(s.data.SubsetRandomSampler("abcdef", seeded(s))),
    "weighted": lambda s: list(s.data.WeightedRandomSampler([0.1, 0.9, 0.4, 0.7], 20)),
    "weighted array": lambda s: list(s.data.WeightedRandomSampler(np.arange(1, 6), 3, False)),
    "weighted generator": lambda s: list(
        s.data.WeightedRandomSampler([1, 2, 3], 5, generator=seeded(s))
    ),
    "weighted too many": lambda s: list(s.data.WeightedRandomSampler([1, 2], 3, False)),
    "weighted matrix": lambda s: s.data.WeightedRandomSampler([[1.0]], 1),
    "weighted none": lambda s: s.data.WeightedRandomSampler([1.0], 0),
    "weighted True": lambda s: s.data.WeightedRandomSampler([1.0], True),
    "weighted no bool": lambda s: s.data.WeightedRandomSampler([1.0], 1, 1),
    "batches": lambda s: list(s.data.BatchSampler(range(7), 3, False)),
    "batches drop": lambda s: list(s.data.BatchSampler(range(7), 3, True)),
    "batches exact": lambda s: list(s.data.BatchSampler(range(6), 3, True)),
    "batches lengths": lambda s: [
        len(s.data.BatchSampler(range(n), 3, drop)) for n in range(8) for drop in (True, False)
    ],
    "batches of 0": lambda s: s.data.BatchSampler(range(7), 0, False),
    "batches of True": lambda s: s.data.BatchSampler(range(7), True, False),
    "batches of 2.0": lambda s: s.data.BatchSampler(range(7), 2.0, False),
    "batches drop 1": lambda s: s.data.BatchSampler(range(7), 2, 1),
    "no iterator": lambda s: iter(s.data.Sampler()),
    "distributed": lambda s: [
        (list(each), len(each))
        for n in (1, 2, 3, 20)
        for shuffle in (True, False)
        for drop in (True, False)
        for rank in range(n)
        for each in [s.data.DistributedSampler(range(10), n, rank, shuffle, 7, drop)]
    ],
    "distributed epoch": lambda s: [
        each.set_epoch(2) or list(each) for each in [s.data.DistributedSampler(range(9), 2, 1)]
    ],
    "distributed rank": lambda s: s.data.DistributedSampler(range(9), 2, 2),
    "distributed, nobody to ask": lambda s: s.data.DistributedSampler(range(9)),
}

DATASETS: dict[str, Case] = {
    "tensors": lambda s: [len(s.tensors()), s.tensors()[3], s.tensors()[-1], s.tensors()[2:4]],
    "tensors of two sizes": lambda s: s.data.TensorDataset(s.lib.ones(2), s.lib.ones(3)),
    "tensors beyond": lambda s: s.tensors()[13],
    "stack": lambda s: s.data.StackDataset(range(3), "abc")[1],
    "stack by name": lambda s: s.data.StackDataset(n=range(3), c="abc")[1],
    "stack items": lambda s: s.data.StackDataset(range(3), "abc").__getitems__([2, 0]),
    "stack items by name": lambda s: s.data.StackDataset(
        a=s.data.Subset(range(9), [4, 5, 6]), b="abc"
    ).__getitems__([2, 0]),
    "stack of both": lambda s: s.data.StackDataset(range(3), c="abc"),
    "stack of nothing": lambda s: s.data.StackDataset(),
    "stack of two lengths": lambda s: s.data.StackDataset(range(3), "ab"),
    "concat": lambda s: list(map(s.data.ConcatDataset([[1, 2], [3], []]).__getitem__, (0, 1, 2))),
    "concat from the end": lambda s: s.data.ConcatDataset([[1, 2], [3]])[-2],
    "concat length": lambda s: [
        len(s.data.ConcatDataset([[1, 2], [3]])),
        s.data.ConcatDataset([[1, 2], [3]]).cumulative_sizes,
    ],
    "concat before": lambda s: s.data.ConcatDataset([[1, 2], [3]])[-4],
    "concat beyond": lambda s: s.data.ConcatDataset([[1, 2], [3]])[3],
    "concat of nothing": lambda s: s.data.ConcatDataset([]),
    "concat of a stream": lambda s: s.data.ConcatDataset([s.stream(2)]),
    "sum": lambda s: [len(s.tensors() + s.tensors()), (s.tensors() + s.tensors())[20]],
    "chain": lambda s: list(s.data.ChainDataset([s.stream(2), s.stream(3)])),
    "chain length": lambda s: len(s.data.ChainDataset([s.stream(2, 2), s.stream(3, 3)])),
    "chain of a list": lambda s: list(s.data.ChainDataset([[1]])),
    "sum of streams": lambda s: list(s.stream(2) + s.stream(3)),
    "subset": lambda s: [s.data.Subset("abcdef", [5, 0, 3])[i] for i in range(3)],
    "subset list": lambda s: s.data.Subset(s.tensors(), [5, 0, 3])[[2, 0]],
    "subset items": lambda s: s.data.Subset("abcdef", [5, 0, 3]).__getitems__([2, 0]),
    "subset of a subset": lambda s: s.data.Subset(
        s.data.Subset("abcdef", [5, 0, 3]), [2, 1]
    ).__getitems__([0, 1]),
    "subset overridden by half": lambda s: type(
        "Half", (s.data.Subset,), {"__getitem__": lambda self, index: index}
    )("abc", [0]),
    "no item": lambda s: s.data.Dataset()[0],
    "split": lambda s: [list(each) for each in s.data.random_split(range(10), [3, 7])],
    "split generator": lambda s: [
        each.indices for each in s.data.random_split(range(30), [0.3, 0.3, 0.4], seeded(s))
    ],
    "split rest": lambda s: [
        each.indices for each in s.data.random_split(range(11), [0.25, 0.25, 0.5], seeded(s))
    ],
    "split wrong": lambda s: s.data.random_split(range(10), [3, 6]),
    "split fractions wrong": lambda s: s.data.random_split(range(10), [0.5, 0.6]),
    "split negative": lambda s: s.data.random_split(range(10), [1.5, -0.5]),
}

BATCHES: dict[str, Case] = {
    "ints": lambda s: s.data.default_collate([1, 2, 3]),
    "floats": lambda s: s.data.default_collate([1.5, 2.0]),
    "bools": lambda s: s.data.default_collate([True, False]),
    "int and float": lambda s: s.data.default_collate([1, 2.5]),
    "strings": lambda s: s.data.default_collate(["a", "b"]),
    "bytes": lambda s: s.data.default_collate([b"a", b"b"]),
    "tuples": lambda s: s.data.default_collate([(1, "a"), (2, "b")]),
    "lists": lambda s: s.data.default_collate([[1, 2.0], [3, 4.0]]),
    "named tuples": lambda s: s.data.default_collate([Point(1, 2.0), Point(3, 4.0)]),
    "mappings": lambda s: s.data.default_collate([{"a": 1, "b": [1, 2]}, {"a": 3, "b": [3, 4]}]),
    "mappings of a type": lambda s: s.data.default_collate(
        [collections.OrderedDict(a=1), collections.OrderedDict(a=2)]
    ),
    "default mappings": lambda s: s.data.default_collate(
        [collections.defaultdict(list, a=1), collections.defaultdict(list, a=2)]
    ),
    "sequences of a type": lambda s: s.data.default_collate([collections.UserList([1, 2])] * 2),
    "ranges": lambda s: s.data.default_collate([range(2), range(2)]),
    "deques": lambda s: s.data.default_collate([collections.deque([1, 2])] * 2),
    "arrays": lambda s: s.data.default_collate([ROWS[0], ROWS[1]]),
    "arrays of several dtypes": lambda s: [
        s.data.default_collate([np.ones(2, dtype)] * 2)
        for dtype in ("bool", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "u2")
    ],
    "arrays of two dtypes": lambda s: s.data.default_collate([ROWS[0], ROWS[1].astype("f8")]),
    "ragged arrays": lambda s: s.data.default_collate([ROWS[0], ROWS[1, :2]]),
    "arrays of strings": lambda s: s.data.default_collate([np.array(["a"])] * 2),
    "arrays of objects": lambda s: s.data.default_collate([np.array([None])] * 2),
    "array of no dimensions": lambda s: s.data.default_collate([np.array(2.5)] * 2),
    "numpy numbers": lambda s: [
        s.data.default_collate([kind(1), kind(0)])
        for kind in (np.bool_, np.uint8, np.int32, np.int64, np.float32, np.float64, np.float16)
    ],
    "tensors": lambda s: s.data.default_collate([s.lib.ones(2), s.lib.zeros(2)]),
    "rows": lambda s: s.data.default_collate([s.tensors().tensors[0][i] for i in (3, -1, 0)]),
    "parts": lambda s: [
        s.data.default_collate([x[2:8:3, 1], x[:2, 0], x[5, :2], x.T[1, 4:6], x[3:5].sum(1)])
        for x in [s.lib.from_numpy(ROWS)]
    ],
    "tensors of two dtypes": lambda s: s.data.default_collate(
        [s.lib.ones(2), s.lib.ones(2, dtype=s.lib.int64)]
    ),
    "ragged tensors": lambda s: s.data.default_collate([s.lib.ones(2), s.lib.ones(3)]),
    "tensors that require grad": lambda s: [
        (s.data.default_collate([x, 2 * x]).sum().backward(), x.grad)
        for x in [s.lib.ones(2, requires_grad=True)]
    ],
    "ragged sequences": lambda s: s.data.default_collate([[1, 2], [3]]),
    "a missing key": lambda s: s.data.default_collate([{"a": 1}, {"b": 1}]),
    "sets": lambda s: s.data.default_collate([{1}, {2}]),
    "None": lambda s: s.data.default_collate([None]),
    "objects": lambda s: s.data.default_collate([object()]),
    "nothing": lambda s: s.data.default_collate([]),
    "convert": lambda s: [
        s.data.default_convert(each)
        for each in (
            ROWS[0], np.float32(2), np.int64(3), np.array(["a"]), "a", b"a", 1, 2.5, None, (1, 2),
            [ROWS[0], 1], {"a": ROWS[0]}, Point(np.array(0), 1), range(2), s.lib.ones(2),
        )
    ],
}  # fmt: skip


def loaded(**options: Any) -> Case:
    return lambda s: list(s.data.DataLoader(s.tensors(), **options))


LOADERS: dict[str, Case] = {
    "one by one": loaded(),
    "batches": loaded(batch_size=4),
    "drop last": loaded(batch_size=4, drop_last=True),
    "shuffle": loaded(batch_size=4, shuffle=True),
    "twice": lambda s: [list(each) for each in [s.data.DataLoader(s.tensors(), 4, True)] * 2],
    "numbers drawn between": lambda s: [
        (batch, s.lib.rand(2)) for batch in s.data.DataLoader(s.tensors(), 4, shuffle=True)
    ],
    "generator": lambda s: [
        [list(each), list(each), generator.get_state()]
        for generator in [seeded(s)]
        for each in [s.data.DataLoader(s.tensors(), 5, shuffle=True, generator=generator)]
    ],
    "no batches": loaded(batch_size=None),
    "no batches, shuffled": loaded(batch_size=None, shuffle=True),
    "collate_fn": loaded(batch_size=3, collate_fn=lambda samples: [len(samples), samples[0]]),
    "sampler": loaded(batch_size=3, sampler=[3, 1, 4, 1, 5]),
    "batch sampler": loaded(batch_sampler=[[3, 1], [4], [1, 5, 9]]),
    "arrays": lambda s: list(s.data.DataLoader(ROWS, 5)),
    "dictionary": lambda s: list(s.data.DataLoader({"a": 1, "b": 2}, sampler=["b", "a"])),
    "list": lambda s: list(s.data.DataLoader([1.5, 2.5, 3.5], 2)),
    "weighted": lambda s: list(
        s.data.DataLoader(
            s.tensors(), 4, sampler=s.data.WeightedRandomSampler(np.arange(13), 10)
        )
    ),
    "split": lambda s: [
        list(s.data.DataLoader(each, 3, shuffle=True))
        for each in s.data.random_split(s.tensors(), [0.5, 0.5])
    ],
    "indices of NumPy": lambda s: list(
        s.data.DataLoader(s.data.Subset(s.tensors(), np.array([5, 7, 2])), 2)
    ),
    "indices that are tensors": lambda s: list(
        s.data.DataLoader(s.data.Subset(s.tensors(), s.lib.tensor([5, 7, 2])), 2)
    ),
    "index beyond": loaded(batch_sampler=[[13]]),
    "a dataset that reads its own way": lambda s: list(
        s.data.DataLoader(
            type(
                "Own", (s.data.TensorDataset,), {"__getitem__": lambda self, i: self.tensors[1][i]}
            )(*s.tensors().tensors),
            4,
        )
    ),
    "stack": lambda s: list(s.data.DataLoader(s.data.StackDataset(x=s.tensors(), n=range(13)), 5)),
    "concat": lambda s: list(s.data.DataLoader(s.tensors() + s.tensors(), 9, shuffle=True)),
    "stream": lambda s: list(s.data.DataLoader(s.stream(7), 3)),
    "stream drop last": lambda s: list(s.data.DataLoader(s.stream(7), 3, drop_last=True)),
    "stream of samples": lambda s: list(s.data.DataLoader(s.stream(3), None)),
    "lengths": lambda s: [
        len(s.data.DataLoader(each, size, drop_last=drop))
        for each in (s.tensors(), s.stream(3, 10))
        for size, drop in ((1, False), (3, False), (3, True), (None, False))
    ],
    "length of the iterator": lambda s: len(iter(s.data.DataLoader(s.tensors(), 4))),
    "length of a stream without": lambda s: len(s.data.DataLoader(s.stream(3))),
    "sampler and shuffle": loaded(sampler=[1], shuffle=True),
    "batch sampler and size": loaded(batch_sampler=[[1]], batch_size=2),
    "batch sampler and drop_last": loaded(batch_sampler=[[1]], drop_last=True),
    "batch sampler and sampler": loaded(batch_sampler=[[1]], sampler=[1]),
    "no batches, drop_last": loaded(batch_size=None, drop_last=True),
    "size 0": loaded(batch_size=0),
    "negative workers": loaded(num_workers=-1),
    "negative timeout": loaded(timeout=-1),
    "timeout without workers": loaded(timeout=1),
    "prefetch without workers": loaded(prefetch_factor=2),
    "negative prefetch": loaded(num_workers=1, prefetch_factor=-1),
    "persistent without workers": loaded(persistent_workers=True),
    "context without workers": loaded(multiprocessing_context="spawn"),
    "unknown context": loaded(multiprocessing_context="nothing", num_workers=1),
    "a context that is none": loaded(multiprocessing_context=3, num_workers=1),
    "shuffled nothing": lambda s: s.data.DataLoader([], shuffle=True),
    "shuffled stream": lambda s: s.data.DataLoader(s.stream(3), shuffle=True),
    "stream with sampler": lambda s: s.data.DataLoader(s.stream(3), sampler=[1]),
    "stream with batch sampler": lambda s: s.data.DataLoader(s.stream(3), batch_sampler=[[1]]),
    "assignment": lambda s: setattr(s.data.DataLoader(s.tensors()), "batch_size", 2),
    "worker": lambda s: s.data.get_worker_info(),
}  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{kind}: {name}")
        for kind, cases in {
            "sampler": SAMPLERS,
            "dataset": DATASETS,
            "collate": BATCHES,
            "loader": LOADERS,
        }.items()
        for name, case in cases.items()
    ],
)
def test_both_give_the_same_and_draw_the_same(case: Case) -> None:
    assert outcome(OURS, case) == outcome(THEIRS, case)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (lambda s: s.data.random_split(range(3), [0.0, 1.0]), "0"),
        (lambda s: s.data.DataLoader(range(3), num_workers=1000), "1000"),
        (
            lambda s: [(len(each), list(each)) for each in [s.data.DataLoader(s.stream(3, 2))]],
            "length",
        ),
    ],
    ids=["an empty part", "many workers", "a stream longer than it says"],
)
def test_both_warn(case: Case, said: str) -> None:
    for side in (THEIRS, OURS):
        with pytest.warns(UserWarning, match=f"(?i){said}") as caught:
            case(side)
        assert len(caught) == 1


def test_workers_seed_numpy_alike() -> None:
    for _ in range(20):
        seed, number = random.getrandbits(63), random.randrange(1000)
        assert numpy_seed(seed, number).tolist() == _generate_state(seed, number)


PROGRAM = """
import importlib, random, sys
import numpy as np

lib = importlib.import_module(sys.argv[1])
data = importlib.import_module(sys.argv[1] + ".utils.data")


class Stream(data.IterableDataset):
    def __iter__(self):
        number = data.get_worker_info().id
        return iter(range(100 * number, 100 * number + (7, 2)[number]))


class Draws(data.Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, index):
        drawn = lib.rand(()).item(), random.random(), np.random.rand()
        return index, drawn, data.get_worker_info().seed


if __name__ == "__main__":
    lib.manual_seed(3)
    options = dict(num_workers=2, multiprocessing_context="spawn")
    print([each.tolist() for each in data.DataLoader(Stream(), 2, **options)])
    loader = data.DataLoader(Draws(), 2, shuffle=True, persistent_workers=True, **options)
    for _ in range(2):
        for index, drawn, seed in loader:
            print(index.tolist(), [each.tolist() for each in drawn], seed.tolist())
    print(lib.rand(2).tolist())
"""


def test_workers_draw_and_deal_out_alike(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    here = Path(__file__).parents[2]
    theirs, ours = (
        subprocess.run(
            [sys.executable, "-W", "ignore", str(program), lib],
            capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(here)},
        ).stdout
        for lib in ("torch", "flambeau")
    )  # fmt: skip
    assert len(ours.splitlines()) == 10
    assert ours == theirs
