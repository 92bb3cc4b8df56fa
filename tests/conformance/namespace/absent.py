"""Public names of PyTorch that flambeau does not have, by namespace and by reason."""

from __future__ import annotations

# What PyTorch's own files import for their own use stands in its namespaces too.
LEAK = "stands there because PyTorch's own code imports it"
STORAGE = "storages of tensors are seen through `UntypedStorage` and `TypedStorage`"
SPARSE = "of sparse layouts there are COO, CSR and CSC"
QUANTIZED = "there are no quantized tensors"
SCRIPT = "TorchScript's compiler and its types"
DISPATCH = "PyTorch's dispatcher, profiler and loader, seen from Python"
BACKEND = "one backend's kernel under its own name; the operator stands under the common one"
INTERNAL = "what operators give each other; undocumented"
REMOVED = "removed: PyTorch keeps a name that raises"
REMOVED_SOON = "announced to be removed: PyTorch keeps a name that warns"
SYMBOLIC = "sizes are Python integers, in compiled functions too"
AUTOCAST = "`flambeau.amp` and the functions that take a type of device do what these do"
DTYPE = "no operator computes with this dtype"
ROOM = "a room of PyTorch that flambeau does not have"
STREAMS = "JAX orders the work on a device itself"
MEMORY = "JAX keeps the memory of a device"
PROTOTYPE = "a prototype, or undocumented"
DISTRIBUTED = "arrays are spread over devices by JAX's sharding"
MESSAGE = "settings of PyTorch's warnings and errors"

TORCH = {
    STORAGE: """
        QInt32Storage QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage Storage
        StorageBase DeserializationStorageContext SerializationStorageContext from_file
    """,
    SPARSE: """
        ccol_indices_copy col_indices_copy crow_indices_copy dsmm hsmm hspmm indices_copy
        resize_as_sparse_ row_indices_copy saddmm smm sparse_bsc_tensor sparse_bsr_tensor
        sspaddmm values_copy
    """,
    QUANTIZED: """
        choose_qparams_optimized dequantize empty_quantized fake_quantize_per_channel_affine
        fake_quantize_per_tensor_affine fbgemm_linear_fp16_weight
        fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight
        fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight
        fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix
        fused_moving_avg_obs_fake_quant int_repr per_channel_affine
        per_channel_affine_float_qparams per_channel_symmetric per_tensor_affine
        per_tensor_symmetric q_per_channel_axis q_per_channel_scales q_per_channel_zero_points
        q_scale q_zero_point qscheme quantize_per_channel
        quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm quantized_gru
        quantized_gru_cell quantized_lstm quantized_lstm_cell quantized_max_pool1d
        quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell quantized_rnn_tanh_cell
    """,
    SCRIPT: """
        AliasDb Argument ArgumentSpec AwaitType Block BufferDict CallStack Capsule
        Code CompleteArgumentSpec ConcreteModuleType
        ConcreteModuleTypeBuilder DeepCopyMemoTable ErrorReport
        ExecutionPlan FileCheck FunctionSchema Gradient Graph
        GraphExecutorState IODescriptor InferredType JITException
        LiteScriptModule ModuleDict Node OperatorInfo ParameterDict
        PyObjectType RRefType ScriptClass ScriptClassFunction ScriptDict ScriptDictIterator
        ScriptDictKeyIterator ScriptList ScriptListIterator ScriptMethod
        ScriptModuleSerializer ScriptObject ScriptObjectProperty StaticModule
        StreamObjType SymBoolType SymIntType TracingState
        Use Value classes import_ir_module import_ir_module_from_buffer
        merge_type_from_type_comment parse_ir parse_schema parse_type_comment unify_type_list
    """,
    DISPATCH: """
        AVG AggregationType BenchmarkConfig BenchmarkExecutionStats DisableTorchFunction
        DisableTorchFunctionSubclass DispatchKey DispatchKeySet ExcludeDispatchKeyGuard
        LockingLogger LoggerBase NoopLogger PRIVATE_OPS PyTorchFileWriter SUM Tag
        ThroughputBenchmark USE_GLOBAL_DEPS USE_RTLD_GLOBAL_WITH_LIBTORCH compiled_with_cxx11_abi
        get_file_path has_lapack has_mkl has_openmp has_spectral init_num_threads
        is_vulkan_available prepare_multiprocessing_environment
        profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 set_anomaly_enabled thread_safe_generator
        classproperty
    """,
    BACKEND: """
        cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu
        cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler cudnn_is_acceptable
        miopen_batch_norm miopen_convolution miopen_convolution_add_relu miopen_convolution_relu
        miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution miopen_rnn
        mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights
        mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_rnn_layer
    """,
    INTERNAL: """
        batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt
        batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats
        batch_norm_update_stats conj_physical_ embedding_bag embedding_renorm_ is_distributed
        native_batch_norm native_channel_shuffle native_dropout
        native_group_norm native_layer_norm native_norm slice_inverse
    """,
    REMOVED: "eig lstsq matrix_rank solve symeig",
    SYMBOLIC: """
        sym_constrain_range sym_constrain_range_for_size sym_fresh_size
    """,
    AUTOCAST: """
        get_autocast_ipu_dtype get_autocast_xla_dtype is_autocast_ipu_enabled
        is_autocast_xla_enabled set_autocast_ipu_dtype set_autocast_ipu_enabled
        set_autocast_xla_dtype set_autocast_xla_enabled
    """,
    DTYPE: """
        bit bits16 bits1x8 bits2x4 bits4x2 bits8 float4_e2m1fn_x2 float8_e4m3fnuz
        float8_e5m2fnuz float8_e8m0fnu int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4
        uint5 uint6 uint7
    """,
    ROOM: """
        cpp monitor
        package torch_version
    """,
    MESSAGE: """
        AcceleratorError FatalError
    """,
    LEAK: "torch windows",
}

TENSOR = {
    STORAGE: "module_load",
    SPARSE: """
        resize_as_sparse_ smm sparse_resize_
        sparse_resize_and_clear_ sspaddmm to_padded_tensor to_sparse_bsc to_sparse_bsr
    """,
    QUANTIZED: """
        dequantize int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points
        q_scale q_zero_point qscheme
    """,
    REMOVED: "eig lstsq solve symeig name volatile reinforce",
    DISTRIBUTED: "is_distributed",
    INTERNAL: "index polygamma_ slice_inverse",
    BACKEND: "ipu mtia to_mkldnn xpu",
    "takes the new size out of place, which only the same number of elements allows": """
        resize resize_as
    """,
}

NN: dict[str, str] = {}

FUNCTIONAL = {
    LEAK: """
        BroadcastingList1 BroadcastingList2 BroadcastingList3 DType Tensor assert_int_or_pair
        boolean_dispatch
    """,
    "8-bit factors with scales in the layouts of one generation of GPUs": """
        ScalingType SwizzleType scaled_grouped_mm scaled_mm
    """,
}

AUTOGRAD = {
    DISPATCH: """
        DeviceType ProfilerActivity ProfilerConfig ProfilerEvent ProfilerState
        enforce_grad_layout_policy is_view_replay_enabled kineto_available
    """,
    REMOVED: "NestedIOFunction",
    INTERNAL: "SavedTensor",
    LEAK: "handle_torch_function has_torch_function is_tensor_like",
}


LR_SCHEDULER = {LEAK: "Optimizer Tensor"}

FUNC = {
    "removes mutations that JAX does not have": "functionalize",
    PROTOTYPE: "debug_unwrap",
}

SPECIAL = {
    LEAK: "Tensor",
    PROTOTYPE: """
        bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v
        chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l
        legendre_polynomial_p shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
        shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
    """,
    "has no gradient, and no use in a model": "airy_ai",
}

PARAMETRIZE = {
    LEAK: """
        ModuleList OpaqueBase get_swap_module_params_on_conversion is_opaque_reference_type
        is_traceable_wrapper_subclass
    """,
}

CUDA = {
    STORAGE: """
        BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage
        ComplexFloatStorage DoubleStorage FloatStorage HalfStorage IntStorage LongStorage
        ShortStorage
    """,
    MESSAGE: """
        AcceleratorError CudaError DeferredCudaCallError check_error cudaStatus
    """,
    STREAMS: """
        ExternalStream GreenContext get_stream_from_external get_sync_debug_mode graph_pool_handle
        set_sync_debug_mode
    """,
    MEMORY: """
        CUDAPluggableAllocator MemPool caching_allocator_alloc caching_allocator_delete
        caching_allocator_disabled caching_allocator_enable change_current_allocator
        get_allocator_backend get_per_process_memory_fraction host_memory_stats
        host_memory_stats_as_nested_dict
        memory_snapshot memory_stats_as_nested_dict
        reset_accumulated_host_memory_stats
        reset_peak_host_memory_stats
        set_per_process_memory_fraction use_mem_pool
    """,
    "nvidia-smi tells of it": """
        clock_rate device_memory_used list_gpu_processes memory_usage power_draw temperature
        utilization
    """,
    "libraries that XLA calls, and how PyTorch was built": """
        can_device_access_peer cudart current_blas_handle current_solver_handle get_arch_list
        get_gencode_flags has_half has_magma
    """,
    "a tensor's device is named where it is meant; random numbers have functions": """
        default_generators device_of
    """,
    LEAK: "classproperty",
}

ACCELERATOR = {
    STREAMS: "Graph",
    MEMORY: """
        empty_host_cache
    """,
    REMOVED_SOON: "current_device_idx set_device_idx",
    "XLA computes with every dtype on every device": "get_device_capability",
}

COMPILER = {
    "programs are never stale, and say themselves what they cannot be made of": """
        CacheInfo NestedCompileRegionOptions get_default_backend keep_portable_guards_unsafe
        keep_tensor_guards_unsafe load_cache_artifacts load_compiled_function
        save_cache_artifacts set_default_backend set_enable_guard_collectives
        skip_all_guards_unsafe skip_guard_on_all_nn_modules_unsafe skip_guard_on_globals_unsafe
        skip_guard_on_inbuilt_nn_modules_unsafe
    """,
    "NumPy arrays in a compiled function are a part of the program": "wrap_numpy",
    LEAK: "F",
}

JIT = {
    SCRIPT: """
        ONNXTracedModule RecursiveScriptClass export_opnames jit_module_from_flatbuffer
        last_executed_optimized_graph run_frozen_optimizations
        save_jit_module_to_flatbuffer
    """,
    LEAK: "set_module",
}

OVERRIDES = {
    INTERNAL: "enable_reentrant_dispatch redispatch_function",
    "lists of PyTorch's own functions, for its tests": """
        get_default_nowrap_functions get_ignored_functions get_overridable_functions
        get_testing_overrides
    """,
}

UTILS = {
    DISPATCH: """
        ThroughputBenchmark generate_methods_for_privateuse1_backend get_cpp_backtrace
        rename_privateuse1_backend
    """,
    "assigning `data` of both tensors exchanges their elements": "swap_tensors",
    LEAK: "set_module",
}

SERIALIZATION = {
    STORAGE: """
        StorageType default_restore_location location_tag normalize_storage_type
        register_package skip_data storage_to_tensor_type validate_cuda_device
        validate_hpu_device Storage
    """,
    "numbers that the format is made of": """
        INT_SIZE LONG_SIZE MAGIC_NUMBER PROTOCOL_VERSION SHORT_SIZE
    """,
    LEAK: "IS_WINDOWS T get_source_lines_and_file",
}

GRAPH = {
    STREAMS: "set_override_stale_capture_stream set_warn_on_accumulate_grad_stream_mismatch",
    PROTOTYPE: "region_activation_memory_budget",
    LEAK: "RemovableHandle TorchDispatchMode Variable",
}

#: By namespace, which names are absent and why.
ABSENT: dict[str, dict[str, str]] = {
    "": TORCH,
    "Tensor": TENSOR,
    "accelerator": ACCELERATOR,
    "amp": {},
    "autograd": AUTOGRAD,
    "autograd.forward_ad": {},
    "autograd.functional": {},
    "autograd.gradcheck": {},
    "autograd.graph": GRAPH,
    "backends": {},
    "backends.cpu": {},
    "backends.cuda": {
        "XLA chooses its libraries, and keeps their memory and their plans": """
            blas_workspace_size cuFFTPlanCache cuFFTPlanCacheAttrContextProp
            cuFFTPlanCacheManager cublas_workspace_size cublaslt_workspace_size cufft_plan_cache
            preferred_blas_library preferred_linalg_library preferred_rocm_fa_library
        """,
    },
    "backends.cudnn": {},
    "backends.cusparselt": {},
    "backends.kleidiai": {},
    "backends.mha": {},
    "backends.miopen": {},
    "backends.mkl": {},
    "backends.mkldnn": {},
    "backends.mps": {},
    "backends.nnpack": {LEAK: "ContextProp PropModule"},
    "backends.openmp": {},
    "backends.opt_einsum": {},
    "backends.quantized": {},
    "compiler": COMPILER,
    "cpu": {
        "tells of instructions, which XLA chooses": "get_capabilities",
        LEAK: "MappingProxyType",
    },
    "cuda": CUDA,
    "cuda.graphs": {STREAMS: "graph_pool_handle", LEAK: "Tensor"},
    "cuda.streams": {STREAMS: "ExternalStream"},
    "fft": {LEAK: "Tensor"},
    "functional": {
        LEAK: """
            boolean_dispatch handle_torch_function has_torch_function has_torch_function_unary
            has_torch_function_variadic overload Tensor
        """,
    },
    "fx": {},
    "func": FUNC,
    "futures": {LEAK: "S T"},
    "hub": {},
    "jit": JIT,
    "linalg": {},
    "multiprocessing": {},
    "multiprocessing.spawn": {},
    "nn": NN,
    "nn.attention.flex_attention": {
        "options of PyTorch's kernels": "FlexKernelOptions",
        LEAK: """
            GetAttrKey Tensor TreeSpec flex_attention_hop setup_compilation_env tree_flatten
            tree_map_only tree_unflatten
        """,
    },
    "nn.functional": FUNCTIONAL,
    "nn.init": {},
    "nn.modules": {},
    "nn.parallel": {
        DISTRIBUTED: "DistributedDataParallelCPU parallel_apply replicate",
    },
    "nn.parallel.scatter_gather": {INTERNAL: "Gather Scatter", LEAK: "T"},
    "nn.parameter": {},
    "nn.utils": {},
    "nn.utils.clip_grad": {},
    "nn.utils.convert_parameters": {},
    "nn.utils.parametrizations": {},
    "nn.utils.parametrize": PARAMETRIZE,
    "nn.utils.prune": {},
    "nn.utils.rnn": {INTERNAL: "PackedSequence_ bind", LEAK: "copy_method_params"},
    "nn.utils.stateless": {LEAK: "NamedMemberAccessor"},
    "onnx": {
        "there is no exporter to ONNX": """
            ExportableModule InputObserver JitScalarType select_model_mode_for_export
        """,
    },
    "optim": {},
    "optim.lr_scheduler": LR_SCHEDULER,
    "optim.swa_utils": {},
    "overrides": OVERRIDES,
    "serialization": SERIALIZATION,
    "random": {INTERNAL: "thread_safe_generator"},
    "signal.windows": {},
    "sparse": {
        SPARSE: """
            SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT
            SparseSemiStructuredTensorCUTLASS as_sparse_gradcheck check_sparse_tensor_invariants
            sampled_addmm spdiags spsolve to_sparse_semi_structured
        """,
        LEAK: "DType Tensor",
    },
    "special": SPECIAL,
    "testing": {SCRIPT: "FileCheck", REMOVED_SOON: "assert_allclose"},
    "types": {DISPATCH: "DispatchKey", STORAGE: "Storage"},
    "utils": UTILS,
    "utils.data": {
        "a pipe is an IterableDataset that goes through another": """
            DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation
            functional_datapipe guaranteed_datapipes_determinism non_deterministic
            runtime_validation runtime_validation_disabled
        """,
    },
    "utils.data.distributed": {LEAK: "Dataset"},
    "utils.data.sampler": {},
    "utils.model_zoo": {},
    "utils.dlpack": {PROTOTYPE: "DLDeviceType"},
}

#: Names of flambeau's own, where PyTorch has none.
OWN = {
    "": """
        CompileError alias as_torch assertions checkpoint core device_modules from_jax
        install_as_torch numerics ops profile rare return_types shard streams summary
        threads uninstall_as_torch
    """,
    # In-place forms of functions, which PyTorch has in `nn.functional` only; and the members of
    # PyTorch's DTensor, which here is any tensor that lies on a mesh.
    "Tensor": """
        celu_ device_mesh full_tensor jax placements redistribute selu_ threshold_ to_local
    """,
}
