"""JAX's own core, imported when it is first needed, and what it says of where a thread stands.

Importing `jax.extend` takes longer than most of flambeau: it brings kernel languages along.
"""

from __future__ import annotations

import functools
import threading
from typing import Any


@functools.cache
def jax_core() -> Any:
    """The module `jax.extend.core`."""
    from jax.extend import core

    return core


def transformations() -> Any:
    """The transformations of JAX that this thread is inside of, in a form that compares."""
    return jax_core().get_opaque_trace_state()


@functools.cache
def no_transformations() -> Any:
    """What `transformations` gives outside of all, where a new thread always begins."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(transformations()))
    thread.start()
    thread.join()
    return found[0]
