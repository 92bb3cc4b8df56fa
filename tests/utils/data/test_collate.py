"""Batches made of samples."""

import numpy as np
import pytest

import flambeau
from flambeau.utils.data import DataLoader, TensorDataset, default_collate, default_convert
from flambeau.utils.data import collate as collating
from flambeau.utils.data._utils import collate as private
from flambeau.utils.data.collate import collate, default_collate_fn_map, rows_of
from flambeau.utils.data.dataset import Subset

X = flambeau.arange(12.0).reshape(6, 2)


def test_samples_of_every_kind_are_collated():
    samples = [
        {"x": np.full(2, i, np.float32), "y": i, "z": (0.5, True, f"name {i}")} for i in (1, 2)
    ]
    batch = default_collate(samples)
    assert batch["x"].dtype is flambeau.float32
    assert batch["x"].tolist() == [[1, 1], [2, 2]]
    assert batch["y"].dtype is flambeau.int64
    number, flag, name = batch["z"]
    assert (number.dtype, flag.dtype, name) == (
        flambeau.float64, flambeau.bool, ("name 1", "name 2")
    )  # fmt: skip


def test_parts_of_tensors_are_found_without_a_program_for_each():
    views = [X[3, :], X[-1], X[0], flambeau.ones(2)]
    assert default_collate(views).tolist() == [[6, 7], [10, 11], [0, 1], [1, 1]]
    assert default_collate([X[1:6:2, 1], X[:3, 0], X.T[1, 3:]]).tolist() == [
        [3, 7, 11],
        [0, 2, 4],
        [7, 9, 11],
    ]
    changed = flambeau.zeros(3, 2)
    row = changed[1]
    changed.fill_(4)
    assert default_collate([row]).tolist() == [[4, 4]]


def test_batches_share_no_memory_with_samples():
    array = np.zeros(2)
    batch = default_collate([array])
    array[0] = 1
    assert batch.tolist() == [[0, 0]]


def test_gradients_reach_the_samples():
    weight = flambeau.ones(2, requires_grad=True)
    default_collate([weight, 2 * weight]).sum().backward()
    assert weight.grad.tolist() == [3, 3]


def test_tensors_of_several_dtypes_and_devices_are_stacked():
    mixed = default_collate([flambeau.ones(2), flambeau.ones(2, dtype=flambeau.int64)])
    assert mixed.dtype is flambeau.float32
    assert default_collate([flambeau.ones(2, device="meta")] * 3).shape == (3, 2)
    with flambeau.device("meta"):
        assert default_collate([np.ones(2)] * 3).is_meta


def test_a_tensor_dataset_gives_the_rows_of_a_batch_at_once():
    dataset = TensorDataset(X, flambeau.arange(6))
    for indices in ([4, 0, -1], [np.int64(2), 3]):
        rows = rows_of(dataset, indices)
        assert rows is not None
        expected = default_collate([dataset[i] for i in indices])
        for row, other in zip(rows, expected, strict=True):
            assert row.dtype is other.dtype
            assert row.tolist() == other.tolist()
    part = rows_of(Subset(dataset, [5, 1]), [1, 0])
    assert part is not None
    assert part[1].tolist() == [1, 5]


def test_it_does_not_where_someone_else_reads_the_samples():
    class Twice(TensorDataset):
        def __getitem__(self, index):
            return tuple(2 * each for each in super().__getitem__(index))

    class Own(Subset):
        def __getitems__(self, indices):
            return [(0,) for _ in indices]

    plain = TensorDataset(X)
    assert rows_of(Twice(X), [0]) is None
    assert rows_of(Own(plain, [1]), [0]) is None
    assert rows_of(plain, [True]) is None
    assert rows_of(plain, [slice(2)]) is None
    [[batch]] = DataLoader(Twice(X), 6)
    assert batch.tolist() == (2 * X).tolist()
    [[zeros]] = DataLoader(Own(plain, [1, 2]), 2)
    assert zeros.tolist() == [0, 0]


def test_rows_keep_their_history():
    weight = flambeau.ones(3, 2, requires_grad=True)
    [[batch]] = DataLoader(TensorDataset(weight), batch_sampler=[[1, 1]])
    batch.sum().backward()
    assert weight.grad.tolist() == [[0, 0], [2, 2], [0, 0]]


def test_functions_for_types_of_ones_own():
    class Name(str):
        __slots__ = ()

    def lengths(batch, *, collate_fn_map):
        return collate([len(each) for each in batch], collate_fn_map=collate_fn_map)

    functions = {Name: lengths, **default_collate_fn_map}
    batch = collate([(Name("ab"), "c"), (Name("d"), "e")], collate_fn_map=functions)
    assert (batch[0].tolist(), batch[1]) == ([2, 1], ("c", "e"))


@pytest.mark.parametrize(
    ("batch", "error", "said"),
    [
        ([[1, 2], [3]], RuntimeError, r"equal lengths, got \[1, 2\]"),
        ([flambeau.ones(2), flambeau.ones(3)], RuntimeError, "stack"),
        ([np.ones(2), np.ones(3)], RuntimeError, "stack"),
        ([None], TypeError, "NoneType"),
        ([np.array(["a"])], TypeError, "<U1"),
        ([{"a": 1}, {"b": 1}], KeyError, "a"),
    ],
)
def test_samples_that_do_not_fit_are_refused(batch, error, said):
    with pytest.raises(error, match=said):
        default_collate(batch)


def test_samples_are_converted_one_by_one():
    converted = default_convert({"x": np.arange(2), "y": (np.float32(1), "a"), "z": 3})
    assert converted["x"].tolist() == [0, 1]
    assert (converted["y"][0].dtype, converted["y"][1:]) == (flambeau.float32, ["a"])
    assert converted["z"] == 3


def test_functions_for_single_kinds_have_pytorch_s_private_names():
    pair = [flambeau.ones(2), flambeau.zeros(2)]
    assert private.collate_tensor_fn(pair).tolist() == [[1, 1], [0, 0]]
    assert private.default_collate_fn_map is collating.default_collate_fn_map
    found = [bool(private.np_str_obj_array_pattern.search(each)) for each in ("<U3", "|O", "<f4")]
    assert found == [True, True, False]
