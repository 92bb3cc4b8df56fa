"""What is compared of operators that move, choose and overwrite elements; see `number_cases`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.fuzz.number_cases import INEXACT, NUMERIC, REAL, Case, call, find, method
from tests.fuzz.number_inputs import FLOATS, cancelling, plain, rows_of, scalar, shaped

SINGLE = ("float32", "float64")
TABLE = rows_of(4)
PAIR = shaped((6, 4), (6, 4), share=0.25)
ROW = shaped((6,), share=0.4)
ROWS = shaped((6,), (6,), share=0.4)
SQUARE = shaped((4, 4), share=0.4)


def moving() -> Iterator[Case]:
    """Operators that move, choose and overwrite elements."""

    def index(lib: Any, *places: int) -> Any:
        return lib.tensor(list(places))

    gather = lambda lib, x: x.gather(1, index(lib, 0, 2, 2).expand(60, 3))  # noqa: E731
    yield Case("gathering.gather", "", gather, TABLE, REAL)
    yield Case("gathering.index_select", "",
               lambda lib, x: x.index_select(1, index(lib, 0, 2, 2)), TABLE, REAL)  # fmt: skip
    yield Case("gathering.take", "", lambda lib, x: x.take(index(lib, 0, 7, 7)), TABLE, REAL)
    yield Case("index", "", lambda lib, x: x[index(lib, 0, 2, 2)], TABLE, REAL)
    yield Case("index", "of one row", lambda lib, x: x[1:2][index(lib, *[0] * 33)],
               plain((3, 2)), REAL)  # fmt: skip
    yield Case("masked_select", "", lambda lib, x: x.masked_select(x > 0), TABLE, REAL)
    yield Case("index_writes.masked_fill", "",
               lambda lib, x: x.masked_fill(x != x, 0.0), TABLE, REAL)  # fmt: skip
    yield Case("index_writes.masked_fill", "by a tensor",
               lambda lib, x, y: x.masked_fill(x > 0, y),
               lambda d, r: (*TABLE(d, r), *scalar(0.5)(d, r)), REAL)  # fmt: skip
    yield Case("index_writes.masked_scatter", "",
               lambda lib, x, y: x.masked_scatter(x > 0, y), PAIR, REAL)  # fmt: skip
    yield Case("index_writes.index_fill", "",
               lambda lib, x: x.index_fill(0, index(lib, 0, 3), 0.0), TABLE, REAL)  # fmt: skip
    for name in ("index_add", "index_copy"):
        case = lambda lib, x, y, name=name: find(lib, name)(  # noqa: E731
            x, 0, index(lib, 3, 0, 1, 2, 4, 5), y
        )
        yield Case(f"index_writes.{name}", "", case, PAIR, REAL)
    yield Case("index_writes.index_add", "cancelling",
               lambda lib, x: lib.zeros(3, 2, dtype=x.dtype).index_add(
                   1, lib.zeros(33, dtype=lib.int64), x), cancelling, REAL)  # fmt: skip
    for kind in ("prod", "mean", "amax", "amin"):
        reduce = lambda lib, x, y, kind=kind: x.index_reduce(  # noqa: E731
            0, index(lib, 0, 0, 1, 1, 4, 5), y, kind
        )
        yield Case("index_writes.index_reduce", kind, reduce, plain((6, 4), (6, 4)), SINGLE)
        reduce = lambda lib, x, y, kind=kind: x.scatter_reduce(  # noqa: E731
            1, index(lib, 0, 0, 1, 1).expand(6, 4), y, kind
        )
        yield Case("scattering.scatter_reduce", kind, reduce, plain((6, 4), (6, 4)), SINGLE)
    for name in ("scatter", "scatter_add"):
        case = lambda lib, x, y, name=name: find(lib, name)(  # noqa: E731
            x, 1, index(lib, 3, 0, 1, 2).expand(6, 4), y
        )
        yield Case(f"scattering.{name}", "", case, PAIR, REAL)
    yield Case(
        "index_put", "", lambda lib, x: x.index_put((x > 0,), x.new_tensor(0.0)), TABLE, REAL
    )
    yield Case("index_put", "rows",
               lambda lib, x, y: x.index_put((index(lib, 0, 3),), y[:2]), PAIR, REAL)  # fmt: skip
    yield Case("Expand", "cancelling",
               lambda lib, x: (x[:, :1].expand(3, 33) * x.detach()), cancelling, REAL)  # fmt: skip
    for dims in ((0,), (-1,), ()):
        yield Case("turning.flip", f"0-d, {dims}", method("flip", dims), scalar(2.5), REAL)
    yield Case("turning.flip", "", method("flip", (0, 1)), TABLE, NUMERIC)
    yield Case("turning.tril", "", method("tril"), shaped((4, 4), share=0.4), REAL)
    yield Case("turning.triu", "", method("triu"), shaped((4, 4), share=0.4), REAL)
    yield Case("padding.pad_by_rule", "reflect",
               call("F.pad", (2, 2), mode="reflect"), TABLE, SINGLE)  # fmt: skip
    yield Case("padding.constant_pad_nd", "", call("F.pad", (1, 2), value=2.0), TABLE, REAL)
    yield Case("shape.cat", "", lambda lib, x, y: lib.cat([x, y]), PAIR, INEXACT)
    yield Case("embedding.embedding", "padding",
               lambda lib, x: lib.nn.functional.embedding(
                   index(lib, 0, 3, 3, 1, 2, 0), x, padding_idx=3), TABLE, REAL)  # fmt: skip
    for mode in ("sum", "mean", "max"):
        bag = lambda lib, x, mode=mode: lib.nn.functional.embedding_bag(  # noqa: E731
            lib.tensor([[0, 3, 3], [1, 2, 0]]), x, mode=mode, padding_idx=3
        )
        yield Case("embedding.embedding_bag", mode, bag, plain((4, 4)), REAL)
        bag = lambda lib, x, mode=mode: lib.nn.functional.embedding_bag(  # noqa: E731
            lib.arange(33)[None], x.t(), mode=mode
        )
        yield Case("embedding.embedding_bag", f"{mode}, cancelling", bag, cancelling, REAL)
    yield Case("masking.keep_scaled", "",
               lambda lib, x: lib.nn.functional.dropout(x, 1.0), TABLE, REAL)  # fmt: skip
    put = lambda lib, x, y: x.put(index(lib, 3, 0, 21, 7), y[0])  # noqa: E731
    yield Case("index_writes.put", "", put, PAIR, REAL)
    added = lambda lib, x, y: x.put(index(lib, 3, 0, 3, 3), y[0], True)  # noqa: E731
    yield Case("index_writes.put", "added", added, PAIR, REAL)
    scattered = lambda lib, x: x.scatter(1, index(lib, 3, 0).expand(60, 2), 2.5)  # noqa: E731
    yield Case("scattering.scatter_value", "", scattered, TABLE, REAL)
    yield Case("conversion.copied", "", lambda lib, x, y: (x * 1).copy_(y[0]), PAIR, REAL)
    yield Case("creation.filled", "",
               lambda lib, x, y: (x * 1).fill_(y),
               lambda d, r: (*TABLE(d, r), *scalar(0.5)(d, r)), REAL)  # fmt: skip
    yield Case("copy_slices", "", _written, PAIR, REAL)
    keep = lambda lib, x: lib.nn.functional.alpha_dropout(x, 1.0, True)  # noqa: E731
    yield Case("masking.keep_self_normalizing", "", keep, TABLE, SINGLE)


def _written(lib: Any, x: Any, y: Any) -> Any:
    z = x * 2
    z[:, 1:].mul_(y[:, 1:])
    z[0] = y[1] * x[1]
    return z


def _strided(lib: Any, x: Any) -> Any:
    # The tensor must be a whole one, whose windows overlap.
    return (x * 1).as_strided((3, 4), (2, 1), 1)


def shapes() -> Iterator[Case]:
    """Views, joins and copies: each element is one of an input, and its gradient a sum."""
    table: dict[str, tuple[Any, Any]] = {
        "Reshape": (method("view", -1), SQUARE),
        "Permute": (method("permute", 1, 0), SQUARE),
        "Slice": (lambda lib, x: x[:, 1:] * x[:, :-1], SQUARE),
        "Diagonal": (method("diagonal", 1), SQUARE),
        "Windows": (method("unfold", 1, 3, 1), SQUARE),
        "Strided": (_strided, SQUARE),
        "roll": (method("roll", 1, 1), SQUARE),
        "repeat_interleave": (
            lambda lib, x: x.repeat_interleave(lib.tensor([2, 0, 1, 3]), 0), SQUARE),
        "shape.concat": (lambda lib, x, y: lib.concat([x, y]), ROWS),
        "shape.concatenate": (lambda lib, x, y: lib.concatenate([x, y]), ROWS),
        "shape.stack": (lambda lib, x, y: lib.stack([x, y], 1), ROWS),
        "shape.hstack": (lambda lib, x, y: lib.hstack([x, y]), ROWS),
        "shape.vstack": (lambda lib, x, y: lib.vstack([x, y]), ROWS),
        "shape.row_stack": (lambda lib, x, y: lib.row_stack([x, y]), ROWS),
        "shape.dstack": (lambda lib, x, y: lib.dstack([x, y]), ROWS),
        "shape.column_stack": (lambda lib, x, y: lib.column_stack([x, y]), ROWS),
        "shape.block_diag": (lambda lib, x, y: lib.block_diag(x[:2], y[None, :3]), ROWS),
        "shape.cartesian_prod": (lambda lib, x, y: lib.cartesian_prod(x, y), ROWS),
        "shape.combinations": (call("combinations"), ROW),
        "repetition.repeat": (method("repeat", 2, 1), SQUARE),
        "repetition.repeat_each": (method("repeat_interleave", 2, 1), SQUARE),
        "shape.sum_to_size": (method("sum_to_size", 1, 4), SQUARE),
        "splitting.split_copies": (lambda lib, x: lib.unsafe_split(x, 2, 1), SQUARE),
        "views.reshape_copy": (lambda lib, x: x.t().reshape(2, 8), SQUARE),
        "turning.rot90": (method("rot90"), SQUARE),
        "turning.diag_embed": (method("diag_embed"), ROW),
        "turning.diagonal_copy": (call("diag"), SQUARE),
        "turning.with_diagonal": (lambda lib, x: (x * 1).fill_diagonal_(3.0), SQUARE),
        "folding.fold": (call("F.fold", (3, 4), (2, 2)), shaped((1, 4, 6), share=0.3)),
        "folding.unfold": (call("F.unfold", 2), shaped((1, 1, 3, 4), share=0.3)),
        "folding.channel_shuffle": (call("F.channel_shuffle", 2), shaped((1, 4, 2), share=0.3)),
        "folding.pixel_shuffle": (call("F.pixel_shuffle", 2), shaped((1, 4, 2, 2), share=0.3)),
        "folding.pixel_unshuffle": (call("F.pixel_unshuffle", 2), shaped((1, 1, 4, 4), share=0.3)),
    }  # fmt: skip
    for operator, (compute, inputs) in table.items():
        yield Case(operator, "", compute, inputs, (*FLOATS, "complex64"))
    segments = lambda lib, x: lib.segment_reduce(x, "sum", lengths=lib.tensor([1, 3]))  # noqa: E731
    yield Case("segments.segment_reduce", "", segments, SQUARE, SINGLE)
    part = lambda lib, z: (z.imag, z.real)  # noqa: E731
    yield Case("ComplexPart", "", part, SQUARE, ("complex64", "complex128"))
    yield Case("ComplexPairs", "", call("view_as_real"), SQUARE, ("complex64", "complex128"))
    back = lambda lib, x: lib.view_as_complex(x[:, :2])  # noqa: E731
    yield Case("ComplexPairs", "back", back, SQUARE, SINGLE)
    tiled = method("repeat", 33, 1)
    yield Case(
        "repetition.repeat", "cancelling", lambda lib, x: tiled(lib, x[:1]), cancelling, REAL
    )
