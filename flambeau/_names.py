"""PyTorch's names that are resolved on first use: their modules, or the advice for missing ones.

`_lazy` imports the existing names; `_absent` raises the advice for the missing ones.
"""

from __future__ import annotations

#: Modules of `flambeau` that are imported on first use.
MODULES = """
    __config__ accelerator amp ao backends compiler cpu cuda distributed distributions export fft
    functional futures fx hub jit library masked mps mtia multiprocessing nested onnx profiler
    quantization quasirandom serialization signal sparse special storage testing types xpu
"""

#: Rarely used names, by the module of `flambeau` that defines them. A leading dot marks a method of
#: Tensor; a name that is both a function and a method is listed twice.
HOMES = {
    "_storage_methods": ".const_data_ptr .is_set_to .set_ .storage .storage_type .untyped_storage",
    "amp.autocast_mode": """
        autocast get_autocast_dtype is_autocast_cache_enabled is_autocast_enabled
        set_autocast_cache_enabled set_autocast_dtype set_autocast_enabled
    """,
    "amp.grad_scaler": "GradScaler",
    "as_torch": "install_as_torch uninstall_as_torch",
    "assertions": """
        _assert _assert_async _check _check_index _check_is_size _check_not_implemented
        _check_tensor_all _check_tensor_all_with _check_type _check_value _check_with
    """,
    "autograd.anomaly_mode": "is_anomaly_check_nan_enabled is_anomaly_enabled",
    "checkpoint.file_reader": "PyTorchFileReader",
    "core.devices.exhaustion": "OutOfMemoryError",
    "core.support.warning": "is_warn_always_enabled set_warn_always",
    "device_modules": "get_device_module",
    "distributed.sharding": "shard",
    "func.control_flow": "cond while_loop",
    "futures": "Future",
    "jit": "fork wait",
    "jit.script_module": "CompilationUnit ScriptFunction ScriptModule",
    "jit.script_types": """
        AnyType BoolType ClassType ComplexType DeviceObjType DictType EnumType FloatType FutureType
        IntType InterfaceType ListType NoneType NumberType OptionalType StringType TensorType
        TupleType Type UnionType
    """,
    "numerics": """
        are_deterministic_algorithms_enabled get_deterministic_debug_mode
        get_float32_matmul_precision is_deterministic_algorithms_warn_only_enabled
        set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal
        use_deterministic_algorithms
    """,
    "ops.draws.rejection_draws": "_sample_dirichlet _standard_gamma binomial",
    "ops.signals.short_time_fourier": "istft stft .istft .stft",
    "ops.signals.window_functions": """
        bartlett_window blackman_window hamming_window hann_window kaiser_window
    """,
    "profiler.by_module": "profile",
    "profiler.summary": "summary",
    "rare.autocast_names": """
        autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache
        get_autocast_cpu_dtype get_autocast_gpu_dtype is_autocast_cpu_enabled
        set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_gpu_dtype
    """,
    "rare.buffers": "frombuffer .apply_ .map2_ .map_",
    "rare.coordinates": "unravel_index",
    "rare.copies": """
        alias_copy as_strided_copy detach_copy diagonal_copy expand_copy narrow_copy
        permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy
        t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy view_as_complex_copy
        view_as_real_copy view_copy .narrow_copy
    """,
    "rare.few_eigenpairs": "lobpcg",
    "rare.finite_differences": "gradient",
    "rare.functional_forms": """
        adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout alpha_dropout_ batch_norm
        binary_cross_entropy_with_logits celu_ convolution cosine_embedding_loss ctc_loss
        dropout dropout_ embedding feature_alpha_dropout feature_alpha_dropout_
        feature_dropout feature_dropout_ grid_sampler grid_sampler_2d grid_sampler_3d
        group_norm hinge_embedding_loss instance_norm kl_div layer_norm margin_ranking_loss
        max_pool1d_with_indices poisson_nll_loss rrelu rrelu_ selu_ threshold_
        triplet_margin_loss
    """,
    "rare.hashing": "hash_tensor .hash_tensor",
    "rare.histograms": "histogram histogramdd .histogram",
    "rare.older_factorizations": """
        geqrf lu lu_solve lu_unpack orgqr ormqr pca_lowrank svd_lowrank .geqrf .lu .lu_solve
        .orgqr .ormqr
    """,
    "rare.older_names": """
        _shape_as_tensor fill frobenius_norm norm_except_dim nuclear_norm range
        set_default_tensor_type to_dlpack typename unsafe_split_with_sizes
        .unsafe_split_with_sizes
    """,
    "rare.resizing": """
        as_strided_ as_strided_scatter empty_permuted empty_strided resize_as_ .as_strided_
        .as_strided_scatter .new .new_empty_strided .resize_ .resize_as_
    """,
    "rare.segments": "segment_reduce",
    "rare.symbolic": """
        SymBool SymFloat SymInt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt
        sym_sum
    """,
    "sparse.compressed": "sparse_compressed_tensor sparse_csc_tensor sparse_csr_tensor",
    "sparse.creation": "sparse_coo_tensor",
    "sparse.methods": """
        ._indices ._nnz ._values .ccol_indices .coalesce .col_indices .crow_indices .dense_dim
        .indices .is_coalesced .row_indices .sparse_dim .sparse_mask .to_sparse .to_sparse_coo
        .to_sparse_csc .to_sparse_csr .values
    """,
    "sparse.products": "spmm",
    "storage": """
        BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage
        ComplexFloatStorage DoubleStorage FloatStorage HalfStorage IntStorage LongStorage
        ShortStorage TypedStorage UntypedStorage is_storage
    """,
    "streams": "Event Stream",
    "threads": "get_num_interop_threads get_num_threads set_num_interop_threads set_num_threads",
}

#: Methods of Tensor that are functions too.
IN_PLACE = """
    abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_
    atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ cos_ cosh_ deg2rad_ detach_ erf_ erfc_
    exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ lcm_ ldexp_ log10_ log1p_ log2_ log_
    logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ round_ rsqrt_ sigmoid_ sin_
    sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_
"""

#: Advice, followed by the missing names that it applies to, without the leading `torch.`.
ADVICE = {
    # Numbers and their types
    "there are no quantized tensors; .to(flambeau.bfloat16) halves the memory of a model": """
        ao.ns ao.pruning ao.quantization.QConfig ao.quantization.QConfigMapping
        ao.quantization.convert ao.quantization.default_observer ao.quantization.default_qconfig
        ao.quantization.default_weight_observer ao.quantization.fuse_modules
        ao.quantization.fuse_modules_qat ao.quantization.get_default_qat_qconfig
        ao.quantization.get_default_qconfig ao.quantization.prepare ao.quantization.prepare_qat
        ao.quantization.quantize ao.quantization.quantize_dynamic ao.quantization.quantize_qat
        quantization.QConfig quantization.convert
        quantization.default_observer quantization.default_qconfig
        quantization.default_weight_observer quantization.fuse_modules
        quantization.get_default_qat_qconfig
        quantization.get_default_qconfig quantization.prepare quantization.prepare_qat
        quantization.quantize quantization.quantize_dynamic quantization.quantize_qat
        dequantize fake_quantize_per_channel_affine
        fake_quantize_per_tensor_affine nn.intrinsic nn.qat nn.quantizable nn.quantized.Linear
        nn.quantized.QFunctional per_channel_affine per_channel_affine_float_qparams
        per_channel_symmetric per_tensor_affine per_tensor_symmetric qscheme
        quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm
        quantized_max_pool1d quantized_max_pool2d
    """,
    "scales are applied by multiplication; convert to flambeau.bfloat16, multiply by the scales, "
    "and call flambeau.matmul or nn.functional.grouped_mm": """
        nn.functional.ScalingType nn.functional.SwizzleType nn.functional.scaled_grouped_mm
        nn.functional.scaled_mm
    """,
    "the floats of 8 bits are flambeau.float8_e4m3fn and flambeau.float8_e5m2": """
        float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu
    """,
    # Kinds of tensors
    "the sparse layouts are those of flambeau.sparse_coo_tensor, flambeau.sparse_csr_tensor and "
    "flambeau.sparse_csc_tensor, which have to_dense(), and products with dense matrices by @": """
        dsmm hsmm hspmm saddmm smm sparse_bsc_tensor sparse_bsr_tensor sspaddmm
        sparse.sampled_addmm sparse.spdiags sparse.spsolve
    """,
    "use the storages of flambeau itself, such as flambeau.FloatStorage": """
        Storage cuda.BFloat16Storage cuda.BoolStorage
        cuda.ByteStorage cuda.CharStorage cuda.ComplexDoubleStorage cuda.ComplexFloatStorage
        cuda.DoubleStorage cuda.FloatStorage cuda.HalfStorage cuda.IntStorage cuda.LongStorage
        cuda.ShortStorage
    """,
    "a tensor cannot be a file; read it with flambeau.from_numpy(numpy.fromfile(path, dtype))": """
        from_file
    """,
    # Functions
    "PyTorch has removed it; use flambeau.linalg.eig": "eig",
    "PyTorch has removed it; use flambeau.linalg.eigh": "symeig",
    "PyTorch has removed it; use flambeau.linalg.lstsq": "lstsq",
    "PyTorch has removed it; use flambeau.linalg.matrix_rank": "matrix_rank",
    "PyTorch has removed it; use flambeau.linalg.solve": "solve",
    "use flambeau.nn.functional.embedding_bag": "embedding_bag",
    "for NumPy arrays, scipy.special has y0, y1, airy, eval_chebyt, eval_chebyu, eval_hermite, "
    "eval_hermitenorm, eval_laguerre, eval_legendre, eval_sh_chebyt and eval_sh_chebyu": """
        special.airy_ai special.bessel_y0 special.bessel_y1 special.chebyshev_polynomial_t
        special.chebyshev_polynomial_u special.hermite_polynomial_h special.hermite_polynomial_he
        special.laguerre_polynomial_l special.legendre_polynomial_p
        special.shifted_chebyshev_polynomial_t special.shifted_chebyshev_polynomial_u
    """,
    "use flambeau.testing.assert_close(actual, expected, check_dtype=False)": """
        testing.assert_allclose
    """,
    # Gradients
    "functions may write in place to what they make; transform them as they are": """
        func.functionalize
    """,
    "flambeau.autograd.grad gives the gradients of a convolution": "nn.grad",
    # Programs
    "code is not saved; keep the class, flambeau.save(module.state_dict(), path), and for a new "
    "module call load_state_dict(flambeau.load(path))": "package",
    "flambeau.compile needs no settings, and its programs are never stale; leave it out": """
        _dynamo _inductor compiler.config compiler.get_default_backend
        compiler.set_default_backend
    """,
    "compiled programs are kept on disk between runs in any case; leave it out": """
        compiler.load_cache_artifacts compiler.save_cache_artifacts
    """,
    # Data and files
    "a pipe is a flambeau.utils.data.IterableDataset whose __iter__ goes through another one": """
        utils.data.DFIterDataPipe utils.data.DataChunk utils.data.IterDataPipe
        utils.data.MapDataPipe utils.data.argument_validation utils.data.datapipes
        utils.data.functional_datapipe utils.data.graph utils.data.graph_settings
        utils.data.guaranteed_datapipes_determinism utils.data.non_deterministic
        utils.data.runtime_validation utils.data.runtime_validation_disabled
    """,
    "flambeau.save and flambeau.load write and read whole tensors; a function for map_location= "
    "chooses devices": """
        serialization.StorageType serialization.default_restore_location
        serialization.location_tag serialization.normalize_storage_type
        serialization.register_package serialization.skip_data
        serialization.storage_to_tensor_type serialization.validate_cuda_device
        serialization.validate_hpu_device
    """,
    # Devices
    "one process may own several devices, and XLA communicates between them: place a model by "
    "flambeau.shard(model, mesh, rules), and tensors by distributed.tensor.distribute_tensor": """
        cuda.comm cuda.nccl distributed.nn.reduce distributed.nn.broadcast
        distributed.optim.DistributedOptimizer distributed.optim.PostLocalSGDOptimizer
        distributed.pipelining distributed.rpc.init_rpc
        distributed.rpc.rpc_async distributed.rpc.rpc_sync distributed.rpc.shutdown
    """,
    'devices are JAX\'s: "cpu", "cuda" and "tpu"; flambeau.accelerator asks which there is': """
        mps.empty_cache mps.synchronize mtia.synchronize xpu.current_device xpu.device
        xpu.empty_cache xpu.get_device_name xpu.set_device xpu.synchronize
    """,
    'name the device where it is meant, as device="cuda:1"; without a number it is the first': """
        cuda.device_of
    """,
    "use flambeau.accelerator.current_device_index": "accelerator.current_device_idx",
    "use flambeau.accelerator.set_device_index": "accelerator.set_device_idx",
    "XLA chooses its libraries itself; leave it out": """
        backends.cuda.blas_workspace_size backends.cuda.cublas_workspace_size
        backends.cuda.cublaslt_workspace_size backends.cuda.cufft_plan_cache
        backends.cuda.preferred_blas_library backends.cuda.preferred_linalg_library
        backends.cuda.preferred_rocm_fa_library
    """,
    "JAX orders the work on a device itself, in one stream": "cuda.ExternalStream",
    "flambeau.compile makes one program of a whole step": """
        accelerator.Graph cuda.graph_pool_handle
    """,
    "JAX keeps the memory: jax.local_devices()[0].memory_stats() tells of that of a GPU, and "
    "XLA_PYTHON_CLIENT_MEM_FRACTION in the environment limits it": """
        cuda.CUDAPluggableAllocator cuda.MemPool
        cuda.caching_allocator_alloc cuda.caching_allocator_delete cuda.change_current_allocator
        cuda.get_allocator_backend cuda.get_per_process_memory_fraction
        cuda.memory_snapshot cuda.set_per_process_memory_fraction cuda.use_mem_pool
    """,
    "nvidia-smi tells of the GPU itself": """
        cuda.clock_rate cuda.device_memory_used cuda.list_gpu_processes cuda.memory_usage
        cuda.power_draw cuda.temperature cuda.utilization
    """,
    "errors of a device are jax.errors.JaxRuntimeError": "cuda.CudaError",
    # Measuring
    "jax.profiler.trace(folder) records what runs in its block, and "
    "jax.profiler.TraceAnnotation(name) names a part": """
        cuda.profiler
        profiler.ExecutionTraceObserver profiler.itt
    """,
}
