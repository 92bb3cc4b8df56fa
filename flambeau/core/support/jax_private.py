"""Every private name of JAX that flambeau uses; no other file imports one.

JAX may move or drop a private name in any release. Each name is looked up on its own, and is
``None`` where JAX lacks it; `REPLACEMENTS` says what flambeau does then. The tests in
`tests/test_architecture.py` check that every name has a row, and that no other file has one.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax

# A private name: what flambeau uses it for, and what replaces it.
REPLACEMENTS: dict[str, tuple[str, str]] = {
    "jaxlib._jax.ArrayImpl": (
        (
            "the type of an array with values, which tells it from a tracer in 30 ns; "
            "`core/programs/absent.py`"
        ),
        "the type of an array that `jax.device_put` gives; `compiler.lower` takes no meta tensors",
    ),
    "jaxlib._jax.batched_device_put": (
        "moves a NumPy array to a device, in a tenth of the time of `jax.device_put`",
        (
            "`jax.device_put` under `jax.ensure_compile_time_eval`, which "
            "`core/values/upload.py` uses then"
        ),
    ),
    "jaxlib._jax.PjitFunctionCache": (
        "a cache of a chosen size for compiled programs, which all operators share",
        (
            "`jax.jit` for each function, without a bound: `core/programs/jit_core.py` with "
            "IS_KNOWN false"
        ),
    ),
    "jaxlib._jax.pjit": (
        "a callable that finds its program in C++, and calls flambeau where there is none",
        "`jax.jit` for each function: `core/programs/jit_core.py` with IS_KNOWN false",
    ),
    "jax._src.tree_util.dispatch_registry": (
        "an argument of `pjit`: how it flattens arguments",
        "goes together with `jaxlib._jax.pjit`",
    ),
    "jax._src.interpreters.pxla.cc_shard_arg": (
        "an argument of `pjit`: how it moves an argument to where the program wants it",
        "goes together with `jaxlib._jax.pjit`",
    ),
    "jax._src.interpreters.pxla.JitGlobalCppCacheKeys": (
        "an argument of `pjit`: which options belong to the key of its cache",
        "goes together with `jaxlib._jax.pjit`",
    ),
    "jax._src.interpreters.pxla.MeshExecutable": (
        "gives the C++ call of a compiled program (`create_cpp_call`)",
        "`jax.jit` for each function: `core/programs/jit_core.py` with IS_KNOWN false",
    ),
    "jax._src.config.trace_context": (
        "JAX's settings that a program depends on, as a part of its key",
        "the public settings of `jax.config`, read one by one; IS_KNOWN is false until then",
    ),
    "jax._src.xla_metadata_lib.XlaMetadata": (
        "what `set_xla_metadata` lets operations carry, a part of a program's key on disk",
        "nothing: programs are then found on disk whatever their operations carry",
    ),
    "jax._src.core.trace_state_clean": (
        "whether no transformation of JAX is running",
        (
            "`core/support/jax_core.py`: `transformations() == no_transformations()`; IS_KNOWN is "
            "false then"
        ),
    ),
    "jax._src.core": (
        "`Primitive`, `Var`, `Literal`: `jax.extend` imports the kernel languages along with them",
        "`jax.extend.core`, which `core/support/jax_core.py` imports then",
    ),
    "jax._src.core.trace_ctx": (
        "JAX's running transformation, to put it back after an interrupt and to find its tensors",
        "nothing: JAX goes on tracing after one such interrupt in a thousand; caches keep tracers",
    ),
    "jax._src.core.NamedAxisEffect": (
        "tells an exchange over an axis from a callback to Python, among a program's effects",
        "nothing: a compiled step with exchanges then overwrites no array",
    ),
    "jax._src.core.extend_axis_env_nd": (
        "an axis of processes while a trace exchanges values, and not in the rest of it",
        "an error: exchanges then run in eager code only, outside of compiled functions",
    ),
    "jaxlib.mlir.ir": (
        "`Context`, `Location`, `InsertionPoint`: those that an interrupt has left entered",
        "nothing: Python would then abort as it ends, after one interrupt in some thousand",
    ),
    "jax._src.pjit._seen_qdds": (
        "a table that JAX 0.10 fills and never empties; it is emptied with the traces",
        "nothing: a JAX without it has no such table",
    ),
    "jax._src.util.clear_all_caches": (
        "drops the traces that JAX keeps of functions, and keeps its programs",
        "nothing: JAX then keeps some thousand traces; `jax.clear_caches` drops programs too",
    ),
    "jax._src.compiler.get_compile_options": (
        "the options with which XLA compiles, as XLA has read them: a part of a program's key",
        "the environment variable `XLA_FLAGS`, which may have changed since XLA read it",
    ),
    "jax._src.distributed.global_state": (
        "the client of JAX's coordination service: barriers with a timeout, and values by key",
        "an error of `distributed.init_process_group` for several processes",
    ),
    "jax._src.xla_bridge.backends_are_initialized": (
        "whether JAX has started its threads, which a forked process lacks",
        "nothing: a process that is forked before JAX has started them is refused as well",
    ),
    "jax._src.interpreters.mlir.global_thread_pool": (
        "the threads with which JAX lowers, which a forked process must not wait for as it ends",
        "nothing: such a process may then wait for ever at its end, unless by `os._exit`",
    ),
    "jax._src.core.pytype_aval_mappings": (
        "JAX takes a `Deferred` for an array: its shape and dtype",
        "no sequences of calls are fused; `core/fusion/` with IS_KNOWN false",
    ),
    "jax._src.interpreters.pxla.shard_arg_handlers": (
        "JAX takes a `Deferred` for an array: its elements, as an argument of a program",
        "goes together with `pytype_aval_mappings`",
    ),
    "jax._src.dtypes.canonicalize_value_handlers": (
        "JAX takes a `Deferred` for an array: the array itself, as an operand",
        "goes together with `pytype_aval_mappings`",
    ),
    "jax._src.export._export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE": (
        "which functions outside of XLA an exported program may call: those of JAX's own operators",
        "nothing: a file whose program calls such a function is refused",
    ),
    "jax.stages.Compiled._executable": (
        "the `MeshExecutable` of a compiled program",
        "goes together with `MeshExecutable`",
    ),
    "jax.stages.Compiled._params": (
        "an argument of `MeshExecutable.create_cpp_call`",
        "goes together with `MeshExecutable`",
    ),
    "jax.stages.Lowered._lowering": (
        "which arguments the compiled program leaves out, a part of its key on disk",
        "nothing: `core/programs/jit_core.py` then keeps such programs in memory only",
    ),
}


def _private(path: str) -> Any:
    """A private name of JAX; ``None`` if this JAX has none. It needs a row in `REPLACEMENTS`."""
    if path not in REPLACEMENTS:
        raise KeyError(f"{path} has no row in REPLACEMENTS: say what it is for and replaced by")
    module, name = path.rsplit(".", 1)
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


if TYPE_CHECKING:

    class ArrayImpl(jax.Array):
        format: Any

        def __init__(self, *facts: Any, **options: Any) -> None: ...

else:
    ArrayImpl = _private("jaxlib._jax.ArrayImpl") or type(jax.device_put(0.0))

batched_device_put = _private("jaxlib._jax.batched_device_put")
core = _private("jax._src.core")
trace_context = _private("jax._src.config.trace_context")
trace_state_clean = _private("jax._src.core.trace_state_clean")
clear_all_caches = _private("jax._src.util.clear_all_caches")

PjitFunctionCache = _private("jaxlib._jax.PjitFunctionCache")
pjit = _private("jaxlib._jax.pjit")
dispatch_registry = _private("jax._src.tree_util.dispatch_registry")
cc_shard_arg = _private("jax._src.interpreters.pxla.cc_shard_arg")
JitGlobalCppCacheKeys = _private("jax._src.interpreters.pxla.JitGlobalCppCacheKeys")
# Whether JAX has every name that calls of programs from C++ need.
CALLS_FROM_CPP = hasattr(
    _private("jax._src.interpreters.pxla.MeshExecutable"), "create_cpp_call"
) and None not in (
    trace_context,
    trace_state_clean,
    PjitFunctionCache,
    pjit,
    dispatch_registry,
    cc_shard_arg,
    JitGlobalCppCacheKeys,
)

_XlaMetadata = _private("jax._src.xla_metadata_lib.XlaMetadata")
_seen_qdds = _private("jax._src.pjit._seen_qdds")
_trace_ctx = _private("jax._src.core.trace_ctx")
_ir = _private("jaxlib.mlir.ir")

#: The effect of an exchange over an axis.
AxisEffect: Any = _private("jax._src.core.NamedAxisEffect") or ()
#: A block in which an axis has a name and a size.
axis_env: Any = _private("jax._src.core.extend_axis_env_nd")

_avals = _private("jax._src.core.pytype_aval_mappings")
_shard_arg_handlers = _private("jax._src.interpreters.pxla.shard_arg_handlers")
_canonicalize_value_handlers = _private("jax._src.dtypes.canonicalize_value_handlers")

_get_compile_options = _private("jax._src.compiler.get_compile_options")
_global_state = _private("jax._src.distributed.global_state")
mlir_threads: Any = _private("jax._src.interpreters.mlir.global_thread_pool")
_is_started = _private("jax._src.xla_bridge.backends_are_initialized")


def stable_calls() -> frozenset[str]:
    """The names of the functions outside of XLA that JAX's operators call in exported programs."""
    found = _private("jax._src.export._export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE")
    return frozenset(found or ())


def is_started() -> bool:
    """Whether JAX has created its devices and their threads."""
    return _is_started is None or _is_started()


def coordination_client() -> Any:
    """The client of JAX's coordination service; ``None`` if there is none, or JAX hides it."""
    return getattr(_global_state, "client", None)


def xla_options() -> bytes | str:
    """The options with which XLA compiles, which it reads from ``XLA_FLAGS`` once."""
    try:
        return _get_compile_options(num_replicas=1, num_partitions=1).SerializeAsString()
    except (TypeError, AttributeError):
        return os.environ.get("XLA_FLAGS", "")


def keep_transformations() -> Callable[[], None]:
    """A function that restores the JAX transformations that are running on this thread now."""
    try:
        trace, axis_env = _trace_ctx.trace, _trace_ctx.axis_env
        set_trace, set_axis_env = _trace_ctx.set_trace, _trace_ctx.set_axis_env
    except AttributeError:
        return lambda: None

    def put_back() -> None:
        set_trace(trace)
        set_axis_env(axis_env)

    return put_back


def running_trace() -> Any:
    """The running JAX transformation; ``None`` if JAX hides it."""
    return getattr(_trace_ctx, "trace", None)


def leave_mlir() -> Callable[[], None]:
    """A function that leaves the MLIR contexts that this thread has entered since and not left.

    They are destroyed with the thread. On the main thread that is after Python's shutdown, and
    aborts the process.
    """
    if _ir is None or _ir.Context.current is not None:
        return lambda: None
    kinds = _ir.InsertionPoint, _ir.Location, _ir.Context

    def leave_one() -> bool:
        for kind in kinds:
            # The last context entered is of one of these kinds; leaving it as another kind raises.
            with contextlib.suppress(ValueError, AttributeError, RuntimeError):
                kind.current.__exit__(None, None, None)
                return True
        return False

    def leave() -> None:
        while leave_one():
            pass

    return leave


def take_arrays_of(kind: type, computed: Callable[[Any], Any]) -> bool:
    """Make JAX accept objects of ``kind`` as arrays; ``False`` if this JAX cannot.

    Args:
        kind: A subclass of `jax.Array` with an attribute ``aval``.
        computed: Returns the array of an object.
    """
    avals, shards, values = _avals, _shard_arg_handlers, _canonicalize_value_handlers
    if None in (avals, shards, values):
        return False
    of_arrays = shards[ArrayImpl]

    def shard(arrays: Any, *others: Any) -> Any:
        return of_arrays([*map(computed, arrays)], *others)

    avals[kind] = lambda array: array.aval
    shards[kind] = shard
    values[kind] = lambda array, **options: computed(array)
    return True


def clear_seen_types() -> None:
    """Empty JAX's table of functions by argument types, if it has one."""
    if _seen_qdds is not None:
        _seen_qdds.clear()


def attributes_of_operations(setting: Any) -> Any:
    """The metadata that a setting of `trace_context` adds to operations, or ``None``."""
    is_metadata = _XlaMetadata is not None and isinstance(setting, _XlaMetadata)
    return getattr(setting, "val", None) if is_metadata else None


def cpp_call(program: jax.stages.Compiled) -> Any:
    """The C++ call of a compiled program; ``None`` if JAX calls the program from Python."""
    return program._executable.create_cpp_call(program._params)


def kept_arguments(lowered: Any) -> list[int] | None:
    """The positions of the arguments that a lowered program uses; ``None`` if JAX hides them."""
    try:
        return sorted(lowered._lowering.compile_args["kept_var_idx"])
    except (AttributeError, KeyError):
        return None
