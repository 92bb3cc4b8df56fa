"""The loader, where no other process helps it."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import flambeau
from flambeau.utils.data import DataLoader, IterableDataset, TensorDataset, get_worker_info
from flambeau.utils.data import dataloader as its_module

X, Y = flambeau.arange(10.0).reshape(5, 2), flambeau.arange(5)


class Stream(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))

    def __len__(self):
        return 3


def test_an_epoch_gives_every_sample_once_and_the_next_one_in_another_order():
    flambeau.manual_seed(0)
    loader = DataLoader(TensorDataset(X, Y), batch_size=2, shuffle=True)
    epochs = [[y.tolist() for _, y in loader] for _ in range(2)]
    assert [[len(batch) for batch in epoch] for epoch in epochs] == [[2, 2, 1]] * 2
    orders = [[y for batch in epoch for y in batch] for epoch in epochs]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == [0, 1, 2, 3, 4]
    assert len(loader) == len(iter(loader)) == 3


def test_a_generator_of_ones_own_leaves_the_default_one_alone():
    before = flambeau.get_rng_state()
    generator = flambeau.Generator().manual_seed(2)
    list(DataLoader(TensorDataset(Y), shuffle=True, generator=generator))
    assert flambeau.equal(flambeau.get_rng_state(), before)


def test_samples_are_given_as_they_are_without_batches():
    loader = DataLoader([(np.ones(2), "a"), (np.zeros(2), "b")], batch_size=None)
    assert [(x.tolist(), name) for x, name in loader] == [([1, 1], "a"), ([0, 0], "b")]


def test_many_samples_are_asked_for_at_once_where_that_is_possible():
    class AtOnce:
        def __len__(self):
            return 4

        def __getitems__(self, indices):
            return [(tuple(indices), i) for i in indices]

    loader = DataLoader(AtOnce(), 2, collate_fn=lambda samples: samples)
    assert list(loader) == [[((0, 1), 0), ((0, 1), 1)], [((2, 3), 2), ((2, 3), 3)]]


def test_a_stream_is_cut_into_batches():
    assert [batch.tolist() for batch in DataLoader(Stream(5), 2)] == [[0, 1], [2, 3], [4]]
    loader = DataLoader(Stream(5), None)
    assert list(loader) == [0, 1, 2, 3, 4]
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="length of Stream is 3, but 4 have come"):
        assert len([next(batches) for batches in [iter(loader)] for _ in range(4)]) == 4


def test_a_stream_that_has_ended_is_not_asked_again():
    class Once(IterableDataset):
        def __iter__(self):
            yield 1
            yield 2

    batches = iter(DataLoader(Once(), 3))
    assert next(batches).tolist() == [1, 2]
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(batches)


def test_a_loader_can_be_copied_and_its_iterators_cannot():
    loader = DataLoader(TensorDataset(Y), 5)
    for other in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert [batch.tolist() for (batch,) in other] == [Y.tolist()]
    with pytest.raises(NotImplementedError, match="pickle the loader"):
        pickle.dumps(iter(loader))


def test_what_a_loader_is_made_of_stays():
    loader = DataLoader(TensorDataset(Y))
    with pytest.raises(ValueError, match="batch_size cannot be changed"):
        loader.batch_size = 3
    loader.collate_fn = len
    assert list(loader) == [1] * 5


def test_pinning_is_accepted():
    loader = DataLoader(TensorDataset(Y), 5, pin_memory=True, pin_memory_device="cuda")
    assert len(list(loader)) == 1


def test_here_is_no_worker():
    assert get_worker_info() is None


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"num_workers": -1}, ValueError, "num_workers must not be negative"),
        ({"timeout": -1}, ValueError, "timeout must not be negative"),
        ({"prefetch_factor": 2}, ValueError, "prefetch_factor needs workers"),
        ({"prefetch_factor": -2, "num_workers": 1}, ValueError, "prefetch_factor must not be"),
        ({"persistent_workers": True}, ValueError, "persistent_workers needs workers"),
        ({"sampler": [1], "shuffle": True}, ValueError, "sampler and shuffle exclude"),
        ({"batch_sampler": [[1]], "batch_size": 2}, ValueError, "batch_sampler excludes"),
        ({"batch_size": None, "drop_last": True}, ValueError, "makes no batches"),
        ({"multiprocessing_context": "spawn"}, ValueError, "needs workers"),
        ({"multiprocessing_context": 1, "num_workers": 1}, TypeError, "a context, got int"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options, error, said):
    with pytest.raises(error, match=said):
        DataLoader(TensorDataset(Y), **options)


def test_a_stream_has_its_own_order():
    for options in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        with pytest.raises(ValueError, match="an order of its own"):
            DataLoader(Stream(3), **options)


def test_a_timeout_is_for_workers():
    with pytest.raises(AssertionError, match="timeout is for workers"):
        iter(DataLoader(TensorDataset(Y), timeout=1))


def test_it_is_imported_when_it_is_first_asked_for():
    code = (
        "import sys, flambeau; "
        "print('flambeau.utils.data' in sys.modules, flambeau.utils.data.DataLoader.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False DataLoader\n"


def test_iterators_have_pytorch_s_classes():
    loader = DataLoader([1, 2])
    assert isinstance(iter(loader), its_module._BaseDataLoaderIter)
    assert isinstance(iter(loader), its_module._SingleProcessDataLoaderIter)
    assert not isinstance(iter(loader), its_module._MultiProcessingDataLoaderIter)


def test_iterators_take_loaders_of_other_classes():
    class Own:
        """What an iterator reads of a loader, and nothing else."""

        num_workers, drop_last, generator, timeout = 0, False, None, 0
        _auto_collation, _IterableDataset_len_called = False, None
        _dataset_kind = its_module._DatasetKind.Iterable
        _index_sampler = range(9)

        def __init__(self):
            self.dataset = self

        def __iter__(self):
            return iter(["one", "two"])

        def collate_fn(self, sample):
            return sample.upper()

    before = flambeau.get_rng_state()
    assert list(its_module._SingleProcessDataLoaderIter(Own())) == ["ONE", "TWO"]
    # The seed of the workers is drawn, as by a DataLoader.
    assert not flambeau.equal(before, flambeau.get_rng_state())
