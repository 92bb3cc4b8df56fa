"""Max pooling by a native kernel."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp

from flambeau.ops.cpu_forms.linear_maps import LinearMap
from flambeau.ops.native.call import call_kernel, has_kernel
from flambeau.ops.neural.spatial.windows import Windows

__all__: list[str] = []

# XLA fuses its loops with neighbouring operations, which saves more for few elements.
_FEWEST_ELEMENTS = 1 << 10


def takes(windows: Windows, input: Any) -> bool:
    """Whether the kernel supports these windows: each must have an element."""
    return (
        has_kernel("max_pool", input)
        and input.dtype == jnp.float32
        and input.size >= _FEWEST_ELEMENTS
        and all(windows.inside(i).any(1).all() for i in range(windows.spatial))
    )


def max_pool(windows: Windows, input: Any) -> tuple[Any, Any]:
    """The maximum of each window and the tap index of its first occurrence."""
    shape = (*input.shape[: -windows.spatial], *windows.outputs)
    settings = _settings(windows, input)
    return call_kernel("max_pool", [shape, shape], input, integers=(1,), **settings)


@functools.cache
def picks(windows: Windows) -> LinearMap:
    """`Windows.pick` of ``((place,), (input,))``, whose transpose is a kernel."""

    def transpose(fixed: Any, cotangents: Any) -> Any:
        (place,), (cotangent,) = fixed, cotangents
        shape = (*cotangent.shape[: -windows.spatial], *windows.sizes)
        settings = _settings(windows, cotangent)
        return call_kernel("max_pool_gradient", [shape], cotangent, place, **settings)

    return LinearMap(
        lambda fixed, linear: (windows.pick(*linear, *fixed),), transpose, batches=True, native=True
    )


def _settings(windows: Windows, array: Any) -> dict[str, Any]:
    return {
        "batch": array.ndim - windows.spatial,
        "kernel": windows.kernel,
        "stride": windows.stride,
        "before": windows.padding,
        "dilation": windows.dilation,
    }
