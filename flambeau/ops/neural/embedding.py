"""Lookup of rows by indices."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.kernels.single_precision import single
from flambeau.core.operators.op import op
from flambeau.ops.common.derivatives import moved, where_chosen, with_derivatives
from flambeau.ops.indices.placement import inside, nan_unless

__all__: list[str] = []


def check_indices(name: str, indices: Any) -> None:
    """Check that indices are int64 or int32."""
    if indices.dtype not in (jnp.int32, jnp.int64):
        raise RuntimeError(f"{name}(): indices must be int64 or int32, got {indices.dtype}")


@with_derivatives(lambda tangent, result, array, scale: tangent * scale, None)
def scale_gradient(array: Any, scale: Any) -> Any:
    """``array`` itself, with its gradient multiplied by ``scale``."""
    return array


@with_derivatives(lambda tangent, result, array, taking: where_chosen(taking, tangent), None)
def _with_gradient_where(array: Any, taking: Any) -> Any:
    """``array`` itself, with its gradient set to 0 where masked."""
    return array


def _rows(weight: Any, input: Any) -> Any:
    places = inside(input, weight.shape[0])
    return moved(functools.partial(jnp.take, axis=0, mode="fill"), weight, places)


def _divided_by_counts(rows: Any, weight: Any, input: Any) -> Any:
    # Half precision cannot count beyond 2048.
    dtype = jnp.promote_types(rows.dtype, jnp.float32)
    places = inside(input, weight.shape[0])
    counts = jnp.zeros(weight.shape[0], dtype).at[places].add(1, mode="drop")
    return scale_gradient(rows, (1 / counts[places])[..., None].astype(rows.dtype))


@op(node="EmbeddingBackward0")
def embedding(input: Array, weight: Array, padding_idx: int | None = None,
              scale_grad_by_freq: bool = False) -> Array:  # fmt: skip
    """The operator of `nn.functional.embedding`; see there."""
    check_indices("embedding", input)
    if weight.ndim != 2:
        raise RuntimeError(f"embedding(): weight must be 2-d, got shape {list(weight.shape)}")
    rows = _rows(weight, input)
    if scale_grad_by_freq:
        rows = _divided_by_counts(rows, weight, input)
    if padding_idx is None:
        return rows
    return _with_gradient_where(rows, (input != padding_idx)[..., None])


@op(differentiable=False)
def embedding_renorm(input: Array, weight: Array, max_norm: float, norm_type: float) -> Array:
    """``weight`` with the rows at ``input`` scaled down to the norm ``max_norm``."""
    check_indices("embedding", input)
    if weight.ndim != 2:
        raise RuntimeError(f"embedding(): weight must be 2-d, got shape {list(weight.shape)}")
    if not jnp.issubdtype(weight.dtype, jnp.inexact):
        raise RuntimeError(
            f"embedding(): max_norm needs floating point rows, got a weight of {weight.dtype}"
        )
    norms = jnp.linalg.norm(weight, norm_type, axis=1)
    places = inside(input.reshape(-1), weight.shape[0])
    named = jnp.zeros(weight.shape[0], bool).at[places].set(True, mode="drop")
    scale = jnp.where(named & (norms > max_norm), max_norm / (norms + 1e-7), 1.0)
    return weight * scale[:, None].astype(weight.dtype)


@op(differentiable=False)
def one_hot(input: Array, num_classes: int) -> Array:
    """``(*input.shape, num_classes)``: 1 where the last index is the class, else 0."""
    return (input[..., None] == jnp.arange(num_classes)).astype(jnp.int64)


@op(node="EmbeddingBagBackward0")
def embedding_bag(
    input: Array,
    weight: Array,
    offsets: Array | None = None,
    per_sample_weights: Array | None = None,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Array:
    """The operator of `nn.functional.embedding_bag`; see there."""
    if not jnp.issubdtype(input.dtype, jnp.integer):
        raise RuntimeError(f"embedding_bag(): indices must be integers, got {input.dtype}")
    if not jnp.issubdtype(weight.dtype, jnp.floating):
        raise RuntimeError(f"embedding_bag(): weight must be floating point, got {weight.dtype}")
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        raise RuntimeError(
            f"embedding_bag(): weight and per_sample_weights must have one dtype, got "
            f"{weight.dtype} and {per_sample_weights.dtype}"
        )
    rows = single(_rows(weight, input.reshape(-1)))
    if scale_grad_by_freq:
        rows = _divided_by_counts(rows, weight, input.reshape(-1))
    if per_sample_weights is not None:
        rows = rows * single(per_sample_weights).reshape(-1, 1)
    bags, bag_of = _bags(input, offsets, include_last_offset)
    counted = jnp.ones(input.size, bool)
    if padding_idx is not None:
        counted = input.reshape(-1) != padding_idx
    sizes = jax.ops.segment_sum(counted.astype(rows.dtype), bag_of, bags)[:, None]
    if mode == "max":
        found = jnp.where(sizes > 0, _greatest(rows, counted[:, None], bag_of, bags), 0)
    else:
        found = jax.ops.segment_sum(jnp.where(counted[:, None], rows, 0), bag_of, bags)
    found = found / jnp.maximum(sizes, 1) if mode == "mean" else found
    if offsets is not None:
        found = nan_unless(_are_bags(offsets, input.size), found)
    return found.astype(weight.dtype)


def _greatest(rows: Any, counted: Any, bag_of: Any, bags: int) -> Any:
    """The maxima of each bag; the gradient of each goes to the first equal element."""
    values = jnp.where(counted, jax.lax.stop_gradient(rows), -jnp.inf)
    greatest = jax.ops.segment_max(values, bag_of, bags)[bag_of]
    equal = (values == greatest) | (jnp.isnan(values) & jnp.isnan(greatest))
    # Read by position, so that rows that were not chosen get no gradient.
    places = jnp.where(equal & counted, jnp.arange(len(rows))[:, None], len(rows))
    first = jax.ops.segment_min(places, bag_of, bags)
    return jnp.take_along_axis(rows, first, axis=0, mode="fill")


def _bags(input: Any, offsets: Any, include_last_offset: bool) -> tuple[int, Any]:
    """The number of bags, and the bag of each row."""
    if offsets is None:
        return input.shape[0], jnp.repeat(jnp.arange(input.shape[0]), input.shape[1])
    bags = offsets.size - include_last_offset
    places = jnp.arange(input.size)
    return bags, jnp.searchsorted(offsets[:bags], places, side="right") - 1


def _are_bags(offsets: Any, count: int) -> Any:
    """Whether offsets begin with 0, never decrease, and end within ``count`` rows."""
    if not offsets.size:
        return True
    return (offsets[0] == 0) & jnp.all(jnp.diff(offsets) >= 0) & (offsets[-1] <= count)
