"""XLA with less optimization, for tests and searches that run each program only a few times.

python -m tests.fuzz.quick_xla      print ``XLA_FLAGS`` with these flags added
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys

# Compiling takes a third of the time; what is computed is the same to rounding.
FLAGS = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)

# The default values of the options that change rounding.
_USUAL = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_use_fusion_emitters": True,
}


def usual_options() -> dict[str, int | bool]:
    """Options for one program that is compiled as users' are, whatever ``XLA_FLAGS`` says."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in _USUAL.items() if f"--{name}=" in flags}


def environment() -> dict[str, str]:
    """Variables for a process that compiles quickly and keeps nothing on disk.

    XLA ends a process that is started with a flag it does not know, so each is tried first.
    """
    return {"XLA_FLAGS": known_flags(), "FLAMBEAU_CACHE": "0"}


def known_flags() -> str:
    """The flags that this XLA knows, after those that are set."""
    command = [sys.executable, "-c", "import jax; jax.devices()"]

    def knows(flag: str) -> bool:
        surroundings = {**os.environ, "XLA_FLAGS": flag}
        return not subprocess.run(command, env=surroundings, capture_output=True).returncode

    return " ".join([os.environ.get("XLA_FLAGS", ""), *filter(knows, FLAGS)]).strip()


def share_context() -> None:
    """Let all programs of this process be lowered in one MLIR context.

    JAX makes a context for each, which takes longer than lowering an operator does. Without the
    function that makes them, nothing changes.
    """
    from jax._src.interpreters import mlir

    if hasattr(mlir, "make_ir_context"):
        mlir.make_ir_context = functools.cache(mlir.make_ir_context)


if __name__ == "__main__":
    sys.stdout.write(known_flags())
