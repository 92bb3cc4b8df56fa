"""Calls of native kernels, which programs over several devices divide by their samples.

XLA divides a call of a foreign function only along leading dimensions that all of its arrays have.
Where an array has no samples, such as filters, each part of the samples gets a copy of it, and
where a result has none, such as a gradient of filters, there is one for each part, and the sum is
the result. So a call becomes one of arrays ``(parts, ...)``, whatever the devices hold: XLA finds
out which of them has which parts.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import batching, mlir
from jax.sharding import AxisType

from flambeau.core.jax_core import jax_core
from flambeau.core.modes import modes
from flambeau.core.native import native_kernels

__all__: list[str] = []


class _Kernel(NamedTuple):
    """A kernel and its results.

    Attributes:
        name: The kernel's, without ``flambeau_``.
        shapes: Of the results.
        attributes: Names and values: numbers, or tuples of integers.
        batch: How many leading dimensions all arrays share.
        whole: The positions of the arrays without samples.
        summed: The positions of the results that are sums over samples.
        aliases: Which array gives its memory to which result, where nothing else reads it.
        integers: The positions of the results of 32-bit integers; others are in single precision.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    attributes: tuple[tuple[str, Any], ...]
    batch: int
    whole: tuple[int, ...]
    summed: tuple[int, ...]
    aliases: tuple[tuple[int, int], ...] = ()
    integers: tuple[int, ...] = ()

    def results(self) -> list[ShapedArray]:
        return [
            ShapedArray(each, np.int32 if place in self.integers else np.float32)
            for place, each in enumerate(self.shapes)
        ]

    def has_samples_throughout(self) -> bool:
        return not self.whole and not self.summed

    def in_parts(self, count: int, arrays: Any) -> list[Any]:
        """The results, of which ``count`` parts of the samples are computed one by one."""

        def divided(shape: Any) -> tuple[int, ...]:
            return (count, shape[0] // count, *shape[1:])

        given = [
            jnp.broadcast_to(each, (count, *each.shape))
            if place in self.whole
            else each.reshape(divided(each.shape))
            for place, each in enumerate(arrays)
        ]
        shapes = tuple(
            (count, *each) if place in self.summed else divided(each)
            for place, each in enumerate(self.shapes)
        )
        found = _bind(self._replace(shapes=shapes, batch=1, whole=(), summed=()), given)
        return [
            each.sum(0) if place in self.summed else each.reshape(shape)
            for place, (each, shape) in enumerate(zip(found, self.shapes, strict=True))
        ]


def has_kernel(name: str, array: Any) -> bool:
    """Whether programs may call a kernel with an array.

    None where sizes vary. How arrays are divided is a part of their types in meshes with explicit
    axes, and the kernels' types do not say it.

    Args:
        name: The kernel's, without ``flambeau_``.
        array: One of those that it is given.
    """
    if modes.sizes_vary or f"flambeau_{name}" not in native_kernels():
        return False
    return jax.device_count() == 1 or not any(
        each == AxisType.Explicit for each in jax.typeof(array).sharding.mesh.axis_types
    )


def call_kernel(
    name: str, shapes: Any, *arrays: Any, batch: int = 1, whole: Any = (), summed: Any = (),
    aliases: Any = (), integers: Any = (), **attributes: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """The results of a native kernel.

    Args:
        name: The kernel's, without ``flambeau_``.
        shapes: Of the results.
        *arrays: What it is given.
        batch: How many leading dimensions all arrays and results share; where some have none of
            them, 1, and the first dimension of all others counts samples.
        whole: The positions of the arrays without samples.
        summed: The positions of the results that are sums over samples.
        aliases: Pairs of an array's and a result's position: the result takes the array's memory,
            of which XLA makes a copy before, if something else reads it.
        integers: The positions of the results of 32-bit integers; others are in single precision.
        **attributes: What else the kernel takes.
    """
    kernel = _Kernel(name, tuple(map(tuple, shapes)), tuple(attributes.items()), batch,
                     tuple(whole), tuple(summed), tuple(aliases), tuple(integers))  # fmt: skip
    return tuple(_bind(kernel, arrays))


def _bind(kernel: _Kernel, arrays: Any) -> Any:
    return _primitive().bind(*arrays, kernel=kernel)


@functools.cache
def _primitive() -> Any:
    primitive = jax_core().Primitive("native_kernel")
    primitive.multiple_results = True

    def run(*arrays: Any, kernel: _Kernel) -> Any:
        return primitive.bind(*arrays, kernel=kernel)

    primitive.def_impl(functools.partial(jax.jit, static_argnames="kernel")(run))
    primitive.def_abstract_eval(lambda *arrays, kernel: kernel.results())
    mlir.register_lowering(primitive, _lower)
    batching.primitive_batchers[primitive] = _batched
    return primitive


def _batched(arrays: Any, axes: Any, *, kernel: _Kernel) -> Any:
    """One more leading dimension of all arrays, where each of them has samples."""
    if not kernel.has_samples_throughout():
        raise NotImplementedError(f"the kernel {kernel.name} has no batches of its own")
    (size,) = {each.shape[at] for each, at in zip(arrays, axes, strict=True) if at is not None}
    arrays = [
        jnp.broadcast_to(each, (size, *each.shape)) if at is None else jnp.moveaxis(each, at, 0)
        for each, at in zip(arrays, axes, strict=True)
    ]
    shapes = tuple((size, *each) for each in kernel.shapes)
    found = _bind(kernel._replace(shapes=shapes, batch=kernel.batch + 1), arrays)
    return found, [0] * len(found)


def _lower(context: Any, *operands: Any, kernel: _Kernel) -> Any:
    devices = _devices(context.module_context.axis_context)
    if devices > 1 and not kernel.has_samples_throughout():
        samples = [
            each.shape[0]
            for place, each in enumerate(context.avals_in)
            if place not in kernel.whole
        ]
        # However the samples are divided among the devices, it is by a divisor of this.
        count = math.gcd(devices, *samples)
        divided = mlir.lower_fun(lambda *arrays: kernel.in_parts(count, arrays))
        return divided(context, *operands)
    attributes = {
        name: np.array(each, np.int64) if isinstance(each, tuple) else each
        for name, each in kernel.attributes
    }
    extra = _how_to_divide(context, kernel) if devices > 1 else None
    rule = jax.ffi.ffi_lowering(
        f"flambeau_{kernel.name}",
        extra_attributes=extra,
        operand_output_aliases=dict(kernel.aliases),
    )
    return rule(context, *operands, **attributes)


def _devices(context: Any) -> int:
    """Among how many devices XLA divides the arrays of a program here."""
    if isinstance(context, mlir.SPMDAxisContext):
        # Inside of `jax.shard_map`, what a device has by some axes is still divided by the others.
        axes = set(context.mesh.axis_names) - set(context.manual_axes)
        return math.prod(context.mesh.shape[each] for each in axes)
    return getattr(context, "num_devices", 1)


def _how_to_divide(context: Any, kernel: _Kernel) -> dict[str, Any]:
    """A rule for XLA that divides a call along its first dimensions, and no others."""
    batch = kernel.batch
    sizes: list[int] = list(context.avals_in[0].shape[:batch])

    def named(avals: Any) -> str:
        texts = []
        for aval in avals:
            own = range(len(sizes), len(sizes) + aval.ndim - batch)
            sizes.extend(aval.shape[batch:])
            texts.append(f"[{', '.join(map(_factor, (*range(batch), *own)))}]")
        return f"({', '.join(texts)})"

    mapping = f"{named(context.avals_in)}->{named(context.avals_out)}"
    listed = ", ".join(f"{_factor(place)}={size}" for place, size in enumerate(sizes))
    whole = ", ".join(map(_factor, range(batch, len(sizes))))
    rule = f"{mapping} {{{listed}}} need_replication={{{whole}}}, custom"
    return {
        "mhlo.frontend_attributes": mlir.ir_attribute({"num_batch_dims": str(batch)}),
        "sdy.sharding_rule": mlir.ir.Attribute.parse(f"#sdy.op_sharding_rule<{rule}>"),
    }


def _factor(place: int) -> str:
    """The name of a dimension for Shardy, which divides programs."""
    letter = chr(min(ord("i") + place, ord("z")))
    return letter if place < 18 else f"{letter}_{place - 17}"
