"""JAX's C++ path to call a compiled program, and the state that a program depends on.

JAX has no public names for it; `core/support/jax_private.py` lists the private ones. If a version
of JAX lacks one of them, `pjit` is plain `jax.jit`: correct, but the cache is unbounded and not
persistent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import jaxlib.version

from flambeau.core.programs import finishing
from flambeau.core.support import jax_private
from flambeau.core.types import Function, Key

# With another JAX, `pjit` below is `jax.jit`.
IS_KNOWN = jax_private.CALLS_FROM_CPP

# JAX's settings that it passes to the compiler, and that `trace_context` leaves out.
_OF_THE_COMPILER = (
    "jax_compiler_enable_remat_pass", "jax_disable_most_optimizations",
    "jax_exec_time_optimization_effort", "jax_memory_fitting_effort", "jax_memory_fitting_level",
    "jax_optimization_level", "jax_use_shardy_partitioner", "jax_xla_profile_version",
)  # fmt: skip


def cache(capacity: int) -> Any:
    """A cache of at most ``capacity`` programs that evicts the least recently used."""
    return jax_private.PjitFunctionCache(capacity=capacity) if IS_KNOWN else None


def pjit(name: str, function: Function, on_miss: Any, programs: object) -> Function:
    """A function whose programs are called from C++.

    Args:
        name: The function's name, for profiles.
        function: The function that is called under `jax.disable_jit`.
        on_miss: Called for arguments without a program in the cache; gives the results, the entry
            to cache (``None`` to be called each time), and ``False``.
        programs: A `cache`.
    """
    if not IS_KNOWN:
        return on_miss.traced()
    keys = jax_private.JitGlobalCppCacheKeys()
    flattening, moving = jax_private.dispatch_registry, jax_private.cc_shard_arg
    return jax_private.pjit(name, function, on_miss, [], [], keys, flattening, moving, programs)


def is_outside() -> bool:
    """Whether no JAX transformation is running."""
    return jax_private.trace_state_clean()


def call_of(program: jax.stages.Compiled) -> Function | None:
    """The call of a compiled program, with a ``_cache_miss`` that fills a cache.

    ``None`` for programs that JAX calls from Python, such as those with callbacks.
    """
    return jax_private.cpp_call(program)


def forget_traces() -> None:
    """Drop JAX's caches of traced and lowered functions; programs stay.

    Each of JAX's many caches would keep thousands.
    """
    if jax_private.clear_all_caches is not None:
        jax_private.clear_all_caches()
    jax_private.clear_seen_types()


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """A block that traces; an interrupt in it leaves JAX's state consistent.

    A cache entry that was begun and never finished would be refused as a recursive function at
    every later lookup. A transformation that did not end would trace the operators that follow.
    Python would abort at exit if an MLIR context were still entered.
    """
    put_back = jax_private.keep_transformations()
    leave_mlir = jax_private.leave_mlir()
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception):
            finishing.again(put_back)
            finishing.again(leave_mlir)
            finishing.again(forget_traces)
        raise


def text_of(traced: jax.stages.Traced, lowered: jax.stages.Lowered) -> str | None:
    """All inputs of a program's compilation, as text; ``None`` if JAX hides some.

    The lowered program alone does not show which unused arguments it drops, nor the structure and
    the weak types of the results.
    """
    kept = jax_private.kept_arguments(lowered)
    if kept is None:  # Another JAX.
        return None
    return f"{kept} {lowered.out_tree} {traced.jaxpr.out_avals} {lowered.as_text()}"


def need_of(program: jax.stages.Compiled) -> tuple[int, ...]:
    """The bytes that a run of a program allocates: for itself, and for its results.

    Results in the memory of donated arguments do not count.
    """
    try:
        found: Any = program.memory_analysis()
        return found.temp_size_in_bytes, found.output_size_in_bytes - found.alias_size_in_bytes
    except (AttributeError, NotImplementedError, RuntimeError):
        return ()  # Some devices do not report it.


def settings() -> Key:
    """`context` as a key that is cheap to compute, for this process only."""
    return (*jax_private.trace_context(), *_of_the_compiler())


def context() -> str:
    """JAX's settings that a program depends on: precision, wide types, a user's contexts."""
    texts = [*map(_text_of_setting, jax_private.trace_context())]
    return f"{texts} {_of_the_compiler()}"


def _of_the_compiler() -> list[object]:
    values = jax.config.values
    return [values.get(each) for each in _OF_THE_COMPILER]


def _text_of_setting(setting: object) -> str:
    text = repr(setting)
    if " at 0x" not in text:
        return text
    # Any other setting without a text belongs to transformations, and is empty outside of them.
    return repr(jax_private.attributes_of_operations(setting))


def versions() -> tuple[str, str]:
    """The versions of JAX and of the compiler."""
    return jax.__version__, jaxlib.version.__version__
