"""A forked process has none of JAX's threads: it can read values, but compute nothing."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable

import jax

from flambeau.core.programs import gears
from flambeau.core.support.jax_private import is_started, mlir_threads

#: Drops the programs that are called without Python; set by `programs`.
forget: Callable[[], None] = lambda: None  # noqa: E731

_is_forked = False


def check() -> None:
    """Fail if a computation would wait for threads that do not exist.

    Raises:
        RuntimeError: This process was forked after JAX had started.
    """
    if _is_forked:
        raise RuntimeError(
            "Cannot compute in a forked process: JAX had started its threads before os.fork(), "
            "which does not copy them. To use flambeau with multiprocessing, you must use the "
            "'spawn' start method, or 'forkserver'; or fork before the first tensor is made. "
            "Values that the parent had can be read here"
        )


def _before() -> None:
    """Wait for all values: the threads that compute them do not exist in the child."""
    if _is_forked or not is_started():
        return
    gears.finish()
    for each in jax.live_arrays():
        with contextlib.suppress(Exception):  # A failed computation, or a deleted array.
            each.block_until_ready()


def _in_child() -> None:
    global _is_forked
    if _is_forked or not is_started():
        return
    _is_forked = True
    # Never destroyed: at exit Python would wait for the threads of these objects.
    devices = (*jax.local_devices(), *jax.local_devices(backend="cpu"))
    for each in (*{each.client for each in devices}, mlir_threads):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
    forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
