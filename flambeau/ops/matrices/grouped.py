"""Matrix products with rows, columns or inner dimension in groups of unequal size."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.core.support import dtype as dtypes

__all__ = ["grouped_mm"]


@op(node="GroupedMmBackward0")
def grouped_mm(
    mat_a: Array,
    mat_b: Array,
    *,
    offs: Array | None = None,
    bias: Array | None = None,
    out_dtype: dtypes.dtype | None = None,
) -> Array:
    """A matrix product for each group, such as the tokens of each expert.

    For a matrix without a dimension for the groups, ``offs`` holds the end of each of the G groups.

    Args:
        mat_a: ``(G, M, K)``; or ``(M, K)``, whose rows fall into groups, or whose columns do if
            ``mat_b`` is a matrix too.
        mat_b: ``(G, K, N)``; or ``(K, N)``, whose columns fall into groups, or whose rows do.
        offs: Shape ``(G,)``, int32, ascending. Elements after the last are ignored, with zeros in
            the result, which PyTorch leaves undefined.
        bias: Must be ``None``, as in PyTorch.
        out_dtype: Must be that of ``mat_a``, if given.

    Returns:
        ``(M, N)`` if one of the two has a dimension for the groups, else ``(G, M, N)``.

    Raises:
        RuntimeError: Shapes or dtypes do not match; ``offs`` is missing, or given and not needed.

    >>> import flambeau
    >>> tokens, experts = flambeau.ones(3, 2), flambeau.arange(8.0).reshape(2, 2, 2)
    >>> ends = flambeau.tensor([1, 3], dtype=flambeau.int32)
    >>> flambeau.nn.functional.grouped_mm(tokens, experts, offs=ends)
    tensor([[ 2.,  4.],
            [10., 12.],
            [10., 12.]])
    """
    _check(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return jnp.matmul(mat_a, mat_b)
    sizes = jnp.diff(offs, prepend=jnp.zeros(1, offs.dtype))
    if mat_b.ndim == 3:
        return lax.ragged_dot(mat_a, mat_b, sizes)
    if mat_a.ndim == 3:
        rows = lax.ragged_dot(mat_b.T, jnp.swapaxes(mat_a, 1, 2), sizes)
        return rows.T
    return _inner_groups(mat_a, mat_b, sizes)


@jax.custom_vjp
def _inner_groups(left: Any, right: Any, sizes: Any) -> Any:
    """The products ``(G, M, N)`` of groups of columns of ``left`` and rows of ``right``.

    JAX has no gradient for it; its gradients are grouped products of the other kind.
    """
    numbers = lax.RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), [1], [])
    return lax.ragged_dot_general(left, right, sizes, numbers)


def _inner_groups_forward(left: Any, right: Any, sizes: Any) -> Any:
    return _inner_groups(left, right, sizes), (left, right, sizes)


def _inner_groups_backward(saved: Any, cotangent: Any) -> Any:
    left, right, sizes = saved
    for_left = lax.ragged_dot(right, jnp.swapaxes(cotangent, 1, 2), sizes).T
    return for_left, lax.ragged_dot(left.T, cotangent, sizes), None


_inner_groups.defvjp(_inner_groups_forward, _inner_groups_backward)


def _check(mat_a: Any, mat_b: Any, offs: Any, bias: Any, out_dtype: Any) -> None:
    for name, matrix in (("mat_a", mat_a), ("mat_b", mat_b)):
        if matrix.ndim not in (2, 3):
            raise RuntimeError(f"grouped_mm(): {name} must have 2 or 3 dimensions")
        if matrix.dtype not in (np.float32, np.float16, dtypes.bfloat16.numpy):
            raise RuntimeError(
                f"grouped_mm(): {name} must be float32, float16 or bfloat16, got {matrix.dtype}"
            )
    shapes = f"{list(mat_a.shape)} and {list(mat_b.shape)}"
    if mat_a.dtype != mat_b.dtype:
        raise RuntimeError(f"grouped_mm(): dtypes {mat_a.dtype} and {mat_b.dtype} differ")
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError(f"grouped_mm(): inner sizes of {shapes} differ")
    if (offs is None) != (mat_a.ndim == mat_b.ndim == 3):
        raise RuntimeError(
            f"grouped_mm(): offs is for matrices without a dimension for the groups, and needed "
            f"there; got shapes {shapes} and {'no' if offs is None else 'an'} offs"
        )
    if offs is not None and (offs.dtype != np.int32 or offs.ndim != 1):
        raise RuntimeError(f"grouped_mm(): offs must be 1-d and int32, got {offs.dtype}")
    counts = {m.shape[0] for m in (mat_a, mat_b) if m.ndim == 3}
    counts |= set() if offs is None else {offs.shape[0]}
    if len(counts) > 1:
        raise RuntimeError(f"grouped_mm(): numbers of groups {sorted(counts)} differ")
    if bias is not None:
        raise RuntimeError("grouped_mm(): a bias is not possible; add it to the result")
    if out_dtype is not None and out_dtype.numpy != mat_a.dtype:
        raise RuntimeError(f"grouped_mm(): out_dtype must be that of mat_a, {mat_a.dtype}")
