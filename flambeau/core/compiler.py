"""Compiling convolutions with the options under which XLA is fast on a CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from flambeau.core.device import available_devices
from flambeau.core.jax_core import jax_core, no_transformations, transformations

# XLA gives dot products, reductions and convolutions to YNNPACK, where a convolution's gradients
# take two to three times as long as in XLA's own code. This names all but convolutions.
_ON_CPU = {
    "xla_cpu_experimental_ynn_fusion_type": (
        "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"
    )
}

#: The names of the primitives that are, or become, convolutions.
CONVOLVING = {"conv_general_dilated"}


@functools.cache
def only_cpu() -> bool:
    """Whether the machine has no accelerator."""
    return all(each.startswith("cpu") for each in available_devices())


@functools.cache
def convolution_options() -> dict[str, str] | None:
    """XLA's options for a program with convolutions; ``None`` where there are none to give.

    That is on machines with an accelerator, and with a JAX whose XLA does not know the options.
    """
    if not only_cpu():
        return None
    try:
        jax.jit(lambda: np.float32(0), compiler_options=_ON_CPU).lower().compile()
    except jax.errors.JaxRuntimeError:
        return None
    return _ON_CPU


def compiled_convolution(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """``jax.jit`` of a function with convolutions.

    Args:
        function: As for ``jax.jit``.
        options: Of ``jax.jit``.
    """
    plain = jax.jit(function, **options)
    tuned: Callable[..., Any] | None = None

    @functools.wraps(function)
    def call(*arrays: Any) -> Any:
        nonlocal tuned
        # JAX takes compiler options only where no function is being traced.
        if transformations() != no_transformations():
            return plain(*arrays)
        if tuned is None:
            tuned = jax.jit(function, compiler_options=convolution_options(), **options)
        return tuned(*arrays)

    return call


def has_convolution(jaxpr: Any) -> bool:
    """Whether a program, or a part that it calls, convolves."""
    return any(
        equation.primitive.name in CONVOLVING
        or any(map(has_convolution, jax_core().jaxprs_in_params(equation.params)))
        for equation in jaxpr.eqns
    )
