"""Compiled programs are kept on disk, so that the next run of a script starts warm."""

from __future__ import annotations

import hashlib
import os
import platform
import warnings
from pathlib import Path

import jax

from flambeau.core.compiler import cores


def enable() -> None:
    """Keep XLA's compilations between runs.

    In ``JAX_COMPILATION_CACHE_DIR`` where that is set, in `folder` otherwise;
    ``FLAMBEAU_CACHE=0`` keeps nothing. Settings that the user has made through JAX stand. Where
    there is no folder to write to, nothing is kept, and a warning says so.
    """
    if os.environ.get("FLAMBEAU_CACHE") == "0":
        return
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        try:
            chosen = folder()
            chosen.mkdir(parents=True, exist_ok=True)
            if not os.access(chosen, os.W_OK):
                raise PermissionError(f"{chosen} is read-only")
        except (OSError, RuntimeError) as error:
            reason = str(error).rstrip(".")
            warnings.warn(
                f"compiled programs are not kept for the next run: {reason}. Set XDG_CACHE_HOME to "
                "a folder that can be written to, or FLAMBEAU_CACHE=0 for no cache",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        jax.config.update("jax_compilation_cache_dir", str(chosen))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        # An eager operator compiles in 30 ms and loads in 5: all of them are worth keeping.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def folder() -> Path:
    """Where the compilations of this kind of machine are: one folder of the user's cache.

    XLA divides the work among the cores that it sees while it compiles and uses the instructions
    that they have, and JAX knows a kept program by neither: one that was compiled on one core would
    run on one core for ever, and one from a newer machine with the same home would not run at all.
    """
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    machine = hashlib.sha256(_instructions().encode()).hexdigest()[:8]
    return Path(root) / "flambeau" / f"xla-{machine}-{cores()}"


def _instructions() -> str:
    """What tells the processors' sets of instructions apart."""
    try:
        with open("/proc/cpuinfo") as file:
            # The first processor's features; the others' follow, and would take long on many cores.
            for line in file:
                if line.startswith(("flags", "Features")):
                    return line
    except OSError:
        pass  # Not Linux.
    return platform.machine()
