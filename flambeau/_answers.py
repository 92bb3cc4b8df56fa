"""Names of PyTorch that only answer a question, refuse, or do nothing: one table of all of them.

`_absent` creates a module for each row without a file, and adds the names of other rows to their
modules on first use.
"""

from __future__ import annotations

import contextlib
import enum
import re
import types
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

__all__: list[str] = []


class Call:
    """An answer that is computed.

    Args:
        function: A function of the module and a dictionary of arguments, or its path below
            `flambeau`.
        is_setting: Whether compiled functions follow the answer; see `core.support.settings`.
    """

    def __init__(
        self, function: str | Callable[[Any, dict[str, Any]], Any], is_setting: bool = False
    ) -> None:
        self.function = function
        self.is_setting = is_setting

    def __call__(self, module: Any, given: dict[str, Any]) -> Any:
        """The answer for these arguments."""
        if not isinstance(self.function, str):
            return self.function(module, given)
        home, _, name = self.function.rpartition(".")
        return getattr(import_module(f"flambeau.{home}"), name)(module, given)


class Refusal(str):
    """The message of a NotImplementedError, in which ``{function}`` and arguments are replaced."""

    __slots__ = ()


def _numbers(module: str, name: str, names: str) -> Any:
    """An enumeration of the numbers from 0."""
    return enum.IntEnum(name, names, start=0, module=f"flambeau.{module}")


def _exchanged(module: Any, name: str, value: Any) -> Any:
    """Set an attribute; returns its previous value."""
    before = getattr(module, name)
    setattr(module, name, value)
    return before


_warned: set[str] = set()


def _warn_once(module: Any, given: dict[str, Any]) -> None:
    """Warn on the first use of a message."""
    if given["msg"] not in _warned:
        _warned.add(given["msg"])
        warnings.warn(given["msg"], stacklevel=given["stacklevel"] + 4)


@contextlib.contextmanager
def _block(module: Any, given: dict[str, Any]) -> Iterator[None]:
    """A context manager, or decorator, without effect."""
    yield


BLOCK = Call(_block)
#: The function returns its first argument, such as a decorated function.
FIRST = Call(lambda module, given: next(iter(given.values())))
#: The function returns a decorator without effect.
UNCHANGED = Call(lambda module, given: lambda function: function)
# The functions and classes of modules with settings.
CONFIG = Call(lambda module, given: import_module("flambeau.as_torch.private._settings").Settings)
FLAGS = Call("backends.settings.flags")
SET_FLAGS = Call("backends.settings.set_flags")
PRECISION = Call(lambda module, given: import_module("flambeau.backends.settings").Precision())
SETTINGS = Call(lambda module, given: import_module("flambeau.backends.settings").Library)
NO_DEVICE = {
    "is_available(); is_initialized()": False,
    "device_count()": 0,
    "manual_seed(seed); manual_seed_all(seed)": None,
}
NO_MASKED_TENSORS = Refusal(
    "{function}(): there are no masked tensors; keep the mask as a tensor of its own, for "
    "flambeau.where, masked_fill and masked_select"
)
_ADDED = Call("func.batched_containers._add_batch_dim")
_REMOVED = Call("func.batched_containers._remove_batch_dim")

#: By module: names and answers. Names are separated by semicolons; those of modules that exist
#: under the name torch only begin with an underscore.
#:
#: - ``name(parameters)`` is a function that returns the answer, computes it (`Call`) or raises it
#:   (`Refusal`).
#: - ``class name`` is a class: the answer is its base, the name of a base in the same module, the
#:   error of its constructor (`Refusal`), or its methods with their answers.
#: - ``from module`` has names of another module, or ``name=theirs``.
#: - Any other name is an attribute, and the answer its value.
ANSWERS: dict[str, dict[str, Any]] = {
    # Devices: the CPU, whose programs JAX orders, and others that do not exist here
    "cpu": {
        "is_available(); is_initialized()": True,
        "device_count()": 1,
        "current_device()": "cpu",
        "set_device(device)": None,
        "synchronize(device=None)": Call("cuda.devices.synchronize_cpu"),
        "class Stream": {
            "__init__(priority=-1); wait_stream(stream); record_event(); wait_event(event)": None
        },
        "class Event": {
            "query()": True,
            "record(stream=None); synchronize(); wait(stream=None)": None,
        },
        "class StreamContext": {"__init__(stream); __enter__(); __exit__(*exception)": None},
        "stream(stream)": Call(lambda module, given: module.StreamContext(given["stream"])),
        "_stream": Call(lambda module, given: module.Stream()),
        "current_stream(device=None)": Call(lambda module, given: module._stream),
    },
    "cuda.amp.autocast_mode": {"from cuda.amp": "autocast custom_bwd custom_fwd"},
    "cuda.amp.common": {"from cuda.amp": "amp_definitely_not_available"},
    "cuda.amp.grad_scaler": {"from cuda.amp": "GradScaler"},
    "mps": {"is_available()": False, "device_count()": 0, "manual_seed(seed)": None},
    "mtia": NO_DEVICE,
    "xpu": NO_DEVICE,
    # Libraries: answers, and settings, which `backends.settings` checks and applies
    "backends.cudnn": {
        "__class__": SETTINGS,
        "benchmark; deterministic": False,
        "benchmark_limit": 10,
        "depthwise_kernel": "auto",
        "allow_tf32; enabled": True,
        "fp32_precision": "none",
        "conv; rnn": PRECISION,
        "from cuda.devices": "is_available",
        "version()": None,
        "is_acceptable(tensor)": Call(
            lambda module, given: bool(module.enabled and given["tensor"].is_cuda)
        ),
        "set_flags(_enabled=None, _benchmark=None, _benchmark_limit=None, _deterministic=None,"
        " _allow_tf32=None, _fp32_precision='none', _depthwise_kernel=None)": SET_FLAGS,
        "flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False,"
        " allow_tf32=True, fp32_precision='none', depthwise_kernel='auto')": FLAGS,
    },
    "backends.cusparselt": {"is_available()": False, "version(); get_max_alg_id()": None},
    "backends.kleidiai": {"is_available()": False},
    "backends.mha": {
        "_enabled": True,
        "get_fastpath_enabled()": Call(lambda module, given: module._enabled, is_setting=True),
        "set_fastpath_enabled(value)": Call(
            lambda module, given: setattr(module, "_enabled", bool(given["value"]))
        ),
    },
    "backends.miopen": {
        "immediate": False,
        "set_flags(_immediate=None)": SET_FLAGS,
        "flags(immediate=False)": FLAGS,
    },
    "backends.mkl": {
        "VERBOSE_OFF": 0,
        "VERBOSE_ON": 1,
        "is_available()": False,
        "class verbose": {"__init__(enable); __exit__(*exception)": None, "__enter__()": FIRST},
    },
    "backends.mkldnn": {
        "__class__": SETTINGS,
        "VERBOSE_OFF": 0,
        "VERBOSE_ON": 1,
        "VERBOSE_ON_CREATION": 2,
        "class verbose": {"__init__(level); __exit__(*exception)": None, "__enter__()": FIRST},
        "enabled": True,
        "deterministic": False,
        "allow_tf32": None,
        "fp32_precision": "none",
        "conv; matmul; rnn": PRECISION,
        "is_available(); is_acl_available()": False,
        "set_flags(_enabled=None, _deterministic=None, _allow_tf32=None,"
        " _fp32_precision='none')": SET_FLAGS,
        "flags(enabled=False, deterministic=False, allow_tf32=True, fp32_precision='none')": FLAGS,
    },
    "backends.mps": {
        "is_available(); is_built(); is_macos_or_newer(major, minor);"
        "is_macos13_or_newer(minor=0)": False,
        "get_name()": "",
        "get_core_count()": 0,
    },
    "backends.nnpack": {
        "enabled": True,
        "is_available()": False,
        "set_flags(_enabled)": SET_FLAGS,
        "flags(enabled=False)": FLAGS,
    },
    "backends.openmp": {"is_available()": False},
    "backends.opt_einsum": {
        "enabled": True,
        "strategy": "auto",
        "is_available()": True,
        "get_opt_einsum()": Call(lambda module, given: import_module("opt_einsum")),
        "set_flags(_enabled=None, _strategy=None)": SET_FLAGS,
        "flags(enabled=None, strategy=None)": FLAGS,
    },
    "backends.quantized": {
        "__class__": SETTINGS,
        "engine": "none",
        "supported_engines": Call(lambda module, given: ["none"]),
    },
    # Kinds of tensors that do not exist here
    "masked": {
        "is_masked_tensor(obj, /)": False,
        "class MaskedTensor": NO_MASKED_TENSORS,
        "masked_tensor(data, mask, requires_grad=False); as_masked_tensor(data, mask)": (
            NO_MASKED_TENSORS
        ),
    },
    "nested": {
        "as_nested_tensor(ts, dtype=None, device=None, layout=None);"
        "narrow(tensor, dim, start, length, layout=None);"
        "nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False,"
        " pin_memory=False);"
        "nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None,"
        " min_seqlen=None, max_seqlen=None);"
        "to_padded_tensor(input, padding, output_size=None)": Refusal(
            "nested.{function}(): there are no nested tensors; pad sequences of several lengths "
            "with flambeau.nn.utils.rnn.pad_sequence, and mask what was added"
        ),
    },
    "ao": {},
    "ao.nn": {},
    "ao.nn.quantized": {"from nn.quantized": "FloatFunctional"},
    "ao.quantization": {"from quantization": "DeQuantStub FakeQuantizeBase ObserverBase QuantStub"},
    # An exporter that does not exist here
    "onnx": {
        "TrainingMode": _numbers("onnx", "TrainingMode", "EVAL PRESERVE TRAINING"),
        "OperatorExportTypes": _numbers(
            "onnx", "OperatorExportTypes", "ONNX ONNX_ATEN ONNX_ATEN_FALLBACK ONNX_FALLTHROUGH"
        ),
        "TensorProtoDataType": _numbers(
            "onnx",
            "TensorProtoDataType",
            "UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 "
            "UINT64 COMPLEX64 COMPLEX128 BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 "
            "FLOAT8E5M2FNUZ",
        ),
        "class OnnxExporterError": RuntimeError,
        "class ONNXProgram": object,
        "is_in_onnx_export()": False,
        "register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version);"
        "unregister_custom_op_symbolic(symbolic_name, opset_version)": None,
        "export(*args, **kwargs)": Refusal(
            "there is no exporter to ONNX: flambeau.export.export gives a program in StableHLO, "
            "which saves, loads and runs without the model's source; program.stablehlo() is its "
            "text"
        ),
    },
    "onnx.symbolic_helper": {
        "parse_args(*arg_descriptors); quantized_args(*arg_q_descriptors, **options)": UNCHANGED
    },
    "onnx.symbolic_opset9": {},
    "onnx.symbolic_opset11": {},
    "onnx.symbolic_opset12": {},
    # Processes
    "distributed.checkpoint.hf_storage": {
        "from distributed.checkpoint": "HuggingFaceStorageReader HuggingFaceStorageWriter"
    },
    "distributed.elastic": {},
    "distributed.elastic.multiprocessing": {},
    "distributed.elastic.multiprocessing.errors": {
        "class ChildFailedError": Exception,
        "record(fn, error_handler=None)": FIRST,
    },
    "distributed.fsdp.fully_sharded_data_parallel": {
        "from distributed.fsdp.api": (
            "FullOptimStateDictConfig FullStateDictConfig LocalOptimStateDictConfig "
            "LocalStateDictConfig OptimStateDictConfig ShardedOptimStateDictConfig "
            "ShardedStateDictConfig StateDictConfig StateDictSettings StateDictType"
        )
    },
    "distributed.optim": {
        "class ZeroRedundancyOptimizer": Refusal(
            "{function} is not needed: flambeau.distributed.fsdp.fully_shard(module) shards the "
            "state of any optimizer, as it does the parameters"
        )
    },
    "distributed.rpc": {"is_available()": False},
    # A plain tensor beside one on a mesh is the same on all devices in any case.
    "distributed.tensor.experimental": {"implicit_replication()": BLOCK},
    "distributed._tensor.experimental": {"implicit_replication()": BLOCK},
    "distributed._composable": {},
    "distributed._composable.fsdp": {
        "from distributed.fsdp": (
            "CPUOffloadPolicy FSDPModule MixedPrecisionPolicy OffloadPolicy fully_shard"
        ),
    },
    # PyTorch's compiler: settings are stored, and hints have no effect
    "_dynamo": {
        "from compile": "compile",
        "from compiler": "disable is_compiling list_backends reset substitute_in_graph",
        "from nn.compiled": "OptimizedModule=CompiledModule",
        "from _dynamo.decorators": (
            "allow_in_graph assume_constant_result disallow_in_graph forbid_in_graph graph_break "
            "mark_dynamic mark_static mark_static_address maybe_mark_dynamic nonstrict_trace"
        ),
        "optimize(*args, **kwargs)": Call(lambda module, given: module.compile),
        "run(fn=None)": FIRST,
        "is_dynamo_supported(); is_inductor_supported()": True,
        "reset_code_caches()": None,
    },
    "_dynamo._trace_wrapped_higher_order_op": {
        "class TransformGetItemToIndex": {"__enter__(); __exit__(*exception)": None}
    },
    "_dynamo.config": {
        "__class__": CONFIG,
        "accumulated_cache_size_limit; accumulated_recompile_limit": 256,
        "cache_size_limit; recompile_limit": 8,
        "allow_rnn; assume_static_by_default; automatic_dynamic_shapes; dynamic_shapes;"
        "force_parameter_static_shapes; inline_inbuilt_nn_modules; optimize_ddp;"
        "specialize_float": True,
        "capture_dynamic_output_shape_ops; capture_scalar_outputs; compiled_autograd; disable;"
        "error_on_recompile; fail_on_recompile_limit_hit;"
        "skip_fwd_side_effects_in_bwd_under_checkpoint; specialize_int; suppress_errors;"
        "verbose": False,
    },
    "_dynamo.decorators": {
        "from compiler": "allow_in_graph assume_constant_result",
        "disallow_in_graph(fn); forbid_in_graph(fn); nonstrict_trace(traceable_fn)": FIRST,
        "graph_break(msg=''); mark_dynamic(t, index, **bounds); maybe_mark_dynamic(t, index);"
        "mark_static(t, index=None); mark_static_address(t, guard=False)": None,
    },
    "_dynamo.eval_frame": {"from nn.compiled": "OptimizedModule=CompiledModule"},
    "_dynamo.exc": {
        "from compile.errors": "TorchDynamoException=CompileError Unsupported=CompileError",
        "class BackendCompilerFailed; InternalTorchDynamoError; RecompileLimitExceeded;"
        "TorchRuntimeError; UserError": RuntimeError,
        "class TensorifyScalarRestartAnalysis": Exception,
    },
    "_dynamo.utils": {
        "is_compile_supported(device_type)": True,
        "warn_once(msg, stacklevel=1)": Call(_warn_once),
    },
    "_inductor": {"from compiler": "cudagraph_mark_step_begin"},
    "_inductor.config": {
        "__class__": CONFIG,
        "conv_1x1_as_mm; coordinate_descent_check_all_directions; coordinate_descent_tuning;"
        "cpp_wrapper; emulate_precision_casts; force_disable_caches; freezing; max_autotune;"
        "max_autotune_gemm": False,
        "epilogue_fusion; fx_graph_cache": True,
        "fx_graph_remote_cache": None,
        "triton": types.SimpleNamespace(
            cudagraphs=False, cudagraph_trees=True, unique_kernel_names=True
        ),
    },
    # TorchScript
    "jit": {
        "class Error": RuntimeError,
        "class ScriptWarning": Warning,
        "class TracingCheckError": Exception,
        "class strict_fusion": {"__enter__(); __exit__(*exception)": None},
        "_get_trace_graph(f, args=(), kwargs=None, strict=True, _force_outplace=False,"
        " return_inputs=False, _return_inputs_states=False)": Refusal(
            "there are no graphs of TorchScript: flambeau.fx.symbolic_trace gives one of a module, "
            "and flambeau.utils.flop_counter and flambeau.profiler.summary count its operators"
        ),
        "fuser(name); optimized_execution(should_optimize)": BLOCK,
        "_strategy": [("STATIC", 2), ("DYNAMIC", 10)],
        "set_fusion_strategy(strategy)": Call(
            lambda module, given: _exchanged(module, "_strategy", given["strategy"])
        ),
        "_onednn": False,
        "enable_onednn_fusion(enabled)": Call(
            lambda module, given: setattr(module, "_onednn", bool(given["enabled"]))
        ),
        "onednn_fusion_enabled()": Call(lambda module, given: module._onednn, is_setting=True),
        "freeze(mod, preserved_attrs=None, optimize_numerics=True);"
        "optimize_for_inference(mod, other_methods=None);"
        "script_if_tracing(fn); script_method(fn); interface(obj); _overload(func);"
        "_overload_method(func); _script_if_tracing(fn)": FIRST,
        "annotate(the_type, the_value)": Call(lambda module, given: given["the_value"]),
        "save(m, f, _extra_files=None)": Refusal(
            "jit.save(): programs of TorchScript cannot be written; keep the class, "
            "flambeau.save(module.state_dict(), path), and for a new module call "
            "load_state_dict(flambeau.load(path))"
        ),
        "load(f, map_location=None, _extra_files=None, _restore_shapes=False)": Refusal(
            "jit.load(): programs of TorchScript cannot be read; write state_dict() in PyTorch, "
            "and call load_state_dict(flambeau.load(path)) on a module of the class"
        ),
    },
    "jit._state": {"_enabled": types.SimpleNamespace(enabled=True)},
    "jit.script_types": {
        "class Type": object,
        "class AnyType; BoolType; ClassType; ComplexType; DeviceObjType; DictType; EnumType;"
        "FloatType; FutureType; IntType; InterfaceType; ListType; NoneType; NumberType;"
        "OptionalType; StringType; TensorType; TupleType; UnionType": "Type",
    },
    # Other private modules
    "_C": {
        "class Function; Graph; Node; Value": object,
        "_cuda_isInBadFork(); _is_tracing(); _jit_can_fuse_on_cpu(); _jit_can_fuse_on_gpu();"
        "_jit_set_nvfuser_enabled(enabled); _jit_set_profiling_executor(enabled);"
        "_jit_set_profiling_mode(enabled); _jit_set_texpr_fuser_enabled(enabled)": False,
        "_get_privateuse1_backend_name()": "privateuseone",
        "_is_alias_of(first, second)": Call(
            lambda module, given: given["first"]._cell is given["second"]._cell
        ),
        "_is_torch_function_mode_enabled()": Call(
            lambda module, given: bool(import_module("flambeau.core.support.modes").modes.functions)
        ),
        "_get_tracing_state(); _jit_override_can_fuse_on_cpu(enabled);"
        "_jit_override_can_fuse_on_gpu(enabled); _log_api_usage_once(*args)": None,
    },
    "_C._distributed_rpc": {"class PyRRef": object},
    "_C._functorch": {
        "is_batchedtensor(tensor); is_gradtrackingtensor(tensor)": False,
        "is_functorch_wrapped_tensor(tensor)": Call(
            lambda module, given: import_module("flambeau.core.values.inside").capture() is not None
        ),
        "get_unwrapped(tensor)": FIRST,
        "maybe_get_bdim(tensor); maybe_get_level(tensor)": -1,
        "_add_batch_dim(tensor, in_dim, vmap_level)": _ADDED,
        "_remove_batch_dim(tensor, vmap_level, batch_size, out_dim)": _REMOVED,
        "_vmap_increment_nesting(*args); _vmap_decrement_nesting(*args)": Refusal(
            "{function}(): call the function through flambeau.func.vmap"
        ),
    },
    "_functorch": {},
    "_functorch.vmap": {
        "from _C._functorch": "_add_batch_dim _remove_batch_dim",
        "from core.values.tensor": "Tensor",
        "from utils._pytree": "_broadcast_to_and_flatten tree_flatten tree_unflatten",
        "_get_name(func)": Call(
            lambda module, given: getattr(given["func"], "__name__", repr(given["func"]))
        ),
        "_maybe_remove_batch_dim(name, tensor, vmap_level, batch_size, out_dim)": _REMOVED,
    },
    "_custom_ops": {"from library": "get_ctx impl_abstract infer_schema"},
    "_jit_internal": {
        "from jit": "Final _overload _overload_method export ignore is_scripting unused",
        "from jit.annotations": "BroadcastingList1 BroadcastingList2 BroadcastingList3",
        "_copy_to_script_wrapper(fn)": FIRST,
    },
    "_subclasses": {"from _subclasses.fake_tensor": "FakeTensor FakeTensorMode"},
    "_subclasses.fake_tensor": {
        "class FakeTensor": object,
        "class FakeTensorMode": Refusal(
            'with flambeau.device("meta"): makes tensors that have a shape and a dtype only'
        ),
        "is_fake(x)": False,
        "_is_tensor_constructor(func)": False,
    },
    # Smaller modules
    "fx.experimental": {},
    "fx.experimental.proxy_tensor": {"get_proxy_mode()": None},
    "utils._python_dispatch": {
        "class TorchDispatchMode": {
            "__init__(_dispatch_key=None); __exit__(*exception)": None,
            "__enter__()": Refusal(
                "there is no dispatcher below functions: use flambeau.overrides.TorchFunctionMode, "
                "which sees functions, or utils.flop_counter and profiler, which see operators"
            ),
        },
        "is_traceable_wrapper_subclass(t); is_traceable_wrapper_subclass_type(t);"
        "is_in_torch_dispatch_mode(include_infra_modes=True)": False,
        "return_and_correct_aliasing(func, args, kwargs, out)": Refusal(
            "there is no dispatcher below functions: give the subclass a __torch_function__"
        ),
        "_disable_current_modes()": Call(lambda module, given: contextlib.nullcontext([])),
        "_get_current_dispatch_mode()": None,
        "_get_current_dispatch_mode_stack()": Call(lambda module, given: []),
    },
    "utils._triton": {"has_triton(); has_triton_package()": False},
    "utils.data._utils": {},
    "utils.data._utils.collate": {
        "from utils.data.collate": (
            "collate collate_float_fn=_collate_floats collate_int_fn=_collate_numbers "
            "collate_numpy_array_fn=_collate_arrays collate_str_fn=_collate_strings "
            "collate_tensor_fn=_collate_tensors default_collate default_collate_fn_map "
            "default_convert"
        ),
        # Dtypes that no tensor has: strings and objects.
        "np_str_obj_array_pattern": re.compile("[SaUO]"),
    },
    "utils.data._utils.pin_memory": {"from utils.data.collate": "pin_memory=_pin_memory"},
    "utils.data._utils.worker": {
        "from utils.data.workers": "WorkerInfo _generate_state get_worker_info"
    },
    "utils.deterministic": {"fill_uninitialized_memory": True},
    "utils.hooks": {"from core.support.handle": "RemovableHandle"},
    "utils.model_zoo": {"from hub": "load_url=load_state_dict_from_url tqdm"},
}
