"""Attention by native kernels, which never materialize the scores."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from flambeau.ops.cpu_forms.linear_maps import LinearMap
from flambeau.ops.native.call import call_kernel, has_kernel
from flambeau.ops.native.derivative import derivative, moving

__all__: list[str] = []

# Vectors hold queries side by side, so XLA is faster for fewer queries.
_FEWEST_QUERIES = 16

#: Attention of ``(query, key, value, mask, is_causal, scale)`` that JAX can differentiate.
Plain = Callable[[Any, Any, Any, Any, bool, float], Any]


class _How(NamedTuple):
    """The properties of an attention program besides its arrays."""

    plain: Plain
    is_causal: bool
    scale: float

    def by_xla(self, query: Any, key: Any, value: Any, mask: Any) -> Any:
        return self.plain(query, key, value, mask, self.is_causal, self.scale)

    def call(self, name: str, shapes: Any, *arrays: Any) -> Any:
        """The results of a kernel, all in single precision; the last array may be ``None``."""
        *given, mask = arrays
        attributes = {"is_causal": self.is_causal, "scale": np.float32(self.scale)}
        batch = given[0].ndim - 2
        if mask is None:
            return call_kernel(name, shapes, *given, batch=batch, **attributes)
        # The leading dimensions of a mask are the problems, or have size 1.
        is_whole = batch == 0 or len(mask) < len(given[0])
        whole = (len(given),) if is_whole else ()
        batch = batch if mask.shape[:batch] == given[0].shape[:batch] else min(batch, 1)
        return call_kernel(name, shapes, *given, mask, batch=batch, whole=whole, **attributes)


def takes(query: Any, kept: Any) -> bool:
    """Whether the kernels support this attention.

    Args:
        query: ``(..., L, E)``.
        kept: The weights that dropout keeps, if there is dropout.
    """
    return (
        has_kernel("attention", query)
        and query.dtype in (jnp.float32, jnp.bfloat16, jnp.float16)
        and kept is None
        and query.shape[-2] >= _FEWEST_QUERIES
    )


def attend(
    plain: Plain, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: Any
) -> Any:
    """``softmax(query @ key.mT * scale + mask) @ value``.

    Args:
        plain: The same function by XLA's operators, for derivatives of the derivatives.
        query: ``(..., L, E)``; all three have one batch.
        key: ``(..., S, E)``.
        value: ``(..., S, Ev)``.
        mask: Broadcasts to ``(..., L, S)``: true where a query attends to a key, or numbers to add
            to the scores. A query without keys gives zeros.
        is_causal: A query attends to the keys up to its own position.
        scale: The factor of the scores.
    """
    if not isinstance(scale, float):
        # The kernels' scale is a constant of the program, but this one may change from call to
        # call.
        query, scale = (query * scale).astype(query.dtype), 1.0
    how = _How(plain, is_causal, scale)
    dtype = query.dtype
    query, key, value = (each.astype(jnp.float32) for each in (query, key, value))
    if mask is not None:
        mask = mask.reshape((1,) * (query.ndim - mask.ndim) + mask.shape)
        mask = mask if mask.dtype == jnp.bool_ else mask.astype(jnp.float32)
    return _attend(query, key, value, mask, how)[0].astype(dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(4,))
def _attend(query: Any, key: Any, value: Any, mask: Any, how: _How) -> Any:
    """The result, and for each query the greatest score and the sum of the scores' exponentials."""
    return _results(how, query, key, value, mask)


def _moved(how: _How, primals: Any, tangents: Any) -> Any:
    results = _attend(*primals, how)
    (moved,) = _derivative(how)((*primals, *results), moving(tangents))
    # The residuals' tangents are never used.
    return results, (moved, *map(jnp.zeros_like, results[1:]))


_attend.defjvp(_moved, symbolic_zeros=True)


@functools.cache
def _derivative(how: _How) -> LinearMap:
    """The tangent of the result, from those of query, key, value and mask."""

    def gradients(fixed: Any, cotangents: Any) -> Any:
        query, key, value, mask, *results = fixed
        found = _gradients(how, *cotangents, query, key, value, *results, mask)
        by_mask = None
        if mask is not None and mask.dtype != jnp.bool_:
            # It may be as large as the scores, and most masks need none.
            pull = jax.vjp(lambda mask: how.by_xla(query, key, value, mask), mask)[1]
            (by_mask,) = pull(*cotangents)
        return *found, by_mask

    return derivative(how.by_xla, gradients, batches=True)


def _folding(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` of ``(how, *arrays, mask)``, with batches folded into one call.

    The leading dimensions of its arrays are the problems; those of a mask may have size 1.
    """

    @functools.cache
    def batched(how: _How) -> Callable[..., Any]:
        once = custom_vmap(functools.partial(function, how))

        @once.def_vmap
        def more(size: int, are_batched: Any, *arrays: Any) -> Any:
            *others, mask = arrays
            *are_others, is_mask = are_batched
            others = [
                each if is_one else jnp.broadcast_to(each, (size, *each.shape))
                for each, is_one in zip(others, are_others, strict=True)
            ]
            if mask is not None and not is_mask:
                mask = mask[None]
            found = once(*others, mask)
            return found, tuple(True for _ in found)

        return once

    return lambda how, *arrays: batched(how)(*arrays)


@_folding
def _results(how: _How, query: Any, key: Any, value: Any, mask: Any) -> Any:
    of_query = query.shape[:-1]
    shapes = (*of_query, value.shape[-1]), of_query, of_query
    return how.call("attention", shapes, query, key, value, mask)


@_folding
def _gradients(how: _How, cotangent: Any, query: Any, key: Any, value: Any, *rest: Any) -> Any:
    """The cotangents of query, key and value."""
    shapes = query.shape, key.shape, value.shape
    return how.call("attention_gradients", shapes, cotangent, query, key, value, *rest)
