"""Compiled programs are kept on disk, so that the next run of a script starts warm."""

from __future__ import annotations

import os
from pathlib import Path

import jax


def enable() -> None:
    """Keep XLA's compilations between runs.

    In ``JAX_COMPILATION_CACHE_DIR`` where that is set, in the user's cache folder otherwise;
    ``FLAMBEAU_CACHE=0`` keeps nothing. Settings that the user has made through JAX stand.
    """
    if os.environ.get("FLAMBEAU_CACHE") == "0":
        return
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        jax.config.update("jax_compilation_cache_dir", str(Path(root) / "flambeau" / "xla"))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        # An eager operator compiles in 30 ms and loads in 5: all of them are worth keeping.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
