"""Linear maps with custom transposes.

A tangent is a linear map, and the gradient is its transpose. JAX derives the transpose from the
map, operation by operation, while another order of the same sums may be several times faster.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import tree_util
from jax.interpreters import ad, batching, mlir

from flambeau.core.devices.compiler import cpu_forms
from flambeau.core.interpreter import FORMULAS
from flambeau.core.support.jax_core import jax_core

Arrays = tuple[Any, ...]


class LinearMap(NamedTuple):
    """A map that is linear in some of its arguments, and its transpose.

    Both are functions of two tuples, whose members may be ``None``. JAX must be able to
    differentiate the map, which higher derivatives and accelerators use; the transpose is for a
    CPU.

    Attributes:
        apply: From ``(fixed, linear)`` to a tuple of arrays, linear in ``linear``.
        transpose: From ``(fixed, cotangents)`` to the cotangents of ``linear``, a tuple. Its result
            for a ``None`` is ignored.
        batches: Whether the transpose has a custom batching rule.
        native: Whether the transpose is a native kernel, for programs over several devices too.
    """

    apply: Callable[[Arrays, Arrays], Arrays]
    transpose: Callable[[Arrays, Arrays], Arrays]
    batches: bool = False
    native: bool = False

    def __call__(self, fixed: Arrays, linear: Arrays) -> Arrays:
        """The results of the map."""
        arrays, fixed_tree = tree_util.tree_flatten(fixed)
        moving, linear_tree = tree_util.tree_flatten(linear)
        avals = tuple(map(jax.typeof, moving))
        call = _Call(self, fixed_tree, linear_tree, avals)
        return tuple(_primitives().apply.bind(*arrays, *moving, call=call))


class _Call(NamedTuple):
    """A map and the structure of its arguments, which the primitives take flat."""

    map: LinearMap
    fixed_tree: Any
    linear_tree: Any
    linear: Arrays

    def split(self, arrays: Any) -> tuple[Arrays, Arrays]:
        """The fixed arrays, and the others."""
        count = self.fixed_tree.num_leaves
        return tuple(arrays[:count]), tuple(arrays[count:])

    def apply(self, *arrays: Any) -> Arrays:
        fixed, linear = self.split(arrays)
        return self.map.apply(
            tree_util.tree_unflatten(self.fixed_tree, fixed),
            tree_util.tree_unflatten(self.linear_tree, linear),
        )

    def transpose(self, *arrays: Any) -> list[Any]:
        if not (cpu_forms() or self.map.native):
            return self.plain_transpose(*arrays)
        fixed, cotangents = self.split(arrays)
        found = self.map.transpose(tree_util.tree_unflatten(self.fixed_tree, fixed), cotangents)
        wanted = tree_util.tree_unflatten(self.linear_tree, self.linear)
        return [each for each, aval in zip(found, wanted, strict=True) if aval is not None]

    def plain_transpose(self, *arrays: Any) -> list[Any]:
        """`transpose` as derived by JAX, which JAX can differentiate."""
        fixed, cotangents = self.split(arrays)
        transposed = jax.linear_transpose(functools.partial(self.apply, *fixed), *self.linear)
        return list(transposed(cotangents))


class _Primitives(NamedTuple):
    apply: Any
    transpose: Any


@functools.cache
def _primitives() -> _Primitives:
    """A map and its transpose as two JAX primitives, each the other's transpose."""
    apply, transpose = map(jax_core().Primitive, ("linear_map", "linear_map_transpose"))
    FORMULAS[apply.name] = lambda *arrays, call: call.apply(*arrays)
    FORMULAS[transpose.name] = _formula_of_transpose
    _define(apply, _Call.apply, _Call.apply)
    _define(transpose, _Call.transpose, _Call.plain_transpose)

    def transpose_apply(cotangents: Any, *arrays: Any, call: _Call) -> list[Any]:
        fixed, linear = call.split(arrays)
        found = transpose.bind(*fixed, *map(ad.instantiate_zeros, cotangents), call=call)
        return [None] * len(fixed) + [
            each if ad.is_undefined_primal(variable) else None
            for each, variable in zip(found, linear, strict=True)
        ]

    def transpose_transpose(cotangents: Any, *arrays: Any, call: _Call) -> list[Any]:
        fixed, _ = call.split(arrays)
        found = apply.bind(*fixed, *map(ad.instantiate_zeros, cotangents), call=call)
        return [None] * len(fixed) + found

    ad.primitive_transposes[apply] = transpose_apply
    ad.primitive_transposes[transpose] = transpose_transpose
    return _Primitives(apply, transpose)


def _formula_of_transpose(*arrays: Any, call: _Call) -> Any:
    """The transpose for NumPy, which has no native kernels."""
    return (call.plain_transpose if call.map.native else call.transpose)(*arrays)


def _define(primitive: Any, compute: Callable[..., Any], plain: Callable[..., Any]) -> None:
    """Define the implementation of a primitive, and its rules for JAX's transformations."""
    primitive.multiple_results = True

    def run(*arrays: Any, call: _Call) -> Any:
        return compute(call, *arrays)

    def shapes(*arrays: Any, call: _Call) -> Any:
        return jax.make_jaxpr(functools.partial(plain, call))(*arrays).out_avals

    def batched(arrays: Any, axes: Any, *, call: _Call) -> Any:
        function = compute if call.map.batches else plain
        found = jax.vmap(functools.partial(function, call), axes)(*arrays)
        return found, [0] * len(found)

    def pushed(primals: Any, tangents: Any, *, call: _Call) -> Any:
        fixed, linear = call.split(primals)
        d_fixed, d_linear = call.split(tangents)
        parts = []
        if _any_moves(d_linear):
            parts.append(primitive.bind(*fixed, *map(ad.instantiate_zeros, d_linear), call=call))
        if _any_moves(d_fixed):
            d_fixed = tuple(map(ad.instantiate_zeros, d_fixed))
            parts.append(jax.jvp(lambda *x: plain(call, *x, *linear), fixed, d_fixed)[1])
        moved = [functools.reduce(jnp.add, each) for each in zip(*parts, strict=True)]
        return primitive.bind(*primals, call=call), moved

    primitive.def_impl(functools.partial(jax.jit, static_argnames="call")(run))
    primitive.def_abstract_eval(shapes)
    mlir.register_lowering(primitive, mlir.lower_fun(run, multiple_results=True))
    batching.primitive_batchers[primitive] = batched
    ad.primitive_jvps[primitive] = pushed


def _any_moves(tangents: Arrays) -> bool:
    return any(type(each) is not ad.Zero for each in tangents)
