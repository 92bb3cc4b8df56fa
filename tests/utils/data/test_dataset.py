"""Datasets: samples by index, one after the other, and in parts."""

import pytest

import flambeau
from flambeau.utils.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)


class Numbers(IterableDataset):
    def __init__(self, *numbers):
        self.numbers = numbers

    def __iter__(self):
        return iter(self.numbers)


def test_tensors_are_read_row_by_row():
    x, y = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]]), flambeau.tensor([5, 6])
    dataset = TensorDataset(x, y)
    assert len(dataset) == 2
    assert [each.tolist() for each in dataset[-1]] == [[3, 4], 6]
    with pytest.raises(AssertionError, match=r"\[2, 3\]"):
        TensorDataset(x, flambeau.ones(3))


def test_datasets_are_put_side_by_side():
    assert StackDataset(range(3), "abc")[1] == (1, "b")
    assert StackDataset(n=range(3), c="abc").__getitems__([2, 0]) == [
        {"n": 2, "c": "c"},
        {"n": 0, "c": "a"},
    ]
    for args, named in (((), {}), (("a",), {"c": "b"}), (("a", "bc"), {})):
        with pytest.raises(ValueError, match="StackDataset takes"):
            StackDataset(*args, **named)


def test_a_dataset_must_give_as_many_samples_as_it_is_asked_for():
    class Few(Dataset):
        def __len__(self):
            return 3

        def __getitems__(self, indices):
            return indices[1:]

    with pytest.raises(ValueError, match="each of the 2 indices, got 1"):
        StackDataset(Few()).__getitems__([0, 1])


def test_datasets_are_put_one_after_the_other():
    both = ConcatDataset([[1, 2], [3]])
    assert [both[i] for i in (0, 1, 2, -1, -3)] == [1, 2, 3, 3, 1]
    assert len(both) == 3
    with pytest.raises(ValueError, match="index -4"):
        both[-4]
    with pytest.raises(AssertionError, match="at least one"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="use ChainDataset"):
        ConcatDataset([Numbers(1)])
    assert list(Numbers(1, 2) + Numbers(3)) == [1, 2, 3]
    with pytest.raises(AssertionError, match="got a list"):
        list(ChainDataset([[1]]))


def test_a_subset_asks_for_many_samples_at_once():
    part = Subset(StackDataset("abcdef"), [5, 0, 3])
    assert part.__getitems__([2, 0]) == [("d",), ("f",)]
    assert (part[1], len(part)) == (("a",), 3)

    class Half(Subset):
        def __getitem__(self, idx):
            return idx

    with pytest.raises(NotImplementedError, match="Half overrides __getitem__ but not"):
        Half("abc", [0])


def test_a_split_deals_out_every_sample_once():
    parts = random_split(range(10), [0.25, 0.25, 0.5])
    assert [len(each) for each in parts] == [3, 2, 5]
    assert sorted(sample for part in parts for sample in part) == list(range(10))
    with pytest.raises(ValueError, match="add up to 9, but the dataset has 10"):
        random_split(range(10), [3, 6])
    with pytest.raises(ValueError, match="fraction 0 must be between 0 and 1"):
        random_split(range(10), [1.5, -0.5])


def test_what_a_subclass_must_define_is_said():
    with pytest.raises(NotImplementedError, match="Dataset does not define __getitem__"):
        Dataset()[0]
