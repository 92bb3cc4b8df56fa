"""XLA's thread pool on the CPU.

Its size is fixed when JAX starts: the number of CPUs that the process may use.
"""

from __future__ import annotations

import os

from flambeau.core.support.warning import warn

__all__ = ["get_num_interop_threads", "get_num_threads", "set_num_interop_threads",
           "set_num_threads"]  # fmt: skip


def get_num_threads() -> int:
    """The number of CPUs this process may use, and thus of the threads of an operator."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def get_num_interop_threads() -> int:
    """1: operators run in order."""
    return 1


def set_num_threads(num: int, /) -> None:
    """Request a number of threads; warns if it differs from the actual one.

    To use fewer, restrict the process to fewer CPUs (``taskset`` on Linux).

    Raises:
        RuntimeError: The number is not positive.
    """
    _ask("set_num_threads", num, get_num_threads())


def set_num_interop_threads(num: int, /) -> None:
    """Request a number of concurrent operators; warns if it is not 1.

    Raises:
        RuntimeError: The number is not positive.
    """
    _ask("set_num_interop_threads", num, get_num_interop_threads())


def _ask(name: str, wanted: int, now: int) -> None:
    if wanted < 1:
        raise RuntimeError(f"{name}(): the number of threads must be positive, got {wanted}")
    if wanted != now:
        warn(
            f"{name}({wanted}) changes nothing: XLA keeps the {now} that it started with; start "
            "the process on fewer CPUs, with taskset for example",
        )
