"""Packing and padding sequences with both libraries."""

import copy
import pickle

import numpy as np
import pytest

from tests.conformance.expression import check
from tests.conformance.small_layers import normal, tensor
from tests.nn.utils.looks import matched, spread

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


def plain(value):
    """Nested tuples as one, with what ``==`` compares in place of other objects."""
    if isinstance(value, tuple | list):
        return tuple(leaf for each in value for leaf in plain(each))
    return (value,)


# What a named tuple can be asked, before anybody has looked at its steps.
LOOKS = {
    "unpacked": lambda p: spread(*p),
    "indices": lambda p: (p[0], p[-1], p[1:3], p[::-1], len(p)),
    "matched": matched,
    "joined": lambda p: (p + (1,), (1,) + p, p * 2, 2 * p),  # noqa: RUF005
    "found": lambda p: (p.data in p, p.index(p.data), p.count(p.data)),
    "equal": lambda p: (p == p, p != p, p == tuple(p), p == 3),
    "replaced": lambda p: p._replace(data=p.data * 2),
    "named": lambda p: (p._fields, p._asdict()["data"]),
    "copied": copy.copy,
    "pickled": lambda p: pickle.loads(pickle.dumps(p.to(p.data.dtype))),
}


def looked_at(name):
    def look(lib):
        found = lib.nn.utils.rnn.pack_padded_sequence(
            padded(lib).detach(), [3, 4, 1], enforce_sorted=False
        )
        return plain(LOOKS[name](found))

    return look


def written(lib, place):
    input = lib.zeros(4, 3, 2)
    found = lib.nn.utils.rnn.pack_padded_sequence(input, [4, 2, 1])
    (input if place == "input" else found.data).fill_(1.0)
    return input, *lib.nn.utils.rnn.pad_packed_sequence(found), found.data


def course(lib, look=False, state=False, **options):
    """Through layers of an LSTM and back, by the padded form alone or by the steps as well."""
    layer = lib.nn.LSTM(2, 3, **options)
    for number, weight in enumerate(layer.parameters()):
        weight.data.copy_(normal(lib, *weight.shape, seed=number))
    leaf = padded(lib)
    rnn = lib.nn.utils.rnn
    given = rnn.pack_padded_sequence(leaf * 0.1, [3, 4, 1], enforce_sorted=False)
    count = len(layer.all_weights)
    sizes = (options.get("proj_size") or 3, 3)
    first = tuple(normal(lib, count, 3, size) for size in sizes) if state else None
    out, (hidden, cell) = layer(given, first)
    back, lengths = rnn.pad_packed_sequence(out, padding_value=0.5)
    loss = (back**2).sum() + (hidden * cell.sum()).sum()
    if look:
        loss = loss + (out.data**3).sum() + (given.data**2).sum()
    loss.backward()
    gradients = [weight.grad for weight in layer.parameters()]
    return back, lengths, hidden, cell, leaf.grad, *gradients, *out[1:]


def of_steps(lib, with_order):
    """Through a GRU from steps that the user has packed."""
    leaf = normal(lib, 6, 2).requires_grad_()
    order = lib.tensor([2, 0, 1]) if with_order else None
    found = lib.nn.utils.rnn.PackedSequence(leaf, lib.tensor([3, 2, 1]), order)
    layer = lib.nn.GRU(2, 3, bidirectional=True)
    for number, weight in enumerate(layer.parameters()):
        weight.data.copy_(normal(lib, *weight.shape, seed=number))
    out, hidden = layer(found, normal(lib, 2, 3, 3))
    back, lengths = lib.nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=5)
    (back.sum() + (hidden**2).sum()).backward()
    return back, lengths, hidden, leaf.grad, *(each for each in out if each is not None)


def leaf_of_steps(lib):
    found = lib.nn.utils.rnn.pack_padded_sequence(padded(lib).detach(), [4, 2, 1])
    found.data.requires_grad_()
    (lib.nn.utils.rnn.pad_packed_sequence(found)[0] ** 2).sum().backward()
    return found.data.grad


def holes(lib):
    """Padding that holds no numbers."""
    input = lib.ones(4, 3, 2)
    input[3, 1:] = float("nan")
    input[1:, 2] = float("inf")
    input.requires_grad_()
    layer = lib.nn.GRU(2, 3)
    for number, weight in enumerate(layer.parameters()):
        weight.data.copy_(normal(lib, *weight.shape, seed=number))
    out, _ = layer(lib.nn.utils.rnn.pack_padded_sequence(input, [4, 3, 1]))
    back, _ = lib.nn.utils.rnn.pad_packed_sequence(out, padding_value=7.0)
    back.sum().backward()
    return back, input.grad, *(each.grad for each in layer.parameters())


def dropped(lib):
    lib.manual_seed(2)
    layer = lib.nn.LSTM(2, 3, 3, dropout=0.5)
    return layer(packed(lib))[0].data


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
    "pack a vector": lambda lib: lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(3), [1]),
    "pack an empty sequence": lambda lib: lib.nn.utils.rnn.pack_sequence(
        [lib.ones(2), lib.ones(0)]
    ),
    "pack no sequences": lambda lib: lib.nn.utils.rnn.pack_sequence([]),
    "write to the padded batch": lambda lib: written(lib, "input"),
    "write to the steps": lambda lib: written(lib, "steps"),
    "gradient of the steps": leaf_of_steps,
    "layers": course,
    "layers and steps": lambda lib: course(lib, look=True, num_layers=2),
    "layers both ways": lambda lib: course(lib, look=True, num_layers=2, bidirectional=True),
    "layers from a state": lambda lib: course(lib, state=True, bidirectional=True),
    "layers projected": lambda lib: course(lib, state=True, num_layers=2, proj_size=2),
    "layers of steps": lambda lib: of_steps(lib, with_order=False),
    "layers of steps in another order": lambda lib: of_steps(lib, with_order=True),
    "layers drop what PyTorch's drop": dropped,
    "layers with holes in the padding": holes,
    "layers of a vector": lambda lib: lib.nn.GRU(2, 3)(
        lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(2, 3), [2, 1, 1])
    ),
    "layers of other features": lambda lib: lib.nn.GRU(3, 3)(packed(lib)),
    "layers of another dtype": lambda lib: lib.nn.GRU(2, 3)(packed(lib).double()),
    "layers from a smaller state": lambda lib: lib.nn.GRU(2, 3)(packed(lib), lib.zeros(1, 2, 3)),
    **{f"{name} as a tuple": looked_at(name) for name in LOOKS},
}


@pytest.mark.parametrize("name", RNN_TOOLS)
def test_rnn_tools(name):
    check(RNN_TOOLS[name], CLOSE)
