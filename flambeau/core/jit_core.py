"""What JAX does inside to call a compiled program without Python, and what a program depends on.

None of it is JAX's public face, so all of it is here, and where a version of JAX lacks a part of
it `pjit` is plain `jax.jit`: correct, with neither a bound nor a short way from the disk.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jaxlib.version

_trace_context: Any = None
_is_clean: Any = None
try:
    import jaxlib._jax as _jax
    from jax._src import tree_util as _tree_util
    from jax._src.config import trace_context as _trace_context
    from jax._src.core import trace_state_clean as _is_clean
    from jax._src.interpreters import pxla as _pxla

    _REGISTRY, _SHARD = _tree_util.dispatch_registry, _pxla.cc_shard_arg
    _KEYS, _CACHE, _PJIT = _pxla.JitGlobalCppCacheKeys, _jax.PjitFunctionCache, _jax.pjit
    _: Any = _pxla.MeshExecutable.create_cpp_call
    IS_KNOWN = True
except (ImportError, AttributeError):  # Another JAX.
    IS_KNOWN = False

_clear_traces: Callable[[], None] | None = None
_seen_types: Any = None
try:
    from jax._src import pjit as _jits
    from jax._src.util import clear_all_caches as _clear_traces

    # By function and types of arguments; JAX 0.10 never drops what belongs to its own functions.
    _seen_types = getattr(_jits, "_seen_qdds", None)
except (ImportError, AttributeError):  # Another JAX, which keeps some thousand traces.
    pass


def cache(capacity: int) -> Any:
    """A cache of so many programs, the least recently used first out."""
    return _CACHE(capacity=capacity) if IS_KNOWN else None


def pjit(
    name: str, function: Callable[..., Any], on_miss: Any, programs: Any
) -> Callable[..., Any]:
    """A function that runs its programs without Python.

    Args:
        name: The function's name, for profiles.
        function: What is called under `jax.disable_jit`.
        on_miss: Called for arguments without a program in the cache; gives the results, what the
            cache keeps (``None`` to be called each time), and ``False``.
        programs: A `cache`.
    """
    if not IS_KNOWN:
        return on_miss.traced()
    return _PJIT(name, function, on_miss, [], [], _KEYS(), _REGISTRY, _SHARD, programs)


def is_outside() -> bool:
    """Whether no transformation of JAX is running."""
    return _is_clean()


def call_of(program: jax.stages.Compiled) -> Any:
    """The call of a compiled program, whose ``_cache_miss`` fills a cache.

    ``None`` for programs that JAX calls from Python, such as those with callbacks.
    """
    return program._executable.create_cpp_call(program._params)


def forget_traces() -> None:
    """Drop what JAX keeps of functions that it has traced and lowered; programs stay.

    JAX would keep thousands for each of its caches, which are many.
    """
    if _clear_traces is not None:
        _clear_traces()
    if _seen_types is not None:
        _seen_types.clear()


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """A block that traces; an interrupt in it leaves nothing half made in JAX's caches.

    An entry that was begun and not finished would be taken for a function that calls itself, and
    refused, whenever it is asked for again.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception):
            forget_traces()
        raise


def text_of(traced: Any, lowered: Any) -> str | None:
    """All that a program is compiled from, as text; ``None`` where JAX does not tell.

    The lowered program alone does not say which arguments it leaves out, since nothing depends on
    them, nor the structure and the weak types of the results.
    """
    try:
        kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
    except (AttributeError, KeyError):  # Another JAX.
        return None
    return f"{kept} {lowered.out_tree} {traced.jaxpr.out_avals} {lowered.as_text()}"


def context() -> str:
    """JAX's settings that a program depends on: precision, wide types, a user's contexts."""
    # What has no text of its own belongs to transformations, and outside of them it is empty.
    return repr([each if " at 0x" not in repr(each) else None for each in _trace_context()])


def versions() -> tuple[str, str]:
    """The versions of JAX and of the compiler."""
    return jax.__version__, jaxlib.version.__version__
