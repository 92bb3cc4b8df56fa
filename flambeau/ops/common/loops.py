"""Loops for kernels, whose bodies are traced only once, even under `jax.disable_jit`.

`core.programs.compiled` traces functions under `jax.disable_jit`, where JAX unrolls its loops.
"""

from __future__ import annotations

from typing import Any

import jax

__all__ = ["fori_loop", "map", "scan"]


def scan(*arguments: Any, **options: Any) -> Any:
    """`jax.lax.scan`."""
    with jax.disable_jit(False):
        return jax.lax.scan(*arguments, **options)


def map(*arguments: Any, **options: Any) -> Any:
    """`jax.lax.map`."""
    with jax.disable_jit(False):
        return jax.lax.map(*arguments, **options)


def fori_loop(*arguments: Any, **options: Any) -> Any:
    """`jax.lax.fori_loop`."""
    with jax.disable_jit(False):
        return jax.lax.fori_loop(*arguments, **options)
