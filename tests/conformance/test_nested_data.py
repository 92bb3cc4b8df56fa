"""What `tensor` makes of nested sequences, of tensors among them, and of what is no data."""

import array
import collections

import numpy as np
import pytest
import torch

import flambeau


class Items:
    """A sequence of one's own."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.values[i]


class Sized:
    """Has a length, and no items."""

    def __len__(self):
        return 2


DATA = {
    "tensors with one element": lambda t: [t([1.0]), t([2.0])],
    "tensors with one element in more dimensions": lambda t: [t([[1.0]]), t([[2.0]])],
    "tensors in lists": lambda t: [[t([1.0])], [t([2.0])]],
    "tensors without dimensions": lambda t: [t(1), t(2.0)],
    "tensors of two dtypes": lambda t: [t([1]), t([2.0])],
    "a number and a tensor": lambda t: [1, t([2.0])],
    "a tensor and a number": lambda t: [t([2.0]), 1],
    "tensors of several dimensions": lambda t: [t([1.0]), t([[2.0]])],
    "rows of tensors and numbers": lambda t: [[t([1.0]), t([2.0])], [t(3.0), 4]],
    "a list and a tensor in its place": lambda t: [[3, 4], t([1, 2])],
    "tensors with two elements": lambda t: [t([1.0, 2.0]), t([3.0, 4.0])],
    "a tensor with too many elements": lambda t: [t([1.0]), t([2.0, 3.0])],
    "a tensor and a list": lambda t: [t([1.0]), [2.0]],
    "an empty tensor": lambda t: [t([])],
    "bools": lambda t: [t([True])],
    "complex numbers": lambda t: [t([1 + 2j])],
    "a tensor that requires grad": lambda t: [t([1.0], requires_grad=True)],
    "a deque": lambda t: collections.deque([1.0, 2]),
    "deques": lambda t: [collections.deque([1]), collections.deque([2.0])],
    "an array of doubles": lambda t: array.array("d", [1, 2]),
    "an array of ints": lambda t: array.array("i", [1, 2]),
    "a list of arrays": lambda t: [array.array("f", [1, 2])],
    "a memoryview": lambda t: memoryview(array.array("i", [1, 2])),
    "a bytearray": lambda t: bytearray(b"ab"),
    "bytes": lambda t: b"ab",
    "a UserList": lambda t: collections.UserList([1, 2]),
    "items": lambda t: Items([1.0, 2.0]),
    "items of items": lambda t: Items([[1, 2], [3, 4]]),
    "a list of items": lambda t: [Items([1, 2]), Items([3, 4])],
    "no items": lambda t: Items([]),
    "ranges": lambda t: [range(2), range(2)],
    "arrays of NumPy's": lambda t: [np.array([1.0, 2.0]), np.array([3.0, 4.0])],
    "scalars of NumPy's": lambda t: [np.float32(1), 2],
    "empty lists": lambda t: [[], []],
    "a length without items": lambda t: Sized(),
    "a dictionary": lambda t: {0: 1.0, 1: 2.0},
    "a set": lambda t: {1, 2},
    "a word": lambda t: "ab",
    "a word in a list": lambda t: ["a"],
    "a word among numbers": lambda t: [1.0, "a"],
    "nothing": lambda t: None,
    "nothing in a list": lambda t: [None],
    "nothing among numbers": lambda t: [1, None],
    "an object among numbers": lambda t: [1, object()],
    "an iterator": lambda t: iter([1]),
    "a generator": lambda t: (each for each in [1]),
    "rows of other lengths": lambda t: [[1, 2], [3]],
    "deeper rows of other lengths": lambda t: [[[1]], [[2, 3]]],
    "a number in the place of a row": lambda t: [[1], 2],
    "a row in the place of a number": lambda t: [1, [2]],
}
MAKERS = {
    "tensor": lambda lib: lib.tensor,
    "as_tensor": lambda lib: lib.as_tensor,
    "new_tensor": lambda lib: lib.ones(1).new_tensor,
    "Tensor": lambda lib: lib.Tensor,
}


def outcome(lib, make, data):
    try:
        made = make(lib)(data(lib.tensor))
    except (TypeError, ValueError, RuntimeError) as error:
        return type(error)
    name = str(made.dtype).removeprefix("torch.").removeprefix("flambeau.")
    return tuple(made.shape), name, made.requires_grad, made.tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_data_becomes_what_it_does_in_pytorch(make):
    # Where the dtype is given, PyTorch fails at another place.
    is_inferred = make in (MAKERS["tensor"], MAKERS["as_tensor"])
    wrong = {}
    for name, data in DATA.items():
        found, expected = (outcome(lib, make, data) for lib in (flambeau, torch))
        both_refuse = isinstance(found, type) and isinstance(expected, type)
        if found != expected and (is_inferred or not both_refuse):
            wrong[name] = found, expected
    assert not wrong
