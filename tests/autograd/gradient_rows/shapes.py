"""Operators that move elements: views, joins, subscripts, and writes to parts of a tensor."""

from __future__ import annotations

import flambeau
from flambeau.nn import functional as F
from flambeau.ops.neural.sequences import packed_sequences as packed
from flambeau.ops.reductions import many
from tests.autograd.gradient_rows.row import (
    BATCH,
    IMAGE,
    INDEX,
    LABELS,
    MASK,
    SCALAR,
    SQUARE,
    A,
    B,
    Row,
    V,
    W,
    Z,
    rows,
    spread,
)

LENGTHS = flambeau.tensor([2, 1, 2])


def scattered(x, y, reduce, include_self):
    return x.scatter_reduce(1, INDEX, 1.1 * y, reduce, include_self=include_self)


def segments(x, reduce):
    return flambeau.segment_reduce(x, reduce, lengths=flambeau.tensor([[2, 1], [1, 2]]), axis=1)


def written(x, y):
    z = x * 2
    z[:, 1:].mul_(y[:, 1:])
    z[0] = y[1] * x[1]
    return z


#: Views, by the step that reads them, and kernels that operators make by hand.
UNDECLARED = [
    Row("Reshape", "", lambda x: x.view(3, 2), (A,)),
    Row("Permute", "", lambda x: x.permute(1, 0), (A,)),
    Row("Expand", "", lambda x: x[:, :1].expand(2, 3), (A,)),
    Row("Slice", "", lambda x: x[:, 1:] * x[:, :-1], (A,)),
    Row("Diagonal", "", lambda x: x.diagonal(1), (A,)),
    Row("ComplexPart", "", lambda z: z.imag, (Z,)),
    Row("ComplexPairs", "", lambda z: flambeau.view_as_real(z), (Z,)),
    Row("ComplexPairs", "back", lambda x: flambeau.view_as_complex(x[:, :2]), (A,)),
    Row("Windows", "", lambda x: x.unfold(1, 2, 1), (A,)),
    Row("Strided", "", lambda x: x.as_strided((2, 2), (1, 2), 1), (A,)),
    Row("copy_slices", "", written, (A, B), twice=True),
    Row("index", "", lambda x: x[flambeau.tensor([1, 0, 1])], (A,), twice=True),
    Row("index_put", "", lambda x, y: x.index_put((LABELS,), y), (SQUARE, A)),
    Row("index_put", "added", lambda x, y: x.index_put((LABELS,), y, True), (SQUARE, A)),
    Row("masked_select", "", lambda x: x.masked_select(MASK), (A,)),
    Row("roll", "", lambda x: x.roll(1, 1), (A,)),
    Row("repeat_interleave", "", lambda x: x.repeat_interleave(LABELS, 0), (A,)),
]

ROWS = [
    *UNDECLARED,
    *rows(
        "shape",
        ("cat", lambda x, y: flambeau.cat([x, y], 1), A, B),
        ("concat", lambda x, y: flambeau.concat([x, y]), A, B),
        ("concatenate", lambda x, y: flambeau.concatenate([x, y]), A, B),
        ("stack", lambda x, y: flambeau.stack([x, y], 1), A, B),
        ("hstack", lambda x, y: flambeau.hstack([x, y]), A, B),
        ("vstack", lambda x, y: flambeau.vstack([x, y]), A, B),
        ("row_stack", lambda x, y: flambeau.row_stack([x, y]), A, B),
        ("dstack", lambda x, y: flambeau.dstack([x, y]), A, B),
        ("column_stack", lambda x, y: flambeau.column_stack([x, y]), V, W),
        ("block_diag", lambda x, y: flambeau.block_diag(x, y), A, V),
        ("cartesian_prod", lambda x, y: flambeau.cartesian_prod(x, y), V, W),
        ("combinations", lambda x: flambeau.combinations(x), V),
        ("sum_to_size", lambda x: x.sum_to_size(1, 3), A),
    ),
    *rows(
        "repetition",
        ("repeat", lambda x: x.repeat(2, 1), A),
        ("repeat_each", lambda x: x.repeat_interleave(2, 1), A),
    ),
    *rows("splitting", ("split_copies", lambda x: flambeau.unsafe_split(x, 2, 1), A)),
    *rows(
        "segments",
        ("segment_reduce", lambda x: segments(x, "prod"), A),
        ("segment_reduce, mean", lambda x: segments(x, "mean"), A),
    ),
    *rows("views", ("reshape_copy", lambda x: x.t().reshape(2, 3), A)),
    *rows(
        "turning",
        ("flip", lambda x: x.flip(1), A),
        ("rot90", lambda x: x.rot90(), A),
        ("tril", lambda x: x.tril(), A),
        ("triu", lambda x: x.triu(1), A),
        ("diag_embed", lambda x: x.diag_embed(), V),
        ("diagonal_copy", lambda x: flambeau.diag(x), SQUARE),
        ("with_diagonal", lambda x: (x * 1).fill_diagonal_(3.0), A),
    ),
    *rows(
        "gathering",
        ("gather", lambda x: x.gather(1, INDEX), A),
        ("index_select", lambda x: x.index_select(1, LABELS), A),
        ("take", lambda x: x.take(INDEX), A),
        twice="gather",
    ),
    *rows(
        "scattering",
        ("scatter", lambda x, y: x.scatter(1, LABELS[:, None], y), A, B),
        ("scatter_value", lambda x: x.scatter(1, LABELS[:, None], 3.0), A),
        ("scatter_add", lambda x, y: x.scatter_add(1, INDEX, y), A, B),
        ("scatter_reduce", lambda x, y: x.scatter_reduce(1, INDEX, y, "prod"), A, B),
        ("scatter_reduce, amax", lambda x, y: x.scatter_reduce(1, INDEX, 1.1 * y, "amax"), A, B),
        ("scatter_reduce, mean", lambda x, y: x.scatter_reduce(1, INDEX, y, "mean"), A, B),
        ("scatter_reduce, sum", lambda x, y: scattered(x, y, "sum", True), A, B),
        ("scatter_reduce, amin", lambda x, y: scattered(x, y, "amin", True), A, B),
        ("scatter_reduce, sum of y", lambda x, y: scattered(x, y, "sum", False), A, B),
        ("scatter_reduce, prod of y", lambda x, y: scattered(x, y, "prod", False), A, B),
        ("scatter_reduce, mean of y", lambda x, y: scattered(x, y, "mean", False), A, B),
        ("scatter_reduce, amax of y", lambda x, y: scattered(x, y, "amax", False), A, B),
        ("scatter_reduce, amin of y", lambda x, y: scattered(x, y, "amin", False), A, B),
        twice="scatter_reduce",
    ),
    *rows(
        "index_writes",
        ("index_add", lambda x, y: x.index_add(0, LABELS, y, alpha=2), SQUARE, A),
        ("index_copy", lambda x, y: x.index_copy(0, LABELS, y), SQUARE, A),
        ("index_fill", lambda x, y: x.index_fill(0, LABELS, y), SQUARE, SCALAR),
        ("index_reduce", lambda x, y: x.index_reduce(0, LABELS, y, "prod"), SQUARE, A),
        ("masked_fill", lambda x, y: x.masked_fill(MASK, y), A, SCALAR),
        ("masked_scatter", lambda x, y: x.masked_scatter(MASK, y), A, B),
        ("put", lambda x, y: x.put(LABELS, y[:, 0]), SQUARE, A),
        ("put, added", lambda x, y: x.put(LABELS, y[:, 0], accumulate=True), SQUARE, A),
    ),
    *rows(
        "padding",
        ("constant_pad_nd", lambda x: F.pad(x, (1, 0), value=2.0), A),
        ("pad_by_rule", lambda x: F.pad(x, (1, 1), mode="reflect"), A),
        ("pad_by_rule, circular", lambda x: F.pad(x[None], (1, 1), mode="circular"), A),
        ("pad_by_rule, replicate", lambda x: F.pad(x[None], (1, 1), mode="replicate"), A),
    ),
    *rows(
        "packed_sequences",
        ("batch_steps", lambda x: packed.batch_steps(x, LENGTHS, 2, False), BATCH),
        ("fill_behind", lambda x: packed.fill_behind(x, LENGTHS, 3, 0.5, True), BATCH),
        (
            "pack_steps",
            lambda x: packed.pack_steps(x, flambeau.tensor([3, 2]), None, 5),
            BATCH,
        ),
        (
            "pad_steps",
            lambda x: packed.pad_steps(x, flambeau.tensor([2, 1]), None, 2, 3),
            SQUARE,
        ),
        ("pad_all", lambda x, y: packed.pad_all((x, y), True, 0.5, False), A, SQUARE),
    ),
    *rows("many", ("split_to_shapes", lambda x: many.split_to_shapes(x, ((2,), (1, 1))), V)),
    *rows(
        "folding",
        ("fold", lambda x: F.fold(x, (2, 2), (1, 2)), A[:, 1:][None]),
        ("unfold", lambda x: F.unfold(x, 2), A[None, None]),
        ("channel_shuffle", lambda x: F.channel_shuffle(x, 2), A.reshape(1, 6, 1)),
        ("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), spread(1, 4, 2, 2)),
        ("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), IMAGE),
    ),
]
