"""Packing and padding sequences with both libraries."""

import numpy as np
import pytest

from tests.conformance.expression import check
from tests.conformance.small_layers import normal, tensor

CLOSE = 2e-6


def padded(lib, batch_first=False):
    array = np.arange(24.0).reshape(4, 3, 2)
    found = tensor(lib, array if not batch_first else array.transpose(1, 0, 2))
    return found.requires_grad_()


def packed(lib, lengths=(3, 4, 1), batch_first=False, **options):
    options = {"enforce_sorted": False, "batch_first": batch_first} | options
    pack = lib.nn.utils.rnn.pack_padded_sequence
    return pack(padded(lib, batch_first), list(lengths), **options)


def gradient(lib, tensor, leaf):
    (tensor * normal(lib, *tensor.shape)).sum().backward()
    return leaf.grad


def packing_gradient(lib, **options):
    leaf = padded(lib)
    found = lib.nn.utils.rnn.pack_padded_sequence(leaf, [3, 4, 1], enforce_sorted=False)
    return gradient(lib, found.data, leaf)


def padding_gradient(lib, **options):
    leaf = normal(lib, 6, 2).requires_grad_()
    found = lib.nn.utils.rnn.PackedSequence(leaf, tensor(lib, [3, 2, 1]))
    out, lengths = lib.nn.utils.rnn.pad_packed_sequence(found, **options)
    return out, lengths, gradient(lib, out, leaf)


def sequences(lib, requires_grad=False):
    return [
        normal(lib, length, 2, seed=length).requires_grad_(requires_grad) for length in (3, 1, 2)
    ]


def stacked_gradient(lib, **options):
    leaves = sequences(lib, requires_grad=True)
    out = lib.nn.utils.rnn.pad_sequence(leaves, **options)
    return out, gradient(lib, out, leaves[0]), leaves[1].grad


def unchanged(lib):
    found = packed(lib)
    return found.to(lib.float32) is found


RNN_TOOLS = {
    "pack": lambda lib: tuple(packed(lib)),
    "pack batch first": lambda lib: tuple(packed(lib, batch_first=True)),
    "pack sorted": lambda lib: tuple(packed(lib, (3, 2, 2), enforce_sorted=True))[:2],
    "pack lengths as a tensor": lambda lib: tuple(
        lib.nn.utils.rnn.pack_padded_sequence(padded(lib), lib.tensor([4, 3, 1]))
    )[:2],
    "pack a matrix of labels": lambda lib: tuple(
        lib.nn.utils.rnn.pack_padded_sequence(lib.arange(6).reshape(2, 3), [2, 1, 1])
    )[:2],
    "pack gradient": packing_gradient,
    "pack unsorted refused": lambda lib: packed(lib, enforce_sorted=True),
    "pack too few lengths": lambda lib: packed(lib, (4, 3), enforce_sorted=True),
    "pack a length of 0": lambda lib: packed(lib, (3, 4, 0)),
    "pack lengths of 2 dimensions": lambda lib: lib.nn.utils.rnn.pack_padded_sequence(
        padded(lib), lib.tensor([[3, 2, 1]])
    ),
    "pack nothing": lambda lib: lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(2, 0), []),
    "pad": lambda lib: lib.nn.utils.rnn.pad_packed_sequence(packed(lib)),
    "pad batch first": lambda lib: lib.nn.utils.rnn.pad_packed_sequence(
        packed(lib), batch_first=True, padding_value=-1.5
    ),
    "pad longer": lambda lib: lib.nn.utils.rnn.pad_packed_sequence(packed(lib), total_length=6),
    "pad shorter refused": lambda lib: lib.nn.utils.rnn.pad_packed_sequence(
        packed(lib), total_length=2
    ),
    "pad gradient": padding_gradient,
    "pad gradient longer": lambda lib: padding_gradient(
        lib, total_length=5, batch_first=True, padding_value=3.0
    ),
    "stack": lambda lib: lib.nn.utils.rnn.pad_sequence(sequences(lib)),
    "stack left": lambda lib: lib.nn.utils.rnn.pad_sequence(
        sequences(lib), batch_first=True, padding_value=0.5, padding_side="left"
    ),
    "stack integers": lambda lib: lib.nn.utils.rnn.pad_sequence(
        [lib.tensor([1, 2]), lib.tensor([3])], padding_value=9
    ),
    "stack a generator": lambda lib: lib.nn.utils.rnn.pad_sequence(x for x in sequences(lib)),
    "stack a tensor": lambda lib: lib.nn.utils.rnn.pad_sequence(normal(lib, 2, 3)),
    "stack gradient": stacked_gradient,
    "stack left gradient": lambda lib: stacked_gradient(lib, padding_side="left"),
    "stack nothing": lambda lib: lib.nn.utils.rnn.pad_sequence([]),
    "stack lists": lambda lib: lib.nn.utils.rnn.pad_sequence([[1, 2], [3]]),
    "stack a number": lambda lib: lib.nn.utils.rnn.pad_sequence(3),
    "stack on a third side": lambda lib: lib.nn.utils.rnn.pad_sequence(
        sequences(lib), padding_side="top"
    ),
    "stack other shapes": lambda lib: lib.nn.utils.rnn.pad_sequence(
        [lib.zeros(2, 3), lib.zeros(2, 4)]
    ),
    "unpad": lambda lib: tuple(
        lib.nn.utils.rnn.unpad_sequence(normal(lib, 4, 3), lib.tensor([2, 4, 1]))
    ),
    "unpad batch first": lambda lib: tuple(
        lib.nn.utils.rnn.unpad_sequence(normal(lib, 2, 3), lib.tensor([2, 3]), batch_first=True)
    ),
    "unpad too few lengths": lambda lib: lib.nn.utils.rnn.unpad_sequence(
        normal(lib, 4, 3), lib.tensor([2, 4])
    ),
    "pack a list": lambda lib: tuple(
        lib.nn.utils.rnn.pack_sequence(sequences(lib), enforce_sorted=False)
    ),
    "pack a list refused": lambda lib: lib.nn.utils.rnn.pack_sequence(sequences(lib)),
    "unpack": lambda lib: tuple(lib.nn.utils.rnn.unpack_sequence(packed(lib))),
    "inverse": lambda lib: lib.nn.utils.rnn.invert_permutation(lib.tensor([2, 0, 1])),
    "inverse of none": lambda lib: lib.nn.utils.rnn.invert_permutation(None),
    "made of a pair": lambda lib: tuple(
        lib.nn.utils.rnn.PackedSequence((normal(lib, 3), lib.tensor([2, 1])))
    ),
    "made of a tensor": lambda lib: lib.nn.utils.rnn.PackedSequence(normal(lib, 3)),
    "converted": lambda lib: tuple(packed(lib).double()),
    "conversions": lambda lib: tuple(
        str(getattr(packed(lib), kind)().data.dtype).split(".")[1]
        for kind in ("float", "half", "long", "int", "short", "char", "byte")
    ),
    "where": lambda lib: (packed(lib).cpu().is_cuda, packed(lib).is_pinned()),
    "the same dtype": unchanged,
}


@pytest.mark.parametrize("name", RNN_TOOLS)
def test_rnn_tools(name):
    check(RNN_TOOLS[name], CLOSE)
