"""Reading and writing by index against PyTorch: values, gradients, nodes, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.conformance.operators import Row, compare, table

RANDOM = np.random.default_rng(2)
A = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
M = RANDOM.standard_normal((3, 4)).astype(np.float32)
V = RANDOM.standard_normal(4).astype(np.float32)
TWO = RANDOM.standard_normal((2, 4)).astype(np.float32)
S = np.array(2.5, np.float32)
WHOLE = np.arange(12).reshape(3, 4)
NUMBERS = np.arange(1, 13).reshape(3, 4).astype(np.float32)
MASK = np.array([[True, False, True, True], [False] * 4, [False, True, False, True]])
ROWS = np.array([2, 0, 2])
INDEX = np.array([[0, 2, 1, 0], [2, 2, 0, 1]])


def row(name: str, compute: Any, *inputs: np.ndarray, node: bool = True) -> Row:
    return Row(name, compute, inputs, node=node)


def tensor_of(lib: Any, array: Any) -> Any:
    return lib.tensor(np.asarray(array).tolist(), dtype=getattr(lib, np.asarray(array).dtype.name))


# What may stand in a subscript of a tensor of shape [2, 3, 4], as a function of the library

SUBSCRIPTS: dict[str, Callable[[Any], Any]] = {
    "an integer": lambda lib: 1,
    "a negative integer": lambda lib: -2,
    "integers": lambda lib: (1, -1, 2),
    "an integer out of range": lambda lib: 2,
    "a second integer out of range": lambda lib: (0, -4),
    "a slice": lambda lib: slice(0, 1),
    "a whole slice": lambda lib: slice(None),
    "slices with steps": lambda lib: (slice(None), slice(0, None, 2), slice(-3, None, 2)),
    "slices beyond the end": lambda lib: (slice(-9, 9), slice(2, 99)),
    "an empty slice": lambda lib: (0, slice(2, 1)),
    "a backward slice": lambda lib: slice(None, None, -1),
    "a slice of step 0": lambda lib: slice(None, None, 0),
    "a slice of floats": lambda lib: slice(0.0, 1.0),
    "a slice of tensors": lambda lib: slice(lib.tensor(0), lib.tensor(1)),
    "None": lambda lib: None,
    "None between": lambda lib: (0, None, slice(1, None), None),
    "an ellipsis": lambda lib: ...,
    "an ellipsis before": lambda lib: (..., 1),
    "an ellipsis between": lambda lib: (0, ..., slice(1, 3)),
    "two ellipses": lambda lib: (..., 1, ...),
    "True": lambda lib: True,
    "False": lambda lib: False,
    "True between": lambda lib: (slice(None), True, 1),
    "an empty tuple": lambda lib: (),
    "too many integers": lambda lib: (0, 0, 0, 0),
    "a float": lambda lib: 1.0,
    "an object": lambda lib: object(),
    "a NumPy integer": lambda lib: (np.int64(1), np.int32(0)),
    "an integer tensor": lambda lib: lib.tensor(1),
    "an integer tensor out of range": lambda lib: lib.tensor(5),
    "a bool tensor of no dimensions": lambda lib: lib.tensor(True),
    "a float tensor": lambda lib: lib.tensor([1.0]),
    "an int16 tensor": lambda lib: lib.tensor([1], dtype=lib.int16),
    "an int32 tensor": lambda lib: lib.tensor([1], dtype=lib.int32),
    "a uint8 mask": lambda lib: lib.tensor([1, 0], dtype=lib.uint8),
    "a list": lambda lib: [1, 0, 1, 1],
    "an empty list": lambda lib: [],
    "a list out of range": lambda lib: [0, 2],
    "a list of bools": lambda lib: [True, False],
    "a list of lists": lambda lib: [[0, 1], [2, 2]],
    "a list of slices": lambda lib: [slice(0, 1), slice(1, 3)],
    "a range": lambda lib: range(2),
    "a NumPy array": lambda lib: np.array([1, -2, 0]),
    "a NumPy mask": lambda lib: np.array([True, False]),
    "a matrix of indices": lambda lib: lib.tensor([[1, 0, 1], [0, 0, 1]]),
    "two lists": lambda lib: ([1, 0, 0], [2, 2, 2]),
    "two lists that broadcast": lambda lib: ([[1], [0]], [2, 0, 1]),
    "two lists that do not": lambda lib: ([0, 1], [0, 1, 2]),
    "lists apart": lambda lib: ([1, 0], slice(None), [3, 3]),
    "lists apart by None": lambda lib: ([1, 0], None, [2, 2]),
    "a list behind a slice": lambda lib: (slice(None), [2, 2, 0]),
    "lists behind a slice": lambda lib: (slice(0, 1), [2, 2], [3, 3]),
    "a list behind an integer": lambda lib: (1, slice(None), [3, 3, 0]),
    "an integer behind a list": lambda lib: ([1, 1], slice(None), 2),
    "a list behind None": lambda lib: (None, [1, 1]),
    "a list behind an ellipsis": lambda lib: (..., [1, 1, 0]),
    "a list with True": lambda lib: (True, [1, 1]),
    "a mask of everything": lambda lib: tensor_of(lib, A > 0),
    "a mask of the first two": lambda lib: tensor_of(lib, A[:, :, 0] > 0),
    "a mask of the last two": lambda lib: (0, tensor_of(lib, MASK)),
    "a mask behind a slice": lambda lib: (slice(None), tensor_of(lib, MASK)),
    "a mask beside a list": lambda lib: (tensor_of(lib, [True, False]), slice(None), [3]),
    "a mask of nothing": lambda lib: tensor_of(lib, np.zeros((2, 3), bool)),
    "a mask that does not fit": lambda lib: tensor_of(lib, [True, False, True]),
    "a second mask that does not fit": lambda lib: (slice(None), tensor_of(lib, [True, False])),
}


def read_rows() -> Iterator[Row]:
    for name, subscript in SUBSCRIPTS.items():
        yield row(f"read {name}", lambda lib, x, s=subscript: x[s(lib)], A, node="two" not in name)
    for name in ("an integer", "a whole slice", "None", "an ellipsis", "True", "an empty tuple"):
        subscript = SUBSCRIPTS[name]
        yield row(f"read {name} of 0-d", lambda lib, x, s=subscript: x[s(lib)], S)
    yield row("read a part of a part", lambda lib, x: x[1][:, 1:][[0, 0]], A)
    yield row("iterate", lambda lib, x: tuple(each * 2 for each in x), A)
    yield row("iterate 0-d", lambda lib, x: tuple(x), S)


def assign(x: Any, subscript: Any, value: Any) -> Any:
    written = x * 1
    written[subscript] = value
    return written


def write_rows() -> Iterator[Row]:
    for name, subscript in SUBSCRIPTS.items():
        if name == "a uint8 mask":
            continue  # PyTorch reads by such a mask, but does not write
        # PyTorch's nodes tell in which of several ways it has carried such a write out.
        yield row(
            f"write a number to {name}",
            lambda lib, x, s=subscript: assign(x, s(lib), 7.5),
            A,
            node=False,
        )
        yield row(
            f"write a tensor to {name}",
            lambda lib, x, y, s=subscript: assign(x, s(lib), y * 1),
            A,
            S,
            node=False,
        )
    whole = slice(None)
    yield row("write a row", lambda lib, x, y: assign(x, 1, y), A, V)
    yield row("write with leading ones", lambda lib, x, y: assign(x, 1, y[None, None]), A, M)
    yield row("write a wrong shape", lambda lib, x, y: assign(x, 1, y[:3]), A, V)
    yield row("write a wrong shape to a list", lambda lib, x, y: assign(x, [1], y[:3]), A, V)
    yield row("write rows to a list", lambda lib, x, y: assign(x, (0, [2, 0]), y[:2]), A, M)
    yield row("write to one place twice", lambda lib, x, y: assign(x, [0, 1], y), A, M)
    yield row("write to a mask", lambda lib, x, y: assign(x, x > 1e9, y[:0, 0]), M, M)
    yield row(
        "write values to a mask",
        lambda lib, x, y: assign(x, tensor_of(lib, MASK), y[0, :5]),
        M,
        A.reshape(2, 12),
    )
    yield row(
        "write too many values to a mask",
        lambda lib, x, y: assign(x, tensor_of(lib, MASK), y[0]),
        M,
        A.reshape(2, 12),
    )
    yield row("write rows to a mask", lambda lib, x, y: assign(x, [True, False, True], y[:2]), M, M)
    yield row("write one row to a mask", lambda lib, x, y: assign(x, [True, False, True], y), M, V)
    yield row("write integers to floats", lambda lib, x: assign(x, 0, lib.tensor([1, 2, 3, 4])), M)
    yield row("write floats to integers", lambda lib, x, y: assign(x, 0, y * 3), WHOLE, V)
    yield row("write a float to integers", lambda lib, x: assign(x, 0, -2.7), WHOLE)
    yield row("write a complex number", lambda lib, x: assign(x, 0, 1j), M)
    yield row("write too large a number", lambda lib, x: assign(x.to(lib.uint8), 0, 300), WHOLE)
    yield row("write a dtype to a list", lambda lib, x: assign(x, [0], lib.ones(4).double()), M)
    yield row("write a list", lambda lib, x: assign(x, 0, [1.0, 2.0, 3.0, 4.0]), M)
    yield row("write an array", lambda lib, x: assign(x, 0, np.ones(4)), M)
    yield row("write to bools", lambda lib, x: assign(x, (0, 0), 7), MASK)
    yield row("write to 0-d", lambda lib, x: assign(x, (), 3.0), S, node=False)
    yield row("write by index to 0-d", lambda lib, x: assign(x, 0, 3.0), S)
    yield row("write to a leaf", lambda lib, x: x.__setitem__(0, 1.0), M)
    yield row("write by list to a leaf", lambda lib, x: x.__setitem__([0], 1.0), M)
    yield row("write nothing to a leaf of integers", lambda lib, x: assign(x, whole, 0), WHOLE)
    yield row("add in place by index", lambda lib, x, y: add_at(x, 1, y), M, V)
    yield row("add in place by list", lambda lib, x, y: add_at(x, [1, 1], y), M, V)
    yield row("add in place by mask", lambda lib, x, y: add_at(x, tensor_of(lib, MASK), y[0]), M, V)
    yield row(
        "add in place by slice", lambda lib, x, y: add_at(x, (whole, slice(1, 3)), y[:2]), M, V
    )


def add_at(x: Any, subscript: Any, value: Any) -> Any:
    written = x * 1
    written[subscript] += value
    return written


def gather_rows() -> Iterator[Row]:
    yield row("gather", lambda lib, x, i: (x.gather(0, i), lib.gather(x, -1, i)), M, INDEX)
    yield row("gather int32", lambda lib, x, i: x.gather(0, i.int()), M, INDEX)
    yield row("gather 0-d", lambda lib, x: x.gather(0, lib.tensor(0)), S)
    yield row("gather nothing", lambda lib, x: x.gather(0, lib.zeros(0, dtype=lib.int64)), M)
    yield row("gather by floats", lambda lib, x: x.gather(0, x), M)
    yield row("gather too wide", lambda lib, x, i: x[:, :2].gather(0, i), M, INDEX)
    yield row("gather by a vector", lambda lib, x, i: x.gather(0, i), M, ROWS)
    yield row("gather out of range", lambda lib, x, i: x.gather(0, i + 1), M, INDEX)
    yield row("gather negative", lambda lib, x, i: x.gather(0, i - 1), M, INDEX)
    yield row("gather beyond", lambda lib, x, i: x.gather(2, i), M, INDEX)
    yield row("take_along_dim", lambda lib, x, i: lib.take_along_dim(x, i[:, :1] - 1, 0), M, INDEX)
    yield row(
        "take_along_dim, flat", lambda lib, x, i: x.take_along_dim(i * 3), M, INDEX, node=False
    )
    yield row("take_along_dim of a vector", lambda lib, x, i: x.take_along_dim(i, 0), M, ROWS)
    yield row("take_along_dim unequal", lambda lib, x, i: x[:, :3].take_along_dim(i, 0), M, INDEX)
    yield row("take", lambda lib, x, i: (x.take(i * 5 - 1), lib.take(x, i[0])), M, INDEX)
    yield row("take out of range", lambda lib, x, i: x.take(i + 11), M, INDEX)
    yield row("take by int32", lambda lib, x, i: x.take(i.int()), M, INDEX)
    yield row(
        "index_select", lambda lib, x, i: (x.index_select(0, i), lib.index_select(x, 1, i)), M, ROWS
    )
    yield row("index_select by a number", lambda lib, x: x.index_select(0, lib.tensor(1)), M)
    yield row("index_select of 0-d", lambda lib, x: x.index_select(0, lib.tensor([0])) * 1, S)
    yield row("index_select out of range", lambda lib, x, i: x.index_select(0, i + 1), M, ROWS)
    yield row("index_select negative", lambda lib, x, i: x.index_select(0, i - 1), M, ROWS)
    yield row("index_select by a matrix", lambda lib, x, i: x.index_select(0, i), M, INDEX)
    yield row("index_select by floats", lambda lib, x: x.index_select(0, x[0]), M)
    yield row(
        "masked_select", lambda lib, x, m: (x.masked_select(m), lib.masked_select(x, m[0])), M, MASK
    )
    yield row("masked_select 0-d", lambda lib, x: x.masked_select(x > 0), S)
    yield row("masked_select by floats", lambda lib, x: x.masked_select(x), M)
    yield row("masked_select unequal", lambda lib, x, m: x.masked_select(m[:, :3]), M, MASK)
    yield row(
        "nonzero", lambda lib, m: (m.nonzero(), lib.argwhere(m), *m.nonzero(as_tuple=True)), MASK
    )
    yield row(
        "nonzero_static",
        lambda lib, m: (lib.nonzero_static(m, size=2), m.nonzero_static(size=7, fill_value=9)),
        MASK,
    )
    yield row("nonzero_static of a negative size", lambda lib, m: m.nonzero_static(size=-1), MASK)
    yield row("nonzero_static of 0-d", lambda lib, x: x.nonzero_static(size=2), S)
    yield row("nonzero of 0-d", lambda lib, x: (x.nonzero(), *x.nonzero(as_tuple=True)), S)
    yield row("nonzero of zero", lambda lib, x: (x - x).nonzero(), S)
    yield row("where alone", lambda lib, x: lib.where(x > 0), M)


def scatter_rows() -> Iterator[Row]:
    yield row("scatter", lambda lib, x, y: x.scatter(0, lib.tensor([[0, 2, 1, 0]]), y[:1]), M, M)
    yield row("scatter twice to a place", lambda lib, x, i: x.scatter(0, i * 0, 2.0), M, INDEX)
    yield row("scatter a number", lambda lib, x, i: lib.scatter(x, 1, i, value=-1), M, INDEX)
    yield row(
        "scatter a 0-d tensor", lambda lib, x, i, y: x.scatter(1, i, value=y.detach()), M, INDEX, S
    )
    yield row("scatter 0-d", lambda lib, x, y: x.scatter(0, lib.tensor(0), y), S, S)
    yield row(
        "scatter_", lambda lib, x, y: (x * 1).scatter_(1, lib.tensor([[3], [0]]), y[:2, :1]), M, M
    )
    yield row("scatter another dtype", lambda lib, x, i: x.scatter(0, i, i), M, INDEX)
    yield row("scatter too wide", lambda lib, x, i: x[:, :2].scatter(0, i, 1.0), M, INDEX)
    yield row("scatter too few", lambda lib, x, i, y: x.scatter(0, i, y[:1]), M, INDEX, M)
    yield row("scatter out of range", lambda lib, x, i: x.scatter(0, i + 1, 1.0), M, INDEX)
    yield row("scatter by floats", lambda lib, x: x.scatter(0, x, 1.0), M)
    yield row("scatter beyond", lambda lib, x, i: x.scatter(2, i, 1.0), M, INDEX)
    yield row(
        "scatter and do not know how",
        lambda lib, x, i: x.scatter(0, i, 1.0, reduce="mean"),
        M,
        INDEX,
    )
    for reduce in ("add", "multiply"):
        yield Row(
            f"scatter and {reduce}",
            lambda lib, x, i, y, r=reduce: (
                x.scatter(0, i, y, reduce=r),
                x.clone().scatter_(1, i, 2.0, reduce=r),
            ),
            (M, INDEX, M),
            gradient=False,
            node=False,
        )
    yield row(
        "scatter_add",
        lambda lib, x, i, y: (x.scatter_add(0, i, y), (x * 1).scatter_add_(1, i, y)),
        M,
        INDEX,
        TWO,
    )
    yield row("scatter_add another dtype", lambda lib, x, i: x.scatter_add(0, i, i), M, INDEX)
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for own in (True, False):
            yield row(
                f"scatter_reduce {reduce} {own}",
                lambda lib, x, i, y, r=reduce, o=own: x.scatter_reduce(0, i, y, r, include_self=o),
                M,
                INDEX,
                TWO,
            )
        yield row(
            f"scatter_reduce {reduce} of integers",
            lambda lib, x, i, r=reduce: x.scatter_reduce(1, i, x * 7 - 5, r),
            WHOLE,
            INDEX,
        )
    yield row(
        "scatter_reduce equal ones",
        lambda lib, x, i, y: (x * 0 + 1).scatter_reduce(0, i, y * 0 + 1, "amax"),
        M,
        INDEX,
        TWO,
    )
    yield row(
        "scatter_reduce a product with zeros",
        lambda lib, x, i, y: x.scatter_reduce(
            0, i, y - lib.tensor([1.0, 6, 3, 8]), "prod", include_self=False
        ),
        NUMBERS,
        INDEX,
        NUMBERS[:2],
    )
    yield row(
        "scatter_reduce something else",
        lambda lib, x, i: x.scatter_reduce(0, i, x, "max"),
        M,
        INDEX,
    )
    yield row(
        "scatter_reduce_",
        lambda lib, x, i, y: (x * 1).scatter_reduce_(0, i, y, "mean"),
        M,
        INDEX,
        TWO,
    )


def index_rows() -> Iterator[Row]:
    add = "index_add"
    yield row(
        add,
        lambda lib, x, i, y: (x.index_add(0, i, y, alpha=-2), x.index_add_ and x * 1),
        M,
        ROWS,
        M,
    )
    yield row(
        f"{add} by columns", lambda lib, x, i, y: lib.index_add(x, 1, i, y[:, :3]), M, ROWS, M
    )
    yield row(f"{add} in place", lambda lib, x, i, y: (x * 1).index_add_(0, i, y), M, ROWS, M)
    yield row(f"{add} 0-d", lambda lib, x: x.index_add(0, lib.tensor([0]), x), S)
    yield row(f"{add} another dtype", lambda lib, x, i: x.index_add(0, i, x.double()), M, ROWS)
    yield row(f"{add} unequal", lambda lib, x, i, y: x.index_add(0, i, y[:, :2]), M, ROWS, M)
    yield row(f"{add} too few", lambda lib, x, i, y: x.index_add(0, i, y[:2]), M, ROWS, M)
    yield row(f"{add} by a matrix", lambda lib, x, i, y: x.index_add(0, i, y), M, INDEX, M)
    yield row(f"{add} by floats", lambda lib, x: x.index_add(0, x[0], x), M)
    yield row(f"{add} out of range", lambda lib, x, i, y: x.index_add(0, i + 1, y), M, ROWS, M)
    yield row("index_copy", lambda lib, x, i, y: x.index_copy(0, i[:2], y[:2]), M, ROWS, M)
    yield row(
        "index_copy in place",
        lambda lib, x, i, y: (x * 1).index_copy_(1, i[1:], y[:, :2]),
        M,
        ROWS,
        M,
    )
    yield row("index_copy too few", lambda lib, x, i, y: x.index_copy(0, i, y[:2]), M, ROWS, M)
    yield row("index_copy another dtype", lambda lib, x, i: x.index_copy(0, i, x.double()), M, ROWS)
    yield row("index_copy out of range", lambda lib, x, i, y: x.index_copy(0, i + 1, y), M, ROWS, M)
    yield row("index_copy by int32", lambda lib, x, i, y: x.index_copy(0, i.int(), y), M, ROWS, M)
    yield row("index_copy by a matrix", lambda lib, x, i, y: x.index_copy(0, i, y), M, INDEX, M)
    yield row(
        "index_fill",
        lambda lib, x, i: (x.index_fill(0, i, 2), (x * 1).index_fill_(1, i - 3, 0.5)),
        M,
        ROWS,
    )
    yield row(
        "index_fill by a tensor", lambda lib, x, i, y: x.index_fill(0, i, y), M, ROWS, S, node=False
    )
    yield row("index_fill by a vector", lambda lib, x, i, y: x.index_fill(0, i, y), M, ROWS, V)
    yield row("index_fill out of range", lambda lib, x, i: x.index_fill(0, i + 1, 1.0), M, ROWS)
    yield row("index_fill a complex number", lambda lib, x, i: x.index_fill(0, i, 1j), M, ROWS)
    yield row("index_fill by int32", lambda lib, x, i: x.index_fill(0, i.int(), 1.0), M, ROWS)
    for reduce in ("prod", "mean", "amax", "amin"):
        for own in (True, False):
            yield row(
                f"index_reduce {reduce} {own}",
                lambda lib, x, i, y, r=reduce, o=own: x.index_reduce(0, i, y, r, include_self=o),
                M,
                ROWS,
                -M,
            )
    yield row("index_reduce a sum", lambda lib, x, i: x.index_reduce(0, i, x, "sum"), M, ROWS)
    put = "index_put"
    yield row(put, lambda lib, x, i, y: x.index_put((i,), y), M, ROWS, M)
    yield row(
        f"{put} accumulating", lambda lib, x, i, y: x.index_put((i, i), y[0, :3], True), M, ROWS, M
    )
    yield row(
        f"{put} in place", lambda lib, x, i, y: (x * 1).index_put_((i, i + 1), y[0, 0]), M, ROWS, M
    )
    yield row(
        f"{put} by mask",
        lambda lib, x, m, y: x.index_put((m,), y[0, 0], accumulate=True),
        M,
        MASK,
        M,
    )
    yield row(f"{put} another dtype", lambda lib, x, i: x.index_put((i,), lib.tensor(1)), M, ROWS)
    yield row(f"{put} unequal", lambda lib, x, i, y: x.index_put((i,), y[:2]), M, ROWS, M)
    yield row(f"{put} too many", lambda lib, x, i: x.index_put((i, i, i), x[0, 0]), M, ROWS)
    yield row(f"{put} without a tuple", lambda lib, x: x.index_put((None,), x[0]), M)
    yield row(
        "put",
        lambda lib, x, i, y: (x.put(i - 1, y[0, :3]), x.put(i, y[0, :3], accumulate=True)),
        M,
        ROWS,
        M,
    )
    yield row("put_", lambda lib, x, i, y: (x * 1).put_(i[:2], y[0, :2]), M, ROWS, M)
    yield row("put too few", lambda lib, x, i, y: x.put(i, y[0, :2]), M, ROWS, M)
    yield row("put out of range", lambda lib, x, i, y: x.put(i + 10, y[0, :3]), M, ROWS, M)
    yield row("put another dtype", lambda lib, x, i: x.put(i, i), M, ROWS)


def mask_rows() -> Iterator[Row]:
    yield row(
        "masked_fill",
        lambda lib, x, m: (x.masked_fill(m, 2), lib.masked_fill(x[0], m, -1.5)),
        M,
        MASK,
    )
    yield row(
        "masked_fill by a tensor", lambda lib, x, m, y: x.masked_fill(m, y), M, MASK, S, node=False
    )
    yield row("masked_fill_", lambda lib, x, m: (x * 1).masked_fill_(m[0], float("-inf")), M, MASK)
    yield row(
        "masked_fill_ of a small one", lambda lib, x, m: (x[0] * 1).masked_fill_(m, 1.0), M, MASK
    )
    yield row("masked_fill by floats", lambda lib, x: x.masked_fill(x, 1.0), M)
    yield row("masked_fill by a vector", lambda lib, x, m, y: x.masked_fill(m, y), M, MASK, V)
    yield row("masked_fill of integers", lambda lib, x, m: x.masked_fill(m, 1.5), WHOLE, MASK)
    yield row("masked_fill a complex number", lambda lib, x, m: x.masked_fill(m, 1j), M, MASK)
    yield row(
        "masked_scatter",
        lambda lib, x, m, y: (x.masked_scatter(m, y), x.masked_scatter(m[0], y)),
        M,
        MASK,
        M,
    )
    yield row("masked_scatter_", lambda lib, x, m, y: (x * 1).masked_scatter_(m, y), M, MASK, M)
    yield row("masked_scatter too few", lambda lib, x, m, y: x.masked_scatter(m, y[0]), M, MASK, M)
    yield row(
        "masked_scatter another dtype", lambda lib, x, m: x.masked_scatter(m, x.double()), M, MASK
    )
    yield row("masked_scatter by floats", lambda lib, x: x.masked_scatter(x, x), M)
    yield row(
        "select_scatter",
        lambda lib, x, y: (x.select_scatter(y, 0, -1), lib.select_scatter(x, y[:3], 1, 2)),
        M,
        V,
    )
    yield row("select_scatter unequal", lambda lib, x, y: x.select_scatter(y[:2], 0, 0), M, V)
    yield row("select_scatter out of range", lambda lib, x, y: x.select_scatter(y, 0, 3), M, V)
    yield row(
        "slice_scatter",
        lambda lib, x, y: (x.slice_scatter(y[1:], 0, 0, 2), x.slice_scatter(y[:, :2], 1, 0, 9, 2)),
        M,
        M,
    )
    yield row("slice_scatter of everything", lambda lib, x, y: lib.slice_scatter(x, y), M, M)
    yield row("slice_scatter unequal", lambda lib, x, y: x.slice_scatter(y, 0, 1), M, M)
    yield row(
        "diagonal_scatter",
        lambda lib, x, y: (x.diagonal_scatter(y[:3]), x.diagonal_scatter(y[:2], -1)),
        M,
        V,
    )
    yield row("diagonal_scatter unequal", lambda lib, x, y: x.diagonal_scatter(y), M, V)


@table(read_rows())
def test_reading(row: Row) -> None:
    compare(row)


@table(write_rows())
def test_writing(row: Row) -> None:
    compare(row)


@table(gather_rows())
def test_gathering(row: Row) -> None:
    compare(row)


@table(scatter_rows())
def test_scattering(row: Row) -> None:
    compare(row)


@table(index_rows())
def test_index_writes(row: Row) -> None:
    compare(row)


@table(mask_rows())
def test_masks(row: Row) -> None:
    compare(row)
