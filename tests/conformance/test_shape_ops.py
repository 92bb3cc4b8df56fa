"""Views, splits, joins and rearrangements against PyTorch: values, gradients, nodes, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.conformance.operators import Row, compare, table

RANDOM = np.random.default_rng(1)
A = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
M = RANDOM.standard_normal((2, 3)).astype(np.float32)
V = RANDOM.standard_normal(3).astype(np.float32)
S = np.array(2.5, np.float32)
C = (A + 1j * A[::-1]).astype(np.complex64)
WHOLE = np.arange(6).reshape(2, 3)
EMPTY = np.zeros((0, 3), np.float32)
ONES = RANDOM.standard_normal((1, 3, 1)).astype(np.float32)


def row(name: str, compute: Any, *inputs: np.ndarray, node: bool = True) -> Row:
    return Row(name, compute, inputs, gradient=bool(inputs), node=node)


def view_rows() -> Iterator[Row]:
    yield row("view", lambda lib, x: (x.view(4, 6), x.view((6, -1)), x.view(-1)), A)
    yield row("view of wrong size", lambda lib, x: x.view(5), A)
    yield row("view with two unknown sizes", lambda lib, x: x.view(-1, -1), A)
    yield row("view with a negative size", lambda lib, x: x.view(-2, 12), A)
    yield row("view with an unknown size that does not divide", lambda lib, x: x.view(-1, 5), A)
    yield row("view of nothing is ambiguous", lambda lib, x: x.view(-1, 0), EMPTY)
    yield row("view of nothing", lambda lib, x: x.view(5, 0), EMPTY)
    yield row("view without sizes", lambda lib, x: x.view(), A)
    yield row("view with a float", lambda lib, x: x.view(2.0, 12), A)
    yield row("view as int32", lambda lib, x: x.detach().view(lib.int32), A)
    yield row("view as float64", lambda lib, x: x.detach().view(lib.float64), A)
    yield row("view as int16", lambda lib, x: x.detach().view(lib.int16), A)
    yield row("view as a dtype that does not fit", lambda lib, x: x.detach().view(lib.float64), V)
    yield row("view of 0-d as a larger dtype", lambda lib, x: x.detach().view(lib.float64), S)
    yield row("reshape", lambda lib, x: (x.reshape(4, 6), lib.reshape(x, (-1,))), A)
    yield row("reshape that copies", lambda lib, x: x.transpose(0, 2).reshape(-1), A)
    yield row("reshape that need not copy", lambda lib, x: x[:, 1:].reshape(2, 2, 2, 2), A)
    yield row("reshape of wrong size", lambda lib, x: x.reshape(5), A)
    yield row("view_as", lambda lib, x: x.view_as(x.view(6, 4)), A)
    yield row("reshape_as", lambda lib, x: x.reshape_as(x.view(6, 4)), A)
    yield row("flatten", lambda lib, x: (x.flatten(), x.flatten(1), lib.flatten(x, 0, 1)), A)
    yield row("flatten 0-d", lambda lib, x: x.flatten(), S)
    yield row("flatten backwards", lambda lib, x: x.flatten(2, 1), A)
    yield row("flatten beyond", lambda lib, x: x.flatten(0, 3), A)
    yield row("unflatten", lambda lib, x: (x.unflatten(2, (2, -1)), x.unflatten(-1, [1, 4])), A)
    yield row("unflatten to a wrong size", lambda lib, x: x.unflatten(2, (3, 2)), A)
    yield row("unflatten to nothing", lambda lib, x: x.unflatten(2, ()), A)
    yield row("unflatten beyond", lambda lib, x: x.unflatten(3, (2, 2)), A)
    yield row("ravel", lambda lib, x: x.ravel(), A)
    yield row("ravel of nothing", lambda lib, x: x.ravel(), EMPTY)
    yield row("squeeze", lambda lib, x: (x.squeeze(), x.squeeze(0), x.squeeze((0, 2))), ONES)
    yield row("squeeze of a large dimension", lambda lib, x: x.squeeze(1), A)
    yield row("squeeze beyond", lambda lib, x: x.squeeze(3), A)
    yield row("squeeze twice the same", lambda lib, x: x.squeeze((0, 0)), A)
    yield row("unsqueeze", lambda lib, x: (x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(2)), A)
    yield row("unsqueeze beyond", lambda lib, x: x.unsqueeze(4), A)
    yield row("squeeze_", lambda lib, x: (x * 2).squeeze_(0), ONES, node=False)
    yield row("unsqueeze_", lambda lib, x: (x * 2).unsqueeze_(0), A, node=False)
    yield row("transpose_", lambda lib, x: (x * 2).transpose_(0, 2), A, node=False)
    yield row("t_", lambda lib, x: (x * 2).t_(), M, node=False)
    yield row("unsqueeze_ of a leaf", lambda lib, x: x.unsqueeze_(0), A)
    yield row("contiguous", lambda lib, x: x.t().contiguous(), M)


def keyword_rows() -> Iterator[Row]:
    yield row("view by names", lambda lib, x: (x.view(size=(4, 6)), x.reshape(shape=(6, 4))), A)
    yield row("view dtype by name", lambda lib, x: x.detach().view(dtype=lib.int32), A)
    yield row("permute by name", lambda lib, x: (x.permute(dims=(2, 0, 1)), x.flip(dims=[0])), A)
    yield row("expand by name", lambda lib, x: x.expand(size=(2, 3, 4)), ONES)
    yield row("repeat by name", lambda lib, x: (x.repeat(repeats=(2, 1)), x.tile(dims=(2,))), M)
    yield row("split by name", lambda lib, x: x.split(split_size=2, dim=1), A)
    yield row("split by its long name", lambda lib, x: lib.split(x, split_size_or_sections=2), A)
    yield row(
        "dimensions as axes", lambda lib, x: (*x.unbind(axis=1), x.select(axis=0, index=1)), A
    )
    yield row("transpose by names", lambda lib, x: lib.transpose(input=x, dim0=0, dim1=1), A)
    yield row("roll by names", lambda lib, x: x.roll(shifts=1, dims=0), A)


def order_rows() -> Iterator[Row]:
    yield row("permute", lambda lib, x: (x.permute(2, 0, 1), lib.permute(x, (0, -1, 1))), A)
    yield row("permute too few", lambda lib, x: x.permute(0, 1), A)
    yield row("permute twice the same", lambda lib, x: x.permute(0, 1, 1), A)
    yield row("permute beyond", lambda lib, x: x.permute(0, 1, 3), A)
    yield row("transpose", lambda lib, x: (x.transpose(0, 2), lib.transpose(x, -1, -2)), A)
    yield row("transpose beyond", lambda lib, x: x.transpose(0, 3), A)
    yield row("transpose 0-d", lambda lib, x: x.transpose(0, -1), S)
    yield row("swapaxes", lambda lib, x: (x.swapaxes(0, 1), x.swapdims(0, 2)), A)
    yield row("t", lambda lib, x: (x.t(), x.T, x.mT, x.H, x.mH, x.adjoint()), M)
    yield row("t of a vector", lambda lib, x: (x.t(), lib.t(x)), V)
    yield row("t of three dimensions", lambda lib, x: x.t(), A)
    yield row("mT of a batch", lambda lib, x: (x.mT, x.mH), A)
    yield row("mT of a vector", lambda lib, x: x.mT, V)
    yield row("H of a batch", lambda lib, x: x.H, A)
    yield row("mH of complex numbers", lambda lib, x: x.mH * 1, C)
    yield row("movedim", lambda lib, x: (x.movedim(0, 2), x.moveaxis((0, 1), (-1, 0))), A)
    yield row("movedim of different numbers", lambda lib, x: x.movedim((0, 1), (2,)), A)
    yield row("movedim twice the same", lambda lib, x: x.movedim((0, 0), (1, 2)), A)
    yield row("movedim beyond", lambda lib, x: x.movedim(0, 3), A)
    yield row("expand", lambda lib, x: (x.expand(2, 3, 4), x.expand(5, -1, 3, -1)), ONES)
    yield row(
        "expand_as", lambda lib, x, y: (x.expand_as(y), lib.broadcast_to(x, (2, 3, 4))), ONES, A
    )
    yield row("broadcast_to sizes", lambda lib, x: x.broadcast_to(2, 3, 4), ONES)
    yield row("expand of a large dimension", lambda lib, x: x.expand(3, 3, 4), A)
    yield row("expand to too few sizes", lambda lib, x: x.expand(3, 4), A)
    yield row("expand with -1 for a new one", lambda lib, x: x.expand(-1, 2, 3, 4), A)
    yield row("real", lambda lib, x: (x.real, x.imag, lib.view_as_real(x)), C)
    yield row("real of real numbers", lambda lib, x: x.real * 1, A)
    yield row("imag of real numbers", lambda lib, x: x.imag, A)
    yield row("view_as_real of real numbers", lambda lib, x: lib.view_as_real(x), A)
    yield row("view_as_complex", lambda lib, x: lib.view_as_complex(x.view(2, 3, 2, 2)), A)
    yield row("view_as_complex of no pairs", lambda lib, x: lib.view_as_complex(x), A)
    yield row("view_as_complex of integers", lambda lib, x: lib.view_as_complex(x[:, :2]), WHOLE)


def slice_rows() -> Iterator[Row]:
    yield row("select", lambda lib, x: (x.select(1, 2), lib.select(x, -1, -4)), A)
    yield row("select beyond", lambda lib, x: x.select(1, 3), A)
    yield row("select beyond the dimensions", lambda lib, x: x.select(3, 0), A)
    yield row("select 0-d", lambda lib, x: x.select(0, 0), S)
    yield row("narrow", lambda lib, x: (x.narrow(1, 1, 2), lib.narrow(x, 2, -3, 2)), A)
    yield row("narrow to nothing", lambda lib, x: x.narrow(1, 3, 0), A)
    yield row("narrow too far", lambda lib, x: x.narrow(1, 2, 2), A)
    yield row("narrow from beyond", lambda lib, x: x.narrow(1, 4, 0), A)
    yield row("narrow to a negative length", lambda lib, x: x.narrow(1, 0, -1), A)
    yield row("narrow 0-d", lambda lib, x: x.narrow(0, 0, 0), S)
    yield row("unbind", lambda lib, x: (*x.unbind(), *lib.unbind(x, 2)), A)
    yield row("unbind 0-d", lambda lib, x: x.unbind(), S)
    yield row("unbind, one part used", lambda lib, x: x.unbind(1)[2] * 2, A)
    yield row("split", lambda lib, x: (*x.split(2, 1), *lib.split(x, 3, dim=-1)), A)
    yield row("split by sizes", lambda lib, x: (*x.split([1, 3], 2), *x.split((1, 2, 0), 1)), A)
    yield row("split_with_sizes", lambda lib, x: x.split_with_sizes([1, 2], 1), A)
    yield row("split by sizes of a wrong sum", lambda lib, x: x.split([1, 1], 2), A)
    yield row("split by negative sizes", lambda lib, x: x.split([5, -1], 2), A)
    yield row("split by 0", lambda lib, x: x.split(0), A)
    yield row("split by a negative size", lambda lib, x: x.split(-1), A)
    yield row("split of nothing", lambda lib, x: (*x.split(2), *x.split(0)), EMPTY)
    yield row("chunk", lambda lib, x: (*x.chunk(2, 1), *lib.chunk(x, 3, -1), *x.chunk(7)), A)
    yield row("chunk of nothing", lambda lib, x: x.chunk(3), EMPTY)
    yield row("chunk by 0", lambda lib, x: x.chunk(0), A)
    yield row("chunk beyond", lambda lib, x: x.chunk(2, 3), A)
    yield row("tensor_split", lambda lib, x: (*x.tensor_split(3, 2), *x.tensor_split((1, 3), 2)), A)
    yield row("tensor_split backwards", lambda lib, x: x.tensor_split((3, 1, -1), 2), A)
    yield row("tensor_split by 0", lambda lib, x: x.tensor_split(0), A)
    yield row("hsplit", lambda lib, x: (*x.hsplit(3), *x.vsplit(2), *x.dsplit((1,))), A)
    yield row("hsplit of a vector", lambda lib, x: x.hsplit([1]), V)
    yield row("hsplit into unequal parts", lambda lib, x: x.hsplit(2), A)
    yield row("vsplit of a vector", lambda lib, x: x.vsplit(1), V)
    yield row("dsplit of a matrix", lambda lib, x: x.dsplit(1), M)
    yield row("diagonal", lambda lib, x: (x.diagonal(), lib.diagonal(x, 1, 1, 2)), A)
    yield row("diagonal below", lambda lib, x: (x.diagonal(-1, 2, 0), x.diagonal(9)), A)
    yield row("diagonal of one dimension", lambda lib, x: x.diagonal(0, 1, 1), A)
    yield row(
        "unfold", lambda lib, x: (x.unfold(2, 2, 1), x.unfold(1, 3, 5), x.unfold(-1, 0, 1)), A
    )
    yield row("unfold 0-d", lambda lib, x: x.unfold(0, 1, 1), S)
    yield row("unfold of a large size", lambda lib, x: x.unfold(1, 4, 1), A)
    yield row("unfold of a negative size", lambda lib, x: x.unfold(1, -1, 1), A)
    yield row("unfold of step 0", lambda lib, x: x.unfold(1, 1, 0), A)


def join_rows() -> Iterator[Row]:
    yield row("cat", lambda lib, x, y: (lib.cat([x, y]), lib.cat((x, x), dim=-1)), A, A)
    yield row("cat of other names", lambda lib, x: (lib.concat([x, x]), lib.concatenate([x, x])), M)
    yield row("cat along an axis", lambda lib, x: lib.cat([x, x], axis=1), M)
    yield row("cat of different dtypes", lambda lib, x, y: lib.cat([x, y]), M, WHOLE)
    yield row("cat with an empty vector", lambda lib, x: lib.cat([lib.ones(0), x, x], 1), M)
    yield row("cat of nothing", lambda lib: lib.cat([]))
    yield row("cat of 0-d", lambda lib, x: lib.cat([x, x]), S)
    yield row("cat of unequal sizes", lambda lib, x, y: lib.cat([x, y[:, :2]]), M, M)
    yield row("cat of unequal dimensions", lambda lib, x, y: lib.cat([x, y]), M, V)
    yield row("cat beyond", lambda lib, x: lib.cat([x, x], 2), M)
    yield row("cat of a number", lambda lib, x: lib.cat([x, 1]), M)
    yield row("stack", lambda lib, x: (lib.stack([x, x]), lib.stack((x, x), -1)), M)
    yield row("stack of nothing", lambda lib: lib.stack([]))
    yield row("stack of unequal shapes", lambda lib, x, y: lib.stack([x, y]), M, V)
    yield row("stack beyond", lambda lib, x: lib.stack([x, x], 3), M)
    yield row("stack of numbers", lambda lib, x: lib.stack([x, x]), S)
    for name in ("hstack", "vstack", "row_stack", "dstack", "column_stack"):
        for kind, array in (("matrices", M), ("vectors", V), ("numbers", S)):
            yield row(
                f"{name} of {kind}", lambda lib, x, name=name: getattr(lib, name)([x, x]), array
            )
        yield row(f"{name} of nothing", lambda lib, name=name: getattr(lib, name)([]))
    yield row("block_diag", lambda lib, x, y, z: lib.block_diag(x, y, z), M, V, S)
    yield row("block_diag of dtypes", lambda lib, x, y: lib.block_diag(y.double(), x), M, S)
    yield row("block_diag of nothing", lambda lib: lib.block_diag())
    yield row("block_diag of three dimensions", lambda lib, x: lib.block_diag(x), A)
    yield row("repeat", lambda lib, x: (x.repeat(2, 1), x.repeat((1, 2, 2)), x.repeat(0, 1)), M)
    yield row("repeat too few", lambda lib, x: x.repeat(2), M)
    yield row("repeat negative", lambda lib, x: x.repeat(-1, 1), M)
    yield row("tile", lambda lib, x: (x.tile(2), lib.tile(x, (2, 1, 1))), M)
    yield row(
        "repeat_interleave",
        lambda lib, x: (x.repeat_interleave(2), lib.repeat_interleave(x, 3, dim=1)),
        M,
        node=False,
    )
    yield row(
        "repeat_interleave by a tensor",
        lambda lib, x: (
            x.repeat_interleave(lib.tensor([1, 2]), 0),
            x.repeat_interleave(lib.tensor([2, 0, 1]), dim=1, output_size=3),
            x.repeat_interleave(lib.tensor([2])),
        ),
        M,
        node=False,
    )
    yield row("repeat_interleave alone", lambda lib: lib.repeat_interleave(lib.tensor([1, 0, 2])))
    yield row(
        "repeat_interleave unequal", lambda lib, x: x.repeat_interleave(lib.tensor([1, 2]), 1), M
    )
    yield row("repeat_interleave negative", lambda lib, x: x.repeat_interleave(-1), M)
    yield row("repeat_interleave by floats", lambda lib, x: x.repeat_interleave(x[0], 1), M)


def grid_rows() -> Iterator[Row]:
    yield row("sum_to_size", lambda lib, x: (x.sum_to_size(1, 3), x.sum_to_size((2, 1))), M)
    yield row("sum_to_size of fewer", lambda lib, x: x.sum_to_size(3, 1), A, node=False)
    yield row("sum_to_size that does not fit", lambda lib, x: x.sum_to_size(2, 2), M)
    yield row("broadcast_tensors", lambda lib, x, y: lib.broadcast_tensors(x, y), M, V)
    yield row("broadcast_tensors that do not", lambda lib, x, y: lib.broadcast_tensors(x, y), M, A)
    yield row(
        "atleast",
        lambda lib, x: (lib.atleast_1d(x), lib.atleast_2d(x), lib.atleast_3d(x)),
        V,
        node=False,
    )
    yield row(
        "atleast of 0-d",
        lambda lib, x: (lib.atleast_1d(x), lib.atleast_2d(x), lib.atleast_3d(x)),
        S,
        node=False,
    )
    yield row("atleast_3d of several", lambda lib, x, y: lib.atleast_3d(x, y), M, V, node=False)
    for indexing in ("ij", "xy"):
        yield row(
            f"meshgrid {indexing}",
            lambda lib, x, y, indexing=indexing: lib.meshgrid(x, y[0, :2], y[0], indexing=indexing),
            V,
            M,
            node=False,
        )
    yield row("meshgrid of a matrix", lambda lib, x: lib.meshgrid(x, x, indexing="ij"), M)
    yield row(
        "meshgrid of two dtypes", lambda lib, x, y: lib.meshgrid(x, y[0], indexing="ij"), V, WHOLE
    )
    yield row("meshgrid of another indexing", lambda lib, x: lib.meshgrid(x, x, indexing="no"), V)
    yield row("cartesian_prod", lambda lib, x, y: lib.cartesian_prod(x, y[0], x), V, M)
    yield row("cartesian_prod of a matrix", lambda lib, x: lib.cartesian_prod(x, x), M)
    yield row("cartesian_prod of dtypes", lambda lib, x: lib.cartesian_prod(x, x.double()), V)
    yield row("combinations", lambda lib, x: (lib.combinations(x), lib.combinations(x, 3, True)), V)
    yield row("combinations of too many", lambda lib, x: lib.combinations(x, 5), V, node=False)
    yield row("combinations of none", lambda lib, x: lib.combinations(x, 0), V, node=False)
    yield row("combinations of a negative number", lambda lib, x: lib.combinations(x, -1), V)
    yield row("combinations of a matrix", lambda lib, x: lib.combinations(x), M)


def turn_rows() -> Iterator[Row]:
    yield row("flip", lambda lib, x: (x.flip(0), lib.flip(x, (0, 2)), x.flip(1, -1)), A)
    yield row("flip twice the same", lambda lib, x: x.flip(0, -3), A)
    yield row("flip of 0-d", lambda lib, x: (x.flip(0), x.flip(-1), x.flip([])), S)
    yield row("flip of 0-d beyond", lambda lib, x: x.flip(1), S)
    yield row("flip beyond", lambda lib, x: x.flip(3), A)
    yield row("fliplr", lambda lib, x: (x.fliplr(), x.flipud()), M)
    yield row("fliplr of a vector", lambda lib, x: x.fliplr(), V)
    yield row("flipud of 0-d", lambda lib, x: x.flipud(), S)
    yield row("roll", lambda lib, x: (x.roll(5), x.roll(-1, 1), lib.roll(x, (1, 2), (0, -1))), A)
    yield row("roll of a dimension twice", lambda lib, x: x.roll((1, 1), (2, 2)), A)
    yield row("roll of unequal numbers", lambda lib, x: x.roll((1, 1), 0), A)
    yield row("roll of too many shifts", lambda lib, x: x.roll((1, 1)), A)
    yield row("roll beyond", lambda lib, x: x.roll(1, 3), A)
    yield row("rot90", lambda lib, x: (x.rot90(), x.rot90(-1, (1, 2)), lib.rot90(x, 2, [0, 2])), A)
    yield row("rot90 of one dimension", lambda lib, x: x.rot90(1, (0, 0)), A)
    yield row("rot90 of a vector", lambda lib, x: x.rot90(), V)
    yield row("rot90 of three dimensions", lambda lib, x: x.rot90(1, (0, 1, 2)), A)
    yield row("tril", lambda lib, x: (x.tril(), x.tril(1), lib.tril(x, diagonal=-1)), A)
    yield row("triu", lambda lib, x: (x.triu(), x.triu(1), lib.triu(x, diagonal=-1)), A)
    yield row("tril_", lambda lib, x: ((x * 2).tril_(), (x * 2).triu_(1)), A)
    yield row("tril of a vector", lambda lib, x: x.tril(), V)
    yield row("tril of integers", lambda lib, x: x.tril(), WHOLE)
    yield row("diag", lambda lib, x: (x.diag(), lib.diag(x, 1), lib.diag(x, -1)), M)
    yield row("diag of a vector", lambda lib, x: (x.diag(), lib.diag(x, -2)), V)
    yield row("diag of three dimensions", lambda lib, x: x.diag(), A)
    for wrap in (False, True):
        yield row(
            f"fill_diagonal_ {wrap}",
            lambda lib, x, w=wrap: (x[0].T * 1).fill_diagonal_(2.0, wrap=w),
            A.reshape(2, 2, 6),
            node=False,
        )
    yield row(
        "fill_diagonal_ of a cube",
        lambda lib, x: (x * 1).fill_diagonal_(2),
        A[:, :2, :2],
        node=False,
    )
    yield row("fill_diagonal_ of no cube", lambda lib, x: (x * 1).fill_diagonal_(2), A)
    yield row("fill_diagonal_ of a vector", lambda lib, x: (x * 1).fill_diagonal_(2), V)
    yield row("diag_embed", lambda lib, x: (x.diag_embed(), lib.diag_embed(x, 1, 0, 2)), M)
    yield row("diag_embed below", lambda lib, x: x.diag_embed(-2, -1, 0), M)
    yield row("diag_embed in one dimension", lambda lib, x: x.diag_embed(0, 1, 1), M)
    yield row("diagflat", lambda lib, x: (x.diagflat(), lib.diagflat(x, -1)), M)


@table(view_rows())
def test_views(row: Row) -> None:
    compare(row)


@table(keyword_rows())
def test_keywords(row: Row) -> None:
    compare(row)


@table(order_rows())
def test_orders(row: Row) -> None:
    compare(row)


@table(slice_rows())
def test_slices(row: Row) -> None:
    compare(row)


@table(join_rows())
def test_joins(row: Row) -> None:
    compare(row)


@table(grid_rows())
def test_grids(row: Row) -> None:
    compare(row)


@table(turn_rows())
def test_turns(row: Row) -> None:
    compare(row)
