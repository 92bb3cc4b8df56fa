"""Finding the operator behind a gradient that fails or is not a number."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from flambeau.core.kernels.lazy_cotangent import value_of
from flambeau.core.support.tracebacks import OWN_FOLDERS

#: Nodes remember where they were recorded, and the engine checks their gradients.
enabled: bool = False
#: The engine fails at the first gradient that is not a number.
check_nan: bool = True

_WHERE = "traceback_"


def set_mode(mode: bool, check: bool = True) -> None:
    """Switch anomaly detection on or off, for all threads."""
    global enabled, check_nan
    enabled, check_nan = mode, check


def remember(node: Any) -> None:
    """Store in ``node`` the stack frames that led to it, without those inside this library."""
    frames = [
        frame for frame in traceback.extract_stack() if not frame.filename.startswith(OWN_FOLDERS)
    ]
    node.metadata[_WHERE] = traceback.format_list(frames)


def watched(node: Any, run: Callable[[], Any]) -> Any:
    """The result of ``run()``: the cotangents of the inputs of ``node``.

    An error gets a note that shows where the node was recorded.

    Raises:
        RuntimeError: One of them is not a number, and `check_nan` is set.
    """
    try:
        pulled = run()
        if check_nan:
            _check(node, pulled)
    except Exception as error:
        error.add_note(_where(node))
        raise
    return pulled


def _check(node: Any, pulled: Sequence[Any]) -> None:
    for number, cotangent in enumerate(pulled):
        array = cotangent._read() if hasattr(cotangent, "_read") else value_of(cotangent)
        if _has_nan(array):
            raise RuntimeError(f"{node.name()} gave nan as the gradient of its input {number}")


def _has_nan(array: Any) -> bool:
    is_known = isinstance(array, jax.Array) and not isinstance(array, Tracer)
    return is_known and bool(jnp.isnan(array).any())


def _where(node: Any) -> str:
    lines = node.metadata.get(_WHERE)
    if lines is None:
        return f"{node.name()} was recorded outside detect_anomaly(), so its line is not known"
    return f"{node.name()} was recorded here (most recent call last):\n{''.join(lines)}"
