"""Products of vectors, matrices and batches of them."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from flambeau.core.devices.compiler import cpu_forms
from flambeau.core.kernels.kinds import Array, Number
from flambeau.core.kernels.promotion import result_dtype
from flambeau.core.kernels.single_precision import spread
from flambeau.core.operators.op import function, op
from flambeau.core.support import errors
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import same_dtype, wrap_dim
from flambeau.ops.cpu_forms.matrix_product import times_matrices, times_matrix
from flambeau.ops.cpu_forms.shared_product import shared_product

__all__ = [
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "bilinear", "bmm", "cross", "dot", "ger",
    "inner", "kron", "matmul", "mm", "mv", "outer", "tensordot", "trace", "vdot",
]  # fmt: skip


def one_dtype(name: str, *arrays: Any) -> None:
    """Check that products mix no dtypes: PyTorch promotes in arithmetic, never in products."""
    same_dtype(name, *(each for each in arrays if each is not None))


def check_ndim(name: str, argument: str, array: Any, ndim: int) -> None:
    """Check that an operand has ``ndim`` dimensions."""
    if array.ndim != ndim:
        raise RuntimeError(
            f"{name}(): {argument} must have {ndim} dimension{'s'[: ndim != 1]}, "
            f"got shape {list(array.shape)}"
        )


def _by(matrix: Any) -> str:
    return "x".join(map(str, matrix.shape))


def _check_inner(name: str, left: Any, right: Any, left_size: int, right_size: int) -> None:
    if left_size != right_size:
        raise RuntimeError(
            f"{name}(): mat1 and mat2 shapes cannot be multiplied ({_by(left)} and {_by(right)}): "
            f"{left_size} is not {right_size}"
        )


@op(node="AddmmBackward0")
def linear(input: Array, weight: Array, bias: Array | None = None) -> Array:
    """``input @ weight.T + bias``.

    Args:
        input: ``(..., in_features)``.
        weight: ``(out_features, in_features)``, or ``(in_features,)`` for a single output without a
            dimension.
        bias: ``(out_features,)``, or 0-d for a 1-d weight.

    Returns:
        ``(..., out_features)``.

    Raises:
        RuntimeError: The sizes do not match, or the dtypes differ.
    """
    one_dtype("linear", input, weight, bias)
    if weight.ndim not in (1, 2) or input.ndim == 0:
        raise RuntimeError(
            "linear() takes an input of at least 1 dimension and a weight of 1 or 2, "
            f"got shapes {list(input.shape)} and {list(weight.shape)}"
        )
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            f"linear(): mat1 and mat2 shapes cannot be multiplied: input {list(input.shape)} and "
            f"weight {list(weight.shape)} must agree in the last dimension, in_features: "
            f"{input.shape[-1]} is not {weight.shape[-1]}"
        )
    output = times_matrix(input, weight, 1) if weight.ndim == 2 else jnp.matmul(input, weight)
    if bias is None:
        return output
    if (bias.ndim > 1 and bias.shape[-1:] != weight.shape[:1]) or not _fits(bias, output):
        raise RuntimeError(
            f"linear(): a bias of shape {list(bias.shape)} does not fit the weight of shape "
            f"{list(weight.shape)}"
        )
    return output + spread(bias, output.shape)


@op
def bilinear(input1: Array, input2: Array, weight: Array, bias: Array | None = None) -> Array:
    """``x1 @ weight[o] @ x2 + bias[o]`` for each output ``o``.

    Args:
        input1: ``(..., in1_features)``.
        input2: ``(..., in2_features)``.
        weight: ``(out_features, in1_features, in2_features)``.
        bias: ``(out_features,)``.

    Returns:
        ``(..., out_features)``.

    Raises:
        RuntimeError: The sizes do not match.
    """
    one_dtype("bilinear", input1, input2, weight, bias)
    check_ndim("bilinear", "weight", weight, 3)
    shapes = (
        f"got inputs of shapes {list(input1.shape)} and {list(input2.shape)}, a weight of shape "
        f"{list(weight.shape)}"
    )
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): the inputs must agree but for the last dimension, {shapes}"
        )
    if (input1.shape[-1], input2.shape[-1]) != weight.shape[1:]:
        raise RuntimeError(f"bilinear(): the weight does not fit the inputs, {shapes}")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise RuntimeError(
            f"bilinear(): the bias must have shape [{weight.shape[0]}], got {list(bias.shape)}"
        )
    output = jnp.einsum("...i,oij,...j->...o", input1, weight, input2)
    return output if bias is None else output + spread(bias, output.shape)


def _fits(array: Any, to: Any) -> bool:
    """Whether ``array`` broadcasts to the shape of ``to`` without enlarging it."""
    return array.ndim <= to.ndim and all(
        a in (1, b) for a, b in zip(array.shape[::-1], to.shape[::-1], strict=False)
    )


@op(method=True, operator="matmul", node="MmBackward0")
def matmul(input: Array, other: Array | Number) -> Array:
    """The matrix product of two tensors.

    Two vectors give their dot product, a matrix and a vector a vector, two matrices a matrix;
    leading dimensions beyond two are batches and broadcast.

    Raises:
        RuntimeError: A tensor is 0-d, the sizes do not match, or the dtypes differ.
    """
    _check_matmul(input, other)
    if input.ndim == 2 and other.ndim > 2 and cpu_forms():
        *lead, inner, columns = other.shape
        found = shared_product(input, other.reshape(math.prod(lead), inner, columns))
        return found.reshape(*lead, input.shape[0], columns)
    return _matmul(input, other)


def _matmul(left: Any, right: Any) -> Any:
    return times_matrix(left, right, 0) if right.ndim == 2 else times_matrices(left, right)


def _check_matmul(input: Any, other: Any) -> None:
    for each in (input, other):
        if not hasattr(each, "ndim") or getattr(each, "weak_type", False):
            raise errors.TypeError("matmul() and @ take Tensors, not numbers; use * for those")
    if input.ndim == 0 or other.ndim == 0:
        raise RuntimeError(
            f"matmul() takes tensors of at least 1 dimension, got {input.ndim} and {other.ndim}"
        )
    one_dtype("matmul", input, other)
    size = other.shape[0] if other.ndim == 1 else other.shape[-2]
    _check_inner("matmul", input, other, input.shape[-1], size)


@op(method=True)
def mm(input: Array, mat2: Array) -> Array:
    """The product of an ``(n, m)`` and an ``(m, p)`` matrix, ``(n, p)``.

    Raises:
        RuntimeError: They are no matrices, the sizes do not match, or the dtypes differ.
    """
    check_ndim("mm", "input", input, 2)
    check_ndim("mm", "mat2", mat2, 2)
    return _product("mm", input, mat2)


@op(method=True)
def bmm(input: Array, mat2: Array) -> Array:
    """The products of a ``(b, n, m)`` and a ``(b, m, p)`` batch of matrices, ``(b, n, p)``.

    Raises:
        RuntimeError: They are no batches, the sizes do not match, or the dtypes differ.
    """
    check_ndim("bmm", "input", input, 3)
    check_ndim("bmm", "mat2", mat2, 3)
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            f"bmm(): batches of {input.shape[0]} and {mat2.shape[0]} matrices, "
            f"shapes {list(input.shape)} and {list(mat2.shape)}, cannot be paired"
        )
    return _product("bmm", input, mat2)


def _product(name: str, left: Any, right: Any) -> Any:
    one_dtype(name, left, right)
    size = right.shape[-2] if right.ndim > 1 else right.shape[0]
    _check_inner(name, left, right, left.shape[-1], size)
    return _matmul(left, right)


@op(method=True)
def mv(input: Array, vec: Array) -> Array:
    """The product of an ``(n, m)`` matrix and an ``(m,)`` vector, ``(n,)``."""
    check_ndim("mv", "input", input, 2)
    check_ndim("mv", "vec", vec, 1)
    return _product("mv", input, vec)


@op(method=True)
def dot(input: Array, tensor: Array) -> Array:
    """The dot product of two vectors of the same length, 0-d, without conjugation.

    Raises:
        RuntimeError: They are no vectors, the lengths or the dtypes differ.
    """
    check_ndim("dot", "input", input, 1)
    check_ndim("dot", "tensor", tensor, 1)
    return _product("dot", input, tensor)


@op(method=True)
def vdot(input: Array, other: Array) -> Array:
    """The dot product of the conjugate of a vector with another, 0-d."""
    check_ndim("vdot", "input", input, 1)
    check_ndim("vdot", "other", other, 1)
    return _product("vdot", jnp.conj(input), other)


@op(method=True)
def inner(input: Array, other: Array) -> Array:
    """Sums of products over the last dimensions; for a 0-d operand, the plain product.

    Raises:
        RuntimeError: The last dimensions differ; or the dtypes do, and none is 0-d.
    """
    if input.ndim == 0 or other.ndim == 0:
        input, other = _promoted(input, other)
        return input * other
    one_dtype("inner", input, other)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner(): the last dimensions of shapes {list(input.shape)} and "
            f"{list(other.shape)} differ"
        )
    return jnp.inner(input, other)


def _promoted(*arrays: Any) -> list[Any]:
    """Operands of any shapes in their common dtype."""
    to = result_dtype(arrays).numpy
    return [each.astype(to) for each in arrays]


@op(method=True, widen=True, node="MulBackward0")
def outer(input: Array, vec2: Array) -> Array:
    """The products of each element of ``input`` ``(n,)`` and of ``vec2`` ``(m,)``, ``(n, m)``."""
    check_ndim("outer", "input", input, 1)
    check_ndim("outer", "vec2", vec2, 1)
    left, right = _promoted(input, vec2)
    return left[:, None] * right[None, :]


@function(method=True)
def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """`outer` under its older name."""
    return outer(input, vec2)


@op(method=True, widen=True)
def kron(input: Array, other: Array) -> Array:
    """The Kronecker product: ``input`` with each element replaced by its product with ``other``."""
    left, right = _promoted(input, other)
    if left.dtype == np.bool_:
        return jnp.kron(left.astype(np.uint8), right.astype(np.uint8)).astype(np.bool_)
    return jnp.kron(left, right)


# A scaled product added to a scaled matrix, which broadcasts


def _combine(name: str, input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    if not _fits(input, product):
        raise RuntimeError(
            f"{name}(): an input of shape {list(input.shape)} does not broadcast to the product's "
            f"shape {list(product.shape)}"
        )
    product = (alpha * product).astype(product.dtype)
    # With beta == 0 the input is ignored, including its NaNs.
    if isinstance(beta, int | float) and beta == 0:
        return product
    input = spread(input, product.shape)
    scaled = jnp.where(jnp.asarray(beta) == 0, jnp.zeros_like(input), beta * input)
    return (scaled + product).astype(product.dtype)


@op(method=True, inplace=True)
def addmm(input: Array, mat1: Array, mat2: Array, *, beta: Array = 1, alpha: Array = 1) -> Array:
    """``beta * input + alpha * (mat1 @ mat2)``, ``input`` broadcast.

    Raises:
        RuntimeError: ``mat1`` or ``mat2`` is not a matrix, the sizes do not match, or dtypes
            differ.
    """
    check_ndim("addmm", "mat1", mat1, 2)
    check_ndim("addmm", "mat2", mat2, 2)
    one_dtype("addmm", input, mat1, mat2)
    return _combine("addmm", input, _product("addmm", mat1, mat2), beta, alpha)


@op(method=True, inplace=True)
def addmv(input: Array, mat: Array, vec: Array, *, beta: Array = 1, alpha: Array = 1) -> Array:
    """``beta * input + alpha * (mat @ vec)``, ``input`` broadcast."""
    check_ndim("addmv", "mat", mat, 2)
    check_ndim("addmv", "vec", vec, 1)
    one_dtype("addmv", input, mat, vec)
    return _combine("addmv", input, _product("addmv", mat, vec), beta, alpha)


@op(method=True, inplace=True)
def addr(input: Array, vec1: Array, vec2: Array, *, beta: Array = 1, alpha: Array = 1) -> Array:
    """``beta * input + alpha * outer(vec1, vec2)``, ``input`` broadcast."""
    check_ndim("addr", "vec1", vec1, 1)
    check_ndim("addr", "vec2", vec2, 1)
    input, vec1, vec2 = _promoted(input, vec1, vec2)
    return _combine("addr", input, vec1[:, None] * vec2[None, :], beta, alpha)


@op(method=True, inplace=True)
def baddbmm(
    input: Array, batch1: Array, batch2: Array, *, beta: Array = 1, alpha: Array = 1
) -> Array:
    """``beta * input + alpha * bmm(batch1, batch2)``, ``input`` broadcast."""
    check_ndim("baddbmm", "batch1", batch1, 3)
    check_ndim("baddbmm", "batch2", batch2, 3)
    one_dtype("baddbmm", input, batch1, batch2)
    return _combine("baddbmm", input, _product("baddbmm", batch1, batch2), beta, alpha)


@op(method=True, inplace=True)
def addbmm(
    input: Array, batch1: Array, batch2: Array, *, beta: Array = 1, alpha: Array = 1
) -> Array:
    """``beta * input + alpha * `` the sum of ``bmm(batch1, batch2)`` over the batch."""
    check_ndim("addbmm", "batch1", batch1, 3)
    check_ndim("addbmm", "batch2", batch2, 3)
    one_dtype("addbmm", input, batch1, batch2)
    _check_inner("addbmm", batch1, batch2, batch1.shape[-1], batch2.shape[-2])
    product = jnp.einsum("bij,bjk->ik", batch1, batch2)
    return _combine("addbmm", input, product, beta, alpha)


@op(node="ViewBackward0")
def _tensordot(a: Array, b: Array, dims: int | tuple[tuple[int, ...], tuple[int, ...]]) -> Array:
    one_dtype("tensordot", a, b)
    return jnp.tensordot(a, b, dims)


@function
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """The contraction of several dimensions of two tensors.

    Args:
        a: The left operand.
        b: The right operand.
        dims: The number of trailing dimensions of ``a`` and leading ones of ``b`` to sum over, or
            two lists of dimensions.

    Raises:
        RuntimeError: The contracted sizes differ, or ``dims`` is negative.
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot(): dims must not be negative, got {dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(
                f"tensordot(): dims={dims} is more than the dimensions of {list(a.shape)} and "
                f"{list(b.shape)}"
            )
        dims = range(a.ndim - dims, a.ndim), range(dims)
    left = tuple([wrap_dim(each, a.ndim, "tensordot") for each in dims[0]])
    right = tuple([wrap_dim(each, b.ndim, "tensordot") for each in dims[1]])
    if len(left) != len(right):
        raise RuntimeError(
            f"tensordot(): dims names {len(left)} dimensions of a and {len(right)} of b"
        )
    for one, other in zip(left, right, strict=True):
        # Elements at a dimension of size 1 are summed, as if it were broadcast.
        if a.shape[one] == 1:
            b = b.sum(other, keepdim=True)
        elif b.shape[other] == 1:
            a = a.sum(one, keepdim=True)
        elif a.shape[one] != b.shape[other]:
            raise RuntimeError(
                f"tensordot(): contracted dimensions need to match, but dimension {one} of shape "
                f"{list(a.shape)} and dimension {other} of shape {list(b.shape)} differ"
            )
    return _tensordot(a, b, (left, right))


@op(node="LinalgCrossBackward0")
def _cross(input: Array, other: Array, dim: int) -> Array:
    one_dtype("cross", input, other)
    ndim = max(input.ndim, other.ndim)
    if input.ndim != other.ndim:
        raise RuntimeError(
            f"cross(): tensors of {input.ndim} and {other.ndim} dimensions; both must have as many"
        )
    if not -ndim <= dim < ndim:
        raise errors.IndexError(f"cross(): dimension {dim} is out of range for {ndim} dimensions")
    for each in (input, other):
        if each.shape[dim] != 3:
            raise RuntimeError(
                f"cross(): dimension {dim} must have size 3, got shapes {list(input.shape)} and "
                f"{list(other.shape)}"
            )
    left, right = jnp.broadcast_arrays(input, other)
    return jnp.cross(left, right, axis=dim)


@function(method=True)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors of size 3 along ``dim``, by default the first such dimension.

    Raises:
        RuntimeError: No dimension has size 3.
    """
    if dim is None:
        dim = next((i for i, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError(f"cross(): no dimension of shape {list(input.shape)} has size 3")
    return _cross(input, other, dim)


@function
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of size 3 along ``dim``."""
    return _cross(input, other, dim)


@op(method=True, widen=True, linear=True)
def trace(input: Array) -> Array:
    """The sum of the diagonal of a matrix, 0-d.

    Raises:
        RuntimeError: ``input`` is not a matrix.
    """
    check_ndim("trace", "input", input, 2)
    small = jnp.issubdtype(input.dtype, jnp.integer) or input.dtype == jnp.bool_
    return jnp.trace(input, dtype=jnp.int64 if small else input.dtype)
