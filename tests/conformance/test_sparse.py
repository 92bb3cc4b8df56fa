"""Sparse tensors against PyTorch's, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import flambeau
from tests.conformance.operators import Row, compare, table

RANDOM = np.random.default_rng(0)
# One position is there twice.
PLACES = np.array([[0, 0, 1, 3, 1], [2, 0, 1, 2, 1]])
ORDERED = np.array([[0, 0, 1, 3], [0, 2, 1, 2]])
SIZE = (4, 3)


def random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


VALUES, FEWER, ROWS = random(5), random(4), random(5, 2)
DENSE, WIDE, VECTOR, WHOLE = random(3, 2), random(2, 4), random(3), random(4, 3)


def made(lib: Any, values: Any, size: Any = SIZE) -> Any:
    places = PLACES if values.shape[0] == 5 else ORDERED
    return lib.sparse_coo_tensor(lib.tensor(places), values, size)


Compute = Callable[..., Any]
# What is computed of values at `PLACES`, or of fewer at `ORDERED`, and of dense tensors.
CASES: dict[str, tuple[Compute, tuple[np.ndarray, ...]]] = {
    "to_dense": (lambda lib, v: made(lib, v).to_dense(), (VALUES,)),
    "coalesce": (lambda lib, v: made(lib, v).coalesce().values(), (VALUES,)),
    "coalesce indices": (lambda lib, v: made(lib, v).coalesce().indices(), (VALUES,)),
    "values of rows": (lambda lib, v: made(lib, v, (4, 3, 2)).to_dense(), (ROWS,)),
    "coalesced rows": (lambda lib, v: made(lib, v, (4, 3, 2)).coalesce().values(), (ROWS,)),
    "sparse.mm": (lambda lib, v, x: lib.sparse.mm(made(lib, v), x), (VALUES, DENSE)),
    "mm": (lambda lib, v, x: lib.mm(made(lib, v), x), (VALUES, DENSE)),
    "method mm": (lambda lib, v, x: made(lib, v).mm(x), (FEWER, DENSE)),
    "@": (lambda lib, v, x: made(lib, v) @ x, (FEWER, DENSE)),
    "matmul": (lambda lib, v, x: lib.matmul(made(lib, v), x), (VALUES, DENSE)),
    "@ vector": (lambda lib, v, x: made(lib, v) @ x, (VALUES, VECTOR)),
    "mv": (lambda lib, v, x: lib.mv(made(lib, v), x), (VALUES, VECTOR)),
    "dense @": (lambda lib, v, x: x @ made(lib, v), (VALUES, WIDE)),
    "transposed @": (lambda lib, v, x: made(lib, v).t() @ x, (VALUES, WIDE.T.copy())),
    "sparse.addmm": (
        lambda lib, v, m, x: lib.sparse.addmm(m, made(lib, v), x, beta=2.0, alpha=3.0),
        (VALUES, random(4, 2), DENSE),
    ),
    "addmm": (
        lambda lib, v, m, x: lib.addmm(m, made(lib, v), x, beta=2.0),
        (VALUES, random(4, 2), DENSE),
    ),
    "sparse @ sparse": (
        lambda lib, v: (made(lib, v) @ made(lib, v).t()).to_dense(),
        (VALUES,),
    ),
    "times number": (lambda lib, v: (made(lib, v) * 2.5).to_dense(), (VALUES,)),
    "number times": (lambda lib, v: (3 * made(lib, v)).to_dense(), (VALUES,)),
    "by number": (lambda lib, v: (made(lib, v) / 2.5).to_dense(), (VALUES,)),
    "times 0-d": (lambda lib, v: (made(lib, v) * lib.tensor(2.0)).to_dense(), (VALUES,)),
    "times dense": (lambda lib, v, x: (made(lib, v) * x).to_dense(), (FEWER, WHOLE)),
    "times sparse": (
        lambda lib, v, w: (made(lib, v) * made(lib, w)).to_dense(),
        (FEWER, random(4)),
    ),
    "negative": (lambda lib, v: (-made(lib, v)).to_dense(), (VALUES,)),
    "plus": (lambda lib, v, w: (made(lib, v) + made(lib, w)).to_dense(), (VALUES, FEWER)),
    "minus": (lambda lib, v, w: (made(lib, v) - made(lib, w)).to_dense(), (VALUES, FEWER)),
    "add alpha": (
        lambda lib, v, w: lib.add(made(lib, v), made(lib, w), alpha=2).to_dense(),
        (VALUES, FEWER),
    ),
    "dense plus": (lambda lib, v, x: x + made(lib, v), (VALUES, WHOLE)),
    "sum": (lambda lib, v: made(lib, v).sum(), (VALUES,)),
    "sparse.sum": (lambda lib, v: lib.sparse.sum(made(lib, v)), (VALUES,)),
    "sparse.sum 0": (lambda lib, v: lib.sparse.sum(made(lib, v), 0).to_dense(), (VALUES,)),
    "sparse.sum -1": (lambda lib, v: lib.sparse.sum(made(lib, v), -1).to_dense(), (VALUES,)),
    "sparse.sum all": (lambda lib, v: lib.sparse.sum(made(lib, v), (0, 1)), (VALUES,)),
    "sparse.sum of rows": (
        lambda lib, v: lib.sparse.sum(made(lib, v, (4, 3, 2)), (1, 2)).to_dense(),
        (ROWS,),
    ),
    "softmax": (lambda lib, v: lib.sparse.softmax(made(lib, v), 1).to_dense(), (FEWER,)),
    "softmax 0": (lambda lib, v: lib.sparse.softmax(made(lib, v), 0).to_dense(), (FEWER,)),
    "log_softmax": (lambda lib, v: lib.sparse.log_softmax(made(lib, v), 1).to_dense(), (FEWER,)),
    "t": (lambda lib, v: made(lib, v).t().to_dense(), (VALUES,)),
    "transpose": (lambda lib, v: made(lib, v).transpose(0, 1).to_dense(), (VALUES,)),
    "cat": (lambda lib, v, w: lib.cat([made(lib, v), made(lib, w)]).to_dense(), (VALUES, FEWER)),
    "cat 1": (
        lambda lib, v, w: lib.cat([made(lib, v), made(lib, w)], 1).to_dense(),
        (VALUES, FEWER),
    ),
    "spmm": (lambda lib, v, x: lib.spmm(made(lib, v), x), (VALUES, DENSE)),
    "select": (lambda lib, v: made(lib, v).select(0, 1).to_dense(), (VALUES,)),
    "select 1": (lambda lib, v: made(lib, v).select(1, -1).to_dense(), (VALUES,)),
    "subscript": (lambda lib, v: made(lib, v)[1].to_dense(), (VALUES,)),
    "subscripts": (lambda lib, v: made(lib, v)[0, 2] + made(lib, v)[1, 2], (VALUES,)),
    "column": (lambda lib, v: made(lib, v)[:, 2].to_dense(), (VALUES,)),
    "index_select": (
        lambda lib, v: made(lib, v).index_select(0, lib.tensor([1, 3, 1])).to_dense(),
        (VALUES,),
    ),
    "index_select 1": (
        lambda lib, v: made(lib, v).index_select(1, lib.tensor([2, 0])).to_dense(),
        (VALUES,),
    ),
    "select of rows": (lambda lib, v: made(lib, v, (4, 3, 2))[0].to_dense(), (ROWS,)),
    "tanh": (lambda lib, v: made(lib, v).tanh().to_dense(), (FEWER,)),
    "relu": (lambda lib, v: lib.relu(made(lib, v)).to_dense(), (FEWER,)),
    "pow": (lambda lib, v: (made(lib, v) ** 2).to_dense(), (FEWER,)),
    "double": (lambda lib, v: made(lib, v).double().to_dense(), (VALUES,)),
    "clone": (lambda lib, v: made(lib, v).clone().to_dense(), (VALUES,)),
    "to_sparse": (lambda lib, x: (x * (x > 0)).to_sparse().to_dense(), (WHOLE,)),
    "values of to_sparse": (lambda lib, x: (x * (x > 0)).to_sparse().values(), (WHOLE,)),
    "to_sparse of rows": (lambda lib, x: (x * (x > 0)).to_sparse(1).values(), (WHOLE,)),
    "sparse_mask": (
        lambda lib, x, v: x.sparse_mask(made(lib, v.detach()).coalesce()).to_dense(),
        (WHOLE, FEWER),
    ),
    "double values": (
        lambda lib, v, x: made(lib, v) @ x,
        (VALUES.astype(float), DENSE.astype(float)),
    ),
}
# The shape of what they give depends on values, which programs do not know; or on the order of
# PyTorch's kernels.
EAGER_ONLY = {
    "coalesce", "coalesce indices", "coalesced rows", "sparse @ sparse", "times sparse", "softmax",
    "softmax 0", "log_softmax", "tanh", "relu", "pow", "to_sparse", "values of to_sparse",
    "to_sparse of rows", "sparse_mask", "select", "select 1", "subscript", "subscripts", "column",
    "index_select", "index_select 1", "select of rows",
}  # fmt: skip
# PyTorch has no gradients of these, or sparse ones of dense tensors.
WITHOUT_GRADIENT = {
    "times dense", "cat", "cat 1", "tanh", "select", "select 1", "subscript", "column",
    "index_select", "index_select 1", "select of rows",
}  # fmt: skip


def compiled(compute: Compute) -> Compute:
    def run(lib: Any, *tensors: Any) -> Any:
        if lib is torch:
            return compute(lib, *tensors)
        return flambeau.compile(lambda *given: compute(lib, *given))(*tensors)

    return run


def rows(is_compiled: bool) -> Iterator[Row]:
    for name, (compute, inputs) in CASES.items():
        if not (is_compiled and name in EAGER_ONLY):
            run = compiled(compute) if is_compiled else compute
            yield Row(name, run, inputs, gradient=name not in WITHOUT_GRADIENT, node=False)


@table(rows(False))
def test_computing_with_sparse_tensors_is_pytorchs(row: Row) -> None:
    compare(row)


@table(rows(True))
def test_compiled_computing_with_sparse_tensors_is_pytorchs(row: Row) -> None:
    compare(row)


FACTS: dict[str, Callable[[Any, Any], Any]] = {
    "repr": lambda lib, x: repr(x),
    "repr of doubles": lambda lib, x: repr(x.double()),
    "repr of a leaf": lambda lib, x: repr(x.detach().clone().requires_grad_()),
    "repr on the tape": lambda lib, x: repr(
        lib.sparse_coo_tensor(x._indices(), lib.ones(5, requires_grad=True), x.shape)
    ),
    "repr of none": lambda lib, x: repr(lib.sparse_coo_tensor(size=(2, 3))),
    "repr of rows": lambda lib, x: repr(lib.tensor([[0.0, 1.0], [0.0, 0.0]]).to_sparse(1)),
    "shape": lambda lib, x: (tuple(x.shape), tuple(x.size()), x.size(0), x.dim(), x.ndim),
    "sizes": lambda lib, x: (x.numel(), len(x), x._nnz(), x.sparse_dim(), x.dense_dim()),
    "kind": lambda lib, x: (x.is_sparse, str(x.layout), str(x.dtype), str(x.device)),
    "coalesced": lambda lib, x: (x.is_coalesced(), x.coalesce().is_coalesced()),
    "positions": lambda lib, x: (x._indices().tolist(), x.coalesce().indices().tolist()),
    "dense": lambda lib, x: (
        lib.ones(2, 3).sparse_dim(), lib.ones(2, 3).dense_dim(), lib.ones(2).is_sparse,
    ),
    "tensor": lambda lib, x: (lib.is_tensor(x), x.is_floating_point(), x.is_complex()),
    "tape": lambda lib, x: (x.requires_grad, x.is_leaf, x.grad_fn, x.grad),
    "least size": lambda lib, x: tuple(lib.sparse_coo_tensor([[0, 4], [1, 0]], [1, 2]).shape),
    "dtype": lambda lib, x: str(lib.sparse_coo_tensor([[0]], [1], dtype=lib.float64).dtype),
    "integers": lambda lib, x: (lib.sparse_coo_tensor([[0]], [1]) * 2.5).to_dense().tolist(),
    "bools": lambda lib, x: lib.sparse_coo_tensor([[0, 0]], [True, True]).to_dense().tolist(),
    "zeros_like": lambda lib, x: lib.zeros_like(x)._nnz(),
    "older constructors": lambda lib, x: (
        repr(lib.sparse.FloatTensor(lib.tensor(PLACES), lib.tensor(VALUES), lib.Size(SIZE))),
        repr(lib.sparse.DoubleTensor(2, 3)), isinstance(x, lib.sparse.FloatTensor),
        isinstance(x, lib.sparse.LongTensor), isinstance(lib.ones(1), lib.sparse.FloatTensor),
    ),
    "transposed": lambda lib, x: (tuple(x.t().shape), x.T._indices().tolist()),
    "0-d": lambda lib, x: lib.tensor(3.0).to_sparse().to_dense().tolist(),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:torch.sparse.SparseTensor:UserWarning")
@pytest.mark.parametrize("name", FACTS)
def test_what_is_known_of_sparse_tensors_is_pytorchs(name: str) -> None:
    found = []
    for lib in (torch, flambeau):
        x = lib.sparse_coo_tensor(lib.tensor(PLACES), lib.tensor(VALUES), SIZE)
        found.append(eval(repr(FACTS[name](lib, x)).replace("torch.", "flambeau.")))
    assert found[1] == found[0]


BAD: dict[str, Callable[[Any, Any], Any]] = {
    "indices": lambda lib, x: x.indices(),
    "values": lambda lib, x: x.values(),
    "of dense": lambda lib, x: lib.ones(2).coalesce(),
    "indices of dense": lambda lib, x: lib.ones(2).indices(),
    "values of dense": lambda lib, x: lib.ones(2).values(),
    "is_coalesced of dense": lambda lib, x: lib.ones(2).is_coalesced(),
    "number of values": lambda lib, x: lib.sparse_coo_tensor(lib.tensor(PLACES), lib.ones(3)),
    "vector of indices": lambda lib, x: lib.sparse_coo_tensor(lib.tensor([1]), lib.ones(1)),
    "size": lambda lib, x: lib.sparse_coo_tensor(lib.tensor(PLACES), lib.ones(5), (4,)),
    "size of rows": lambda lib, x: lib.sparse_coo_tensor(
        lib.tensor(PLACES), lib.ones(5, 2), (4, 3, 3)
    ),
    "mm": lambda lib, x: x.mm(lib.ones(2, 3)),
    "dense @": lambda lib, x: lib.ones(2, 3) @ x,
    "dtypes": lambda lib, x: x @ lib.ones(3, 2, dtype=lib.float64),
    "plus number": lambda lib, x: x + 1,
    "plus dense": lambda lib, x: x + lib.ones(SIZE),
    "plus another size": lambda lib, x: x + lib.sparse_coo_tensor(size=(3, 3)),
    "by dense": lambda lib, x: x / lib.ones(SIZE),
    "exp": lambda lib, x: x.exp(),
    "mean": lambda lib, x: x.mean(),
    "view": lambda lib, x: x.view(3, 4),
    "eq": lambda lib, x: x == x,
    "numpy": lambda lib, x: x.numpy(),
    "dim": lambda lib, x: lib.sparse.sum(x, 2),
    "subscript": lambda lib, x: x[4],
    "too many subscripts": lambda lib, x: x[0, 0, 0],
    "slice": lambda lib, x: x[1:],
    "index_select": lambda lib, x: x.index_select(0, lib.tensor([4])),
    "to_sparse": lambda lib, x: lib.ones(2).to_sparse(2),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_calls_raise_pytorchs_errors(name: str) -> None:
    raised = []
    for lib in (torch, flambeau):
        x = lib.sparse_coo_tensor(lib.tensor(PLACES), lib.tensor(VALUES), SIZE)
        with pytest.raises(Exception) as found:  # noqa: PT011
            BAD[name](lib, x)
        raised.append(found.type)
    assert issubclass(raised[1], raised[0])


def test_the_gradient_of_a_sparse_leaf_is_pytorchs() -> None:
    found = []
    for lib in (torch, flambeau):
        leaf = lib.sparse_coo_tensor(lib.tensor(ORDERED), lib.tensor(FEWER), SIZE)
        leaf = leaf.coalesce().requires_grad_()
        lib.sparse.mm(leaf, lib.tensor(DENSE)).square().sum().backward()
        assert leaf.grad.is_sparse
        found.append(leaf.grad.to_dense().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
