"""Finding the operator behind a gradient that fails or is not a number."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

#: Nodes remember where they were recorded, and the engine watches what they give.
enabled = False
#: The engine fails at the first gradient that is not a number.
check_nan = True

_WHERE = "traceback_"


def set_mode(mode: bool, check: bool = True) -> None:
    """Switch the watch on or off, for all threads."""
    global enabled, check_nan
    enabled, check_nan = mode, check


def remember(node: Any) -> None:
    """Let ``node`` keep the lines that led to it, without those inside this library."""
    frames = [
        frame
        for frame in traceback.extract_stack()
        if not frame.filename.startswith(_HERE) and "/jax/" not in frame.filename
    ]
    node.metadata[_WHERE] = traceback.format_list(frames)


_HERE = __file__.rpartition("core")[0]


def watched(node: Any, run: Callable[[], Any]) -> Any:
    """What ``run()`` gives, the cotangents of the inputs of ``node``.

    Raises:
        RuntimeError: One of them is not a number, and `check_nan` is set.
    """
    try:
        pulled = run()
    except Exception:
        _tell_where(node, "raised an error")
        raise
    if check_nan:
        _check(node, pulled)
    return pulled


def _check(node: Any, pulled: Sequence[Any]) -> None:
    for number, cotangent in enumerate(pulled):
        array = cotangent._read() if hasattr(cotangent, "_read") else cotangent
        if _has_nan(array):
            _tell_where(node, f"gave nan for input {number}")
            raise RuntimeError(f"{node.name()} gave nan as the gradient of its input {number}")


def _has_nan(array: Any) -> bool:
    is_known = isinstance(array, jax.Array) and not isinstance(array, Tracer)
    return is_known and bool(jnp.isnan(array).any())


def _tell_where(node: Any, what: str) -> None:
    lines = node.metadata.get(_WHERE)
    if lines is None:
        told = "it was recorded outside detect_anomaly(), so the line is not known"
    else:
        told = "it was recorded here (most recent call last):\n" + "".join(lines)
    warnings.warn(f"{node.name()} {what} in backward; {told}", stacklevel=2)
