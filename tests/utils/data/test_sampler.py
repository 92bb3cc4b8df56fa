"""The order of samples."""

import pytest

import flambeau
from flambeau.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def generator(seed=0):
    return flambeau.Generator().manual_seed(seed)


def test_random_orders_repeat_under_a_seed():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    assert list(RandomSampler(range(5), generator=generator())) == [4, 0, 1, 3, 2]
    assert list(SubsetRandomSampler("abcde", generator())) == list("eabdc")
    flambeau.manual_seed(1)
    first, second = (list(RandomSampler(range(50))) for _ in range(2))
    flambeau.manual_seed(1)
    assert list(RandomSampler(range(50))) == first != second
    assert sorted(first) == sorted(second) == list(range(50))


def test_more_samples_than_there_are_go_on_in_another_order():
    drawn = list(RandomSampler(range(4), num_samples=10, generator=generator()))
    assert sorted(drawn[:4]) == sorted(drawn[4:8]) == [0, 1, 2, 3]
    assert len(drawn) == 10


def test_samples_are_drawn_by_weight():
    assert set(WeightedRandomSampler([0, 1, 0, 2], 20)) == {1, 3}
    assert sorted(WeightedRandomSampler([1, 1, 1], 3, replacement=False)) == [0, 1, 2]


def test_batches_of_indices():
    assert list(BatchSampler("abcde", 2, drop_last=True)) == [["a", "b"], ["c", "d"]]
    assert [len(BatchSampler(range(5), 2, drop)) for drop in (True, False)] == [2, 3]


def test_processes_share_the_indices_out():
    parts = [list(DistributedSampler(range(7), 2, rank, shuffle=False)) for rank in (0, 1)]
    assert parts == [[0, 2, 4, 6], [1, 3, 5, 0]]
    shuffled = [DistributedSampler(range(8), 2, rank, seed=3) for rank in (0, 1)]
    first = [list(each) for each in shuffled]
    assert sorted(first[0] + first[1]) == list(range(8))
    for each in shuffled:
        each.set_epoch(1)
    assert [list(each) for each in shuffled] != first
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedSampler(range(7))
    with pytest.raises(ValueError, match="between 0 and 1, got 2"):
        DistributedSampler(range(7), 2, 2)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: RandomSampler([]), ValueError, "num_samples must be a positive integer, got 0"),
        (lambda: RandomSampler("a", 1), TypeError, "replacement must be True or False, got 1"),
        (lambda: WeightedRandomSampler([1], 0), ValueError, "num_samples must be"),
        (lambda: WeightedRandomSampler([1], 1, 1), ValueError, "replacement must be"),
        (lambda: WeightedRandomSampler([[1]], 1), ValueError, "1 dimension, got 2"),
        (lambda: BatchSampler("ab", True, False), ValueError, "batch_size must be .* got True"),
        (lambda: BatchSampler("ab", 2, 0), ValueError, "drop_last must be True or False, got 0"),
        (lambda: iter(Sampler()), NotImplementedError, "Sampler does not define __iter__"),
    ],
)
def test_what_cannot_be_is_said(make, error, said):
    with pytest.raises(error, match=said):
        make()
