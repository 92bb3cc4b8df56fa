"""Calls of native kernels, which are partitioned over devices by samples.

XLA partitions a foreign call only along leading dimensions that all of its arrays have. An array
without samples, such as filters, is repeated for each part of the samples. A result without
samples, such as a gradient of filters, is computed for each part and summed. So all arrays of a
call have the shape ``(parts, ...)`` for every sharding, and XLA assigns the parts to devices.
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

from flambeau.core.devices.compiler import is_portable
from flambeau.core.devices.native import native_kernels
from flambeau.core.support.jax_core import jax_core

__all__: list[str] = []


class _Kernel(NamedTuple):
    """A kernel and its results.

    Attributes:
        name: The kernel's name, without ``flambeau_``.
        shapes: The shapes of the results.
        attributes: Names and values: numbers, or tuples of integers.
        batch: The number of leading dimensions that all arrays share.
        whole: The positions of the arrays without samples.
        summed: The positions of the results that are sums over samples.
        aliases: Pairs of an array and the result that reuses its memory, if nothing else reads it.
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
        """The results, with ``count`` parts of the samples computed separately."""

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

    Not in portable forms, nor on meshes with explicit axes: there the sharding is part of an
    array's type, which the kernels' types lack.

    Args:
        name: The kernel's name, without ``flambeau_``.
        array: One of the kernel's arrays.
    """
    if is_portable() or f"flambeau_{name}" not in native_kernels():
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
        name: The kernel's name, without ``flambeau_``.
        shapes: The shapes of the results.
        *arrays: The kernel's arrays.
        batch: The number of leading dimensions that all arrays and results share; 1 if some have
            none, and the first dimension of all others is the samples.
        whole: The positions of the arrays without samples.
        summed: The positions of the results that are sums over samples.
        aliases: Pairs of an array's and a result's position: the result reuses the array's memory,
            which XLA copies first if something else reads it.
        integers: The positions of the results of 32-bit integers; others are in single precision.
        **attributes: The kernel's other attributes.
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
    """One more leading dimension for all arrays, if each of them has samples."""
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
        # However the samples are sharded, the number of shards divides this.
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
    """The number of devices over which XLA partitions the arrays of a program here."""
    if isinstance(context, mlir.SPMDAxisContext):
        # Inside `jax.shard_map`, a device's part along manual axes is still sharded along the
        # others.
        axes = set(context.mesh.axis_names) - set(context.manual_axes)
        return math.prod(context.mesh.shape[each] for each in axes)
    return getattr(context, "num_devices", 1)


def _how_to_divide(context: Any, kernel: _Kernel) -> dict[str, Any]:
    """A sharding rule for XLA that partitions a call along its first dimensions only."""
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
    """The name of a dimension for Shardy, XLA's partitioner."""
    letter = chr(min(ord("i") + place, ord("z")))
    return letter if place < 18 else f"{letter}_{place - 17}"
