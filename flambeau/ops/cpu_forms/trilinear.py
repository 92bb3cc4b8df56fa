"""Bilinear maps with custom gradients.

A bilinear map ``c = product(a, b)`` has two companions: the gradients of ``sum(c * product(a, b))``
by ``a`` and by ``b``. Each of the three maps is a gradient of the others, so derivatives of any
order, forward and reverse, are among them, and each map can use its fastest form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.interpreters import ad, batching, mlir

from flambeau.core.interpreter import FORMULAS
from flambeau.core.support.jax_core import jax_core

# Takes two arrays and static arguments.
Map = Callable[[Any, Any, Any], Any]


def trilinear(
    name: str, plain: Map, product: Map, by_left: Map, by_right: Map, *, samples: bool = False
) -> Map:
    """``product`` as a function whose gradients are ``by_left`` and ``by_right``.

    Args:
        name: The name of JAX's primitives.
        plain: The same as ``product``, which JAX can differentiate; for ``jax.vmap``.
        product: From ``(a, b, static)`` to ``c``, linear in ``a`` and in ``b``.
        by_left: From ``(c, b, static)`` to the cotangent of ``a``.
        by_right: From ``(c, a, static)`` to the cotangent of ``b``.
        samples: The first dimensions of ``a`` and ``c`` are samples, which ``b`` does not have.

    Returns:
        A function of two arrays and a hashable third argument, whose attributes ``left`` and
        ``right`` are the shapes of ``a`` and ``b``.
    """
    names = name, f"{name}_left", f"{name}_right"
    primitive = functools.cache(lambda: _defined(names, plain, product, by_left, by_right, samples))

    def call(left: Any, right: Any, static: Hashable) -> Any:
        return primitive().bind(left, right, static=static)

    return call


def _defined(
    names: tuple[str, ...], plain: Map, product: Map, by_left: Map, by_right: Map, samples: bool
) -> Any:
    """The primitive of the product, with rules that use the primitives of its gradients."""
    whole, of_left, of_right = map(jax_core().Primitive, names)

    def plain_left(c: Any, b: Any, static: Any) -> Any:
        return jax.linear_transpose(lambda a: plain(a, b, static), _like(static.left, c))(c)[0]

    def plain_right(c: Any, a: Any, static: Any) -> Any:
        return jax.linear_transpose(lambda b: plain(a, b, static), _like(static.right, c))(c)[0]

    @functools.partial(jax.jit, static_argnames="static")
    def shaped(left: Any, right: Any, static: Any) -> Any:
        return plain(left, right, static)

    def shape(left: Any, right: Any, *, static: Any) -> Any:
        found = shaped.eval_shape(left, right, static=static)
        return ShapedArray(found.shape, found.dtype)

    def shape_left(c: Any, b: Any, *, static: Any) -> Any:
        return ShapedArray(static.left, c.dtype)

    def shape_right(c: Any, a: Any, *, static: Any) -> Any:
        return ShapedArray(static.right, c.dtype)

    _define(whole, product, plain, shape, samples)
    _define(of_left, by_left, plain_left, shape_left, samples)
    _define(of_right, by_right, plain_right, shape_right, samples=False)
    ad.defbilinear(
        whole,
        lambda c, a, b, static: of_left.bind(c, b, static=static),
        lambda c, a, b, static: of_right.bind(c, a, static=static),
    )
    ad.defbilinear(
        of_left,
        lambda a, c, b, static: whole.bind(a, b, static=static),
        lambda a, c, b, static: of_right.bind(c, a, static=static),
    )
    ad.defbilinear(
        of_right,
        lambda b, c, a, static: whole.bind(a, b, static=static),
        lambda b, c, a, static: of_left.bind(c, b, static=static),
    )

    return whole


def _like(shape: tuple[int, ...], array: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, array.dtype)


def _define(
    primitive: Any, compute: Map, plain: Map, shape: Callable[..., Any], samples: bool
) -> None:
    def run(left: Any, right: Any, *, static: Any) -> Any:
        return compute(left, right, static)

    def batched(arrays: Any, axes: Any, *, static: Any) -> Any:
        if samples and axes[1] is None:
            left, right = arrays
            return more_samples(left, right, axes[0], static), 0
        return jax.vmap(lambda a, b: plain(a, b, static), axes)(*arrays), 0

    def more_samples(left: Any, right: Any, axis: int, static: Any) -> Any:
        left = jnp.moveaxis(left, axis, 0)
        count, first = left.shape[:2]
        all_of_them = static._replace(left=(count * static.left[0], *static.left[1:]))
        left = left.reshape(count * first, *left.shape[2:])
        found = primitive.bind(left, right, static=all_of_them)
        return found.reshape(count, first, *found.shape[1:])

    FORMULAS[primitive.name] = lambda left, right, static: plain(left, right, static)
    primitive.def_impl(functools.partial(jax.jit, static_argnames="static")(run))
    primitive.def_abstract_eval(shape)
    mlir.register_lowering(primitive, mlir.lower_fun(run, multiple_results=False))
    batching.primitive_batchers[primitive] = batched
