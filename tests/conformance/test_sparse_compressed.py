"""Matrices in CSR and CSC beside PyTorch's: their parts, products, and other layouts."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import flambeau

# PyTorch warns of its own forms of these matrices.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")

ROWS = [[0.0, 1.0, 0.0], [2.0, 0.0, 3.0], [0.0, 0.0, 0.0], [4.0, 5.0, 0.0]]


def situation(lib: Any) -> dict[str, Any]:
    dense = lib.tensor(ROWS)
    return {
        "lib": lib, "dense": dense, "csr": dense.to_sparse_csr(), "csc": dense.to_sparse_csc(),
        "coo": dense.to_sparse(), "x": lib.arange(6.0).reshape(3, 2),
    }  # fmt: skip


EXPRESSIONS = """
csr.crow_indices()
csr.col_indices()
csr.values()
csc.ccol_indices()
csc.row_indices()
csc.values()
(csr._nnz(), tuple(csr.shape), csr.is_sparse, csr.is_sparse_csr, csr.numel(), csr.dim())
str(csr.layout)[-3:] + str(csc.layout)[-3:]
str(csr)
str(csc.double())
csr.to_dense()
csc.to_dense()
csr @ x
csc @ x
csr.matmul(x[:, 0])
lib.mv(csr, x[:, 1])
lib.mm(csr, x)
lib.sparse.mm(csr, x)
lib.sparse.mm(csr, x, "sum")
lib.sparse.mm(csr, x, "mean")
lib.sparse.mm(csr, x, "amax")
lib.sparse.mm(csr, x, "amin")
lib.addmm(lib.ones(4, 2), csr, x)
(csr * 2).values()
str((csr * 2).layout)[-3:]
str((-csr.clone()).detach().layout)[-3:]
csr.to_sparse_csc().values()
csc.to_sparse_csr().values()
coo.to_sparse_csr().crow_indices()
dense.to_sparse(layout=lib.sparse_csr).col_indices()
csr.to_sparse_coo().coalesce().indices()
csr.to_sparse().to_dense()
csr.t().to_dense()
csr.transpose(0, 1).to_dense()
(csr + csr).to_dense()
lib.sparse_csr_tensor([0, 1, 3], [1, 0, 2], [1.0, 2.0, 3.0])
lib.sparse_csr_tensor([0, 1, 3], [1, 0, 2], [1.0, 2.0, 3.0], (2, 5)).to_dense()
lib.sparse_csc_tensor([0, 1], [1], [2.0]).to_dense()
lib.sparse_compressed_tensor([0, 1], [1], [2.0], layout=lib.sparse_csr, dtype=lib.float64)
lib.sparse_csr_tensor(lib.tensor([0, 1]), lib.tensor([1]), lib.tensor([2.0]), requires_grad=True)
""".strip().splitlines()


def shown(found: Any) -> Any:
    if isinstance(found, torch.Tensor | flambeau.Tensor) and not str(found.layout).endswith("ided"):
        found = str(found)
    if isinstance(found, str):
        return re.sub("torch|flambeau", "lib", found)
    return found.tolist() if hasattr(found, "tolist") else found


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(expression: str) -> None:
    ours, theirs = (eval(expression, situation(lib)) for lib in (flambeau, torch))
    assert shown(ours) == shown(theirs)


def gradients(lib: Any) -> list[Any]:
    values = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = lib.arange(6.0).reshape(3, 2).requires_grad_()
    crow, columns = lib.tensor([0, 1, 3]), lib.tensor([1, 0, 2])
    matrix = lib.sparse_csr_tensor(crow, columns, values, (2, 3))
    (matrix @ x).square().sum().backward()
    return [x.grad.tolist(), None if values.grad is None else values.grad.tolist()]


def test_gradients_flow_to_the_dense_matrix_and_to_values() -> None:
    # PyTorch has no gradient for `values`: those are 2 (A x) times x's row, by hand.
    ours, theirs = gradients(flambeau), gradients(torch)
    assert ours[0] == theirs[0]
    dense = torch.zeros(2, 3)
    dense[0, 1], dense[1, 0], dense[1, 2] = 1.0, 2.0, 3.0
    dense.requires_grad_()
    (dense @ torch.arange(6.0).reshape(3, 2)).square().sum().backward()
    assert dense.grad is not None
    assert ours[1] == [dense.grad[0, 1].item(), dense.grad[1, 0].item(), dense.grad[1, 2].item()]


@pytest.mark.parametrize(
    "expression",
    ["dense.crow_indices()", "csr.indices()", "csr.ccol_indices()", "csc.crow_indices()"],
)
def test_parts_of_other_layouts_are_an_error(expression: str) -> None:
    for lib in (flambeau, torch):
        with pytest.raises(RuntimeError):
            eval(expression, situation(lib))
