"""The law of positions: out of range is an error in eager mode on the CPU; in a compiled program it
reads NaN, writes nothing, and reaches no other element, in gradients too.
"""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau import Tensor

ROWS, COLUMNS = 4, 3
GOOD = 2
#: Beyond 32 bits, both numbers are positions in range if they are cut.
FAR = [2**40 + 1, -(2**33) + 1]


def _source() -> Tensor:
    return flambeau.arange(12.0).reshape(ROWS, COLUMNS) / 7 + 1


class Case(NamedTuple):
    """An operator of a matrix and two positions of its rows."""

    run: Callable[[Tensor, Tensor], Tensor]
    wraps: bool = False
    error: type[Exception] = IndexError
    size: int = ROWS

    @property
    def bad(self) -> list[int]:
        return [-self.size - 1 if self.wraps else -1, self.size, *FAR]


def _two(index: Tensor) -> Tensor:
    return index.unsqueeze(1)


def _scatter_of(name: str, **settings: Any) -> Callable[[Tensor, Tensor], Tensor]:
    def run(x: Tensor, index: Tensor) -> Tensor:
        return getattr(flambeau, name)(x, 0, _two(index), x[:, 1:] * 3, **settings)

    return run


def _index_of(name: str, *settings: Any) -> Callable[[Tensor, Tensor], Tensor]:
    def run(x: Tensor, index: Tensor) -> Tensor:
        return getattr(flambeau, name)(x, 0, index, x[: len(index)] * 3, *settings)

    return run


def _assigned(x: Tensor, index: Tensor) -> Tensor:
    y = x.clone()
    y[index] = x[: len(index)] * 3
    return y


def _by_number(x: Tensor, index: Tensor) -> Tensor:
    return flambeau.stack([x[each] for each in index.unbind()])


def _number_assigned(x: Tensor, index: Tensor) -> Tensor:
    y = x.clone()
    for each in index.unbind():
        y[each] = x[0] * 3
    return y


def _number_added(x: Tensor, index: Tensor) -> Tensor:
    y = x.clone()
    for each in index.unbind():
        y[each].add_(x[0])
    return y


def _sparse(x: Tensor, index: Tensor) -> Tensor:
    places = flambeau.stack([index, index * 0])
    return flambeau.sparse_coo_tensor(places, x[: len(index), 0], (ROWS, COLUMNS))


#: The n-th part of the result depends on the n-th position.
READS: dict[str, Case] = {
    "x[index]": Case(lambda x, i: x[i], wraps=True),
    "x[number]": Case(_by_number, wraps=True),
    "gather": Case(lambda x, i: x.gather(0, _two(i)), error=RuntimeError),
    "take": Case(lambda x, i: x.take(i), wraps=True, size=ROWS * COLUMNS),
    "take_along_dim": Case(
        lambda x, i: flambeau.take_along_dim(x, _two(i), 0), wraps=True, error=RuntimeError
    ),
    "index_select": Case(lambda x, i: x.index_select(0, i)),
    "embedding": Case(lambda x, i: F.embedding(i, x)),
    "embedding, by frequency": Case(lambda x, i: F.embedding(i, x, scale_grad_by_freq=True)),
    "embedding_bag": Case(lambda x, i: F.embedding_bag(_two(i), x), error=RuntimeError),
    "embedding_bag, max": Case(
        lambda x, i: F.embedding_bag(_two(i), x, mode="max"), error=RuntimeError
    ),
    "Categorical": Case(
        lambda x, i: flambeau.distributions.Categorical(logits=x[:, 0], validate_args=False)
        .log_prob(i).unsqueeze(-1),
        error=RuntimeError,
    ),
}  # fmt: skip

#: The n-th score of the result depends on the n-th row, whose class is the n-th position.
LOSSES: dict[str, Case] = {
    "cross_entropy": Case(lambda x, i: F.cross_entropy(x[:2], i, reduction="none")),
    "cross_entropy, smooth": Case(
        lambda x, i: F.cross_entropy(x[:2], i, reduction="none", label_smoothing=0.2)
    ),
    "cross_entropy, weights": Case(
        lambda x, i: F.cross_entropy(x[:2], i, flambeau.arange(1.0, 4.0), reduction="none")
    ),
    "cross_entropy of images": Case(
        lambda x, i: F.cross_entropy(x[:2].reshape(2, 3, 1, 1), i.reshape(2, 1, 1),
                                     reduction="none").reshape(2)
    ),
    "nll_loss": Case(lambda x, i: F.nll_loss(x[:2], i, reduction="none")),
    "multi_margin_loss": Case(
        lambda x, i: F.multi_margin_loss(x[:2], i, reduction="none"), error=RuntimeError
    ),
    "multilabel_margin_loss": Case(
        lambda x, i: F.multilabel_margin_loss(
            x[:2], flambeau.stack([i * 0, i * 0 - 1, flambeau.where(i == -1, -2, i)], 1),
            reduction="none",
        ),
        error=RuntimeError,
    ),
    "ctc_loss": Case(
        lambda x, i: F.ctc_loss(
            x.log_softmax(1)[:, None].expand(4, 2, 3), flambeau.stack([i, i * 0 + 77], 1),
            flambeau.tensor([4, 4]), flambeau.tensor([1, 1]), reduction="none",
        ),
        error=RuntimeError,
    ),
    "linear_cross_entropy": Case(
        lambda x, i: F.linear_cross_entropy(x[:2], flambeau.eye(3), i, reduction="none")
    ),
}  # fmt: skip

WRITES: dict[str, Case] = {
    "x[index] = y": Case(_assigned, wraps=True),
    "x[number] = y": Case(_number_assigned, wraps=True),
    "x[number].add_(y)": Case(_number_added, wraps=True),
    "index_put": Case(lambda x, i: x.index_put((i,), x[0, 0] * 3), wraps=True),
    "index_put, accumulate": Case(
        lambda x, i: x.index_put((i,), x[0, 0] * 3, accumulate=True), wraps=True
    ),
    "put": Case(lambda x, i: x.put(i, x[0, : len(i)] * 3), wraps=True, size=ROWS * COLUMNS),
    "put, accumulate": Case(
        lambda x, i: x.put(i, x[0, : len(i)] * 3, True), wraps=True, size=ROWS * COLUMNS
    ),
    "scatter": Case(_scatter_of("scatter"), error=RuntimeError),
    "scatter_add": Case(_scatter_of("scatter_add"), error=RuntimeError),
    **{
        f"scatter_reduce, {name}": Case(
            _scatter_of("scatter_reduce", reduce=name), error=RuntimeError
        )
        for name in ("prod", "mean", "amax")
    },
    "scatter_reduce, not itself": Case(
        _scatter_of("scatter_reduce", reduce="amin", include_self=False), error=RuntimeError
    ),
    "index_add": Case(_index_of("index_add"), error=RuntimeError),
    "index_copy": Case(_index_of("index_copy")),
    "index_reduce": Case(_index_of("index_reduce", "prod")),
    "index_fill": Case(lambda x, i: x.index_fill(0, i, 9.0), wraps=True),
    "sparse": Case(lambda x, i: _sparse(x, i).to_dense(), error=RuntimeError),
    "sparse product": Case(lambda x, i: _sparse(x, i) @ x[:3], error=RuntimeError),
}


def _with_gradient(run: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """The result of an operator and its gradient, the cotangents of elements all different."""

    def both(x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().requires_grad_()
        result = run(x, index)
        weights = flambeau.arange(1.0, result.numel() + 1).reshape(result.shape)
        return result.detach(), flambeau.autograd.grad(result, x, weights)[0]

    return both


@pytest.mark.parametrize("name", READS)
def test_a_position_out_of_range_reads_nan_and_moves_nothing(name: str) -> None:
    case = READS[name]
    x, good = _source(), flambeau.tensor([GOOD, 0])
    expected, _ = _with_gradient(case.run)(x, good)
    _, alone = _with_gradient(lambda x, i: case.run(x, i)[:1])(x, good)
    compiled = flambeau.compile(_with_gradient(case.run))
    np.testing.assert_allclose(compiled(x, good)[0], expected, 1e-6)
    for bad in case.bad:
        index = flambeau.tensor([GOOD, bad])
        with pytest.raises(case.error, match=str(bad)):
            case.run(x, index)
        result, gradient = compiled(x, index)
        np.testing.assert_allclose(result[0], expected[0], 1e-6)
        assert result[1].isnan().all(), bad
        if name == "Categorical":
            assert gradient[:, 1:].eq(0).all()  # All logits share a normalization.
        else:
            np.testing.assert_allclose(gradient, alone, 1e-6, err_msg=str(bad))


@pytest.mark.parametrize("name", LOSSES)
def test_a_class_out_of_range_makes_its_own_loss_and_gradient_nan(name: str) -> None:
    case = LOSSES[name]
    x, good = _source(), flambeau.tensor([GOOD, 0])
    both = _with_gradient(case.run)
    expected, gradient_of_good = both(x, good)
    compiled = flambeau.compile(both)
    for bad in (-1, -COLUMNS - 1, COLUMNS, *FAR):
        index = flambeau.tensor([GOOD, bad])
        with pytest.raises(case.error):
            case.run(x, index)
        result, gradient = compiled(x, index)
        np.testing.assert_allclose(result[0], expected[0], 1e-6)
        assert result[1].isnan(), bad
        if name != "ctc_loss":  # There both samples have the same scores.
            np.testing.assert_allclose(gradient[0], gradient_of_good[0], 1e-6)
            assert gradient[1].isnan().all()
            assert gradient[2:].eq(0).all()


@pytest.mark.parametrize("name", WRITES)
def test_a_position_out_of_range_is_not_written(name: str) -> None:
    case = WRITES[name]
    x = _source()
    expected, gradient_of_good = _with_gradient(case.run)(x, flambeau.tensor([GOOD]))
    compiled = flambeau.compile(_with_gradient(case.run))
    for bad in case.bad:
        index = flambeau.tensor([GOOD, bad])
        with pytest.raises(case.error):
            case.run(x, index)
        result, gradient = compiled(x, index)
        np.testing.assert_allclose(result, expected, 1e-6, err_msg=str(bad))
        np.testing.assert_allclose(gradient, gradient_of_good, 1e-6, err_msg=str(bad))


@pytest.mark.parametrize("name", [name for name, case in {**READS, **WRITES}.items() if case.wraps])
def test_a_negative_position_counts_from_the_end_once_where_it_may(name: str) -> None:
    case = {**READS, **WRITES}[name]
    x, last = _source(), flambeau.tensor([0, case.size - 1])
    expected = case.run(x, last)
    for index in (last - case.size, flambeau.tensor([0, -1])):
        np.testing.assert_allclose(case.run(x, index), expected, 1e-6)
        np.testing.assert_allclose(flambeau.compile(case.run)(x, index), expected, 1e-6)


@pytest.mark.parametrize(
    ("dtype", "missing"),
    [
        ("int64", -(2**63)),
        ("uint8", 255),
        ("bool", True),
        ("bfloat16", "nan"),
        ("complex64", "nan"),
    ],
)
def test_other_dtypes_have_their_own_missing_value(dtype: str, missing: Any) -> None:
    x = flambeau.zeros(2, dtype=getattr(flambeau, dtype))
    index = flambeau.tensor([2, 0])
    for run in (lambda x, i: x.gather(0, i), lambda x, i: x[i], lambda x, i: x[i[0]][None]):
        found = flambeau.compile(run)(x, index)[0]
        assert found.isnan() if missing == "nan" else found.item() == missing


def test_pivots_lengths_and_repeats_out_of_range_make_results_nan() -> None:
    matrix = flambeau.eye(3) + 1
    factors, pivots = flambeau.linalg.lu_factor(matrix)
    ones = flambeau.ones(4)
    cases: list[tuple[Callable[..., Tensor], Tensor, Tensor]] = [
        (lambda p: flambeau.linalg.lu_solve(factors, p, matrix), pivots, pivots * 0),
        (lambda p: flambeau.linalg.lu_solve(factors, p, matrix), pivots, pivots * 0 + 4),
        (lambda p: flambeau.lu_unpack(factors, p)[0], pivots, pivots * 0),
        (
            lambda n: flambeau.repeat_interleave(ones, n, output_size=4),
            flambeau.ones(4).long(), flambeau.ones(4).long() * 2,
        ),
        (
            lambda n: flambeau.repeat_interleave(ones[:2], n, output_size=4),
            flambeau.tensor([3, 1]), flambeau.tensor([5, -1]),
        ),
        (
            lambda n: flambeau.segment_reduce(ones, "sum", lengths=n),
            flambeau.tensor([3, 1]), flambeau.tensor([5, -1]),
        ),
        (
            lambda n: F.embedding_bag(flambeau.tensor([0, 1, 2]), matrix, n),
            flambeau.tensor([0, 2]), flambeau.tensor([0, 4]),
        ),
        (
            lambda n: F.ctc_loss(matrix[:, None].log_softmax(2), flambeau.tensor([[1, 2]]),
                                 flambeau.tensor([3]), n, reduction="none"),
            flambeau.tensor([1]), flambeau.tensor([-1]),
        ),
    ]  # fmt: skip
    for run, good, bad in cases:
        with pytest.raises(RuntimeError):
            run(bad)
        compiled = flambeau.compile(run)
        np.testing.assert_allclose(compiled(good), run(good), 1e-5)
        assert compiled(bad).isnan().all()


def test_a_number_that_indexes_nothing_is_an_error_in_compiled_functions_too() -> None:
    with pytest.raises(IndexError, match="size 0"):
        flambeau.compile(lambda x, i: x[i])(flambeau.zeros(0, 2), flambeau.tensor(0))


def test_unpooling_leaves_out_positions_out_of_range() -> None:
    x = _source()[:1, :2]
    unpooled = flambeau.compile(_with_gradient(lambda x, i: F.max_unpool1d(x, i, 2)))
    for bad in (-1, 4, *FAR):
        index = flambeau.tensor([[GOOD, bad]])
        with pytest.raises(RuntimeError):
            F.max_unpool1d(x, index, 2)
        result, gradient = unpooled(x, index)
        np.testing.assert_array_equal(result, [[0, 0, x[0, 0].item(), 0]])
        np.testing.assert_array_equal(gradient, [[GOOD + 1, 0]])


@pytest.mark.parametrize("optimizer", ["SGD", "SparseAdam"])
def test_a_sparse_gradient_of_a_row_out_of_range_moves_no_row(optimizer: str) -> None:
    embedding = flambeau.nn.Embedding(ROWS, COLUMNS, sparse=True)
    before = embedding.weight.detach().clone()
    steps = getattr(flambeau.optim, optimizer)(embedding.parameters(), lr=0.5)

    @flambeau.compile
    def step(index: Tensor) -> None:
        embedding(index).sum().backward()
        steps.step()
        steps.zero_grad()

    step(flambeau.tensor([GOOD, -1]))
    moved = (embedding.weight.detach() != before).any(1)
    assert moved.tolist() == [False, False, True, False]


def test_labels_of_eight_bits_reach_their_classes() -> None:
    scores = flambeau.randn(2, 300)
    target = flambeau.tensor([255, 7], dtype=flambeau.uint8)
    expected = F.cross_entropy(scores, target.long())
    np.testing.assert_allclose(flambeau.compile(F.cross_entropy)(scores, target), expected, 1e-6)


def test_only_one_place_knows_positions_out_of_range() -> None:
    """Modes of XLA's gathers and scatters are only used on positions that `inside` gave."""
    package = pathlib.Path(flambeau.__file__).parent
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text())
        modes = {
            keyword.value.value
            for call in ast.walk(tree) if isinstance(call, ast.Call)
            for keyword in call.keywords
            if keyword.arg == "mode" and isinstance(keyword.value, ast.Constant)
        }  # fmt: skip
        if modes & {"fill", "drop"}:
            names = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
            known = path.relative_to(package).as_posix() in _OF_THEIR_OWN
            assert names & {"inside", "all_inside"} or known, path


#: The callers have applied `inside`, or the positions are computed there.
_OF_THEIR_OWN = {
    "ops/indices/scattering.py", "ops/native/cross_entropy.py", "rare/histograms.py",
    "rare/segments.py",
}  # fmt: skip
