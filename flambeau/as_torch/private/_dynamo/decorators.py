"""Hints about functions and tensors."""

from __future__ import annotations

from typing import Any

from flambeau.compiler import allow_in_graph, assume_constant_result

__all__ = [
    "allow_in_graph", "assume_constant_result", "disallow_in_graph", "forbid_in_graph",
    "graph_break", "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic",
    "nonstrict_trace",
]  # fmt: skip


def disallow_in_graph(fn: Any) -> Any:
    """The function as it is; see `flambeau.compiler.disable`."""
    return fn


def forbid_in_graph(fn: Any) -> Any:
    """The function as it is; see `flambeau.compiler.disable`."""
    return fn


def nonstrict_trace(traceable_fn: Any) -> Any:
    """The function as it is: all are traced like this."""
    return traceable_fn


def graph_break(msg: str = "") -> None:
    """Nothing: a compiled function is one program."""


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Nothing: each shape has a program of its own."""


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Nothing: each shape has a program of its own."""


def mark_static(t: Any, index: Any = None) -> None:
    """Nothing: each shape has a program of its own."""


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Nothing: a program finds its tensors, wherever their elements are."""
