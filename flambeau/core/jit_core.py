"""JAX's way to call a compiled program without Python, and the state that a program depends on.

JAX has no public names for it; `core/jax_private.py` lists the private ones. Where a version of
JAX lacks one of them, `pjit` is plain `jax.jit`: correct, with neither a bound nor a short way from
the disk.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jaxlib.version

from flambeau.core import finishing, jax_private

# With another JAX, `pjit` below is `jax.jit`.
IS_KNOWN = jax_private.CALLS_FROM_CPP

# JAX's settings that it hands to the compiler, and that are no part of `trace_context`.
_OF_THE_COMPILER = (
    "jax_compiler_enable_remat_pass", "jax_disable_most_optimizations",
    "jax_exec_time_optimization_effort", "jax_memory_fitting_effort", "jax_memory_fitting_level",
    "jax_optimization_level", "jax_use_shardy_partitioner", "jax_xla_profile_version",
)  # fmt: skip


def cache(capacity: int) -> Any:
    """A cache of ``capacity`` programs, the least recently used first out."""
    return jax_private.PjitFunctionCache(capacity=capacity) if IS_KNOWN else None


def pjit(
    name: str, function: Callable[..., Any], on_miss: Any, programs: Any
) -> Callable[..., Any]:
    """A function that runs its programs without Python.

    Args:
        name: The function's name, for profiles.
        function: The function that is called under `jax.disable_jit`.
        on_miss: Called for arguments without a program in the cache; gives the results, what the
            cache keeps (``None`` to be called each time), and ``False``.
        programs: A `cache`.
    """
    if not IS_KNOWN:
        return on_miss.traced()
    keys = jax_private.JitGlobalCppCacheKeys()
    flattening, moving = jax_private.dispatch_registry, jax_private.cc_shard_arg
    return jax_private.pjit(name, function, on_miss, [], [], keys, flattening, moving, programs)


def is_outside() -> bool:
    """Whether no transformation of JAX is running."""
    return jax_private.trace_state_clean()


def call_of(program: jax.stages.Compiled) -> Any:
    """The call of a compiled program, whose ``_cache_miss`` fills a cache.

    ``None`` for programs that JAX calls from Python, such as those with callbacks.
    """
    return jax_private.cpp_call(program)


def forget_traces() -> None:
    """Drop JAX's caches of traced and lowered functions; programs stay.

    JAX would keep thousands for each of its caches, which are many.
    """
    if jax_private.clear_all_caches is not None:
        jax_private.clear_all_caches()
    jax_private.clear_seen_types()


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """A block that traces; an interrupt in it leaves nothing half made in JAX.

    A cache's entry that was begun and not finished would be taken for a function that calls itself,
    and refused, whenever it is asked for again; a transformation that did not end would take the
    operators that follow for its own; and Python would abort at its end if a context of MLIR were
    still entered.
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


def text_of(traced: Any, lowered: Any) -> str | None:
    """All that a program is compiled from, as text; ``None`` where JAX does not tell.

    The lowered program alone does not say which arguments it leaves out, since nothing depends on
    them, nor the structure and the weak types of the results.
    """
    kept = jax_private.kept_arguments(lowered)
    if kept is None:  # Another JAX.
        return None
    return f"{kept} {lowered.out_tree} {traced.jaxpr.out_avals} {lowered.as_text()}"


def need_of(program: jax.stages.Compiled) -> tuple[int, ...]:
    """The bytes that a program takes when it runs: for itself, and for results.

    Results in the memory of arguments that it overwrites do not count.
    """
    try:
        found: Any = program.memory_analysis()
        return found.temp_size_in_bytes, found.output_size_in_bytes - found.alias_size_in_bytes
    except (AttributeError, NotImplementedError, RuntimeError):
        return ()  # Not every device tells.


def settings() -> tuple[Any, ...]:
    """`context` as a key that is quickly made, for this process only."""
    return (*jax_private.trace_context(), *_of_the_compiler())


def context() -> str:
    """JAX's settings that a program depends on: precision, wide types, a user's contexts."""
    texts = [*map(_text_of_setting, jax_private.trace_context())]
    return f"{texts} {_of_the_compiler()}"


def _of_the_compiler() -> list[Any]:
    values = jax.config.values
    return [values.get(each) for each in _OF_THE_COMPILER]


def _text_of_setting(setting: Any) -> str:
    text = repr(setting)
    if " at 0x" not in text:
        return text
    # Anything else without a text belongs to transformations, and outside of them it is empty.
    return repr(jax_private.attributes_of_operations(setting))


def versions() -> tuple[str, str]:
    """The versions of JAX and of the compiler."""
    return jax.__version__, jaxlib.version.__version__
