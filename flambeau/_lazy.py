"""Names of the public namespace that are imported when they are first asked for.

Few programs use them, and importing them takes time that every program would pay.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from flambeau._absent import absent

_MODULES = (
    "__config__", "accelerator", "amp", "ao", "backends", "compiler", "cpu", "cuda", "distributed",
    "distributions", "fft", "functional", "futures", "fx", "hub", "jit", "library",
    "mps", "mtia", "multiprocessing", "onnx", "profiler", "quantization", "serialization",
    "signal", "sparse", "special", "storage", "testing", "types", "xpu",
)  # fmt: skip
# Functions, by the module of `flambeau` that has them.
_FUNCTIONS = {
    "amp.autocast_mode": (
        "autocast get_autocast_dtype is_autocast_cache_enabled is_autocast_enabled "
        "set_autocast_cache_enabled set_autocast_dtype set_autocast_enabled"
    ),
    "amp.grad_scaler": "GradScaler",
    "amp.older_names": (
        "autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache "
        "get_autocast_cpu_dtype get_autocast_gpu_dtype is_autocast_cpu_enabled "
        "set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_gpu_dtype"
    ),
    "assertions": (
        "_assert _assert_async _check _check_index _check_is_size _check_not_implemented "
        "_check_tensor_all _check_tensor_all_with _check_type _check_value _check_with"
    ),
    "as_torch": "install_as_torch uninstall_as_torch",
    "autograd.anomaly_mode": "is_anomaly_check_nan_enabled is_anomaly_enabled",
    "checkpoint.file_reader": "PyTorchFileReader",
    "device_modules": "get_device_module",
    "futures": "Future",
    "jit": "fork wait",
    "jit.script_module": "CompilationUnit ScriptFunction ScriptModule",
    "functional_forms": (
        "adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout alpha_dropout_ batch_norm "
        "binary_cross_entropy_with_logits celu_ convolution cosine_embedding_loss ctc_loss dropout "
        "dropout_ embedding feature_alpha_dropout feature_alpha_dropout_ feature_dropout "
        "feature_dropout_ grid_sampler grid_sampler_2d grid_sampler_3d group_norm "
        "hinge_embedding_loss instance_norm kl_div layer_norm margin_ranking_loss "
        "max_pool1d_with_indices poisson_nll_loss rrelu rrelu_ selu_ threshold_ triplet_margin_loss"
    ),
    "symbolic": (
        "SymBool SymFloat SymInt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum"
    ),
    "numerics": (
        "are_deterministic_algorithms_enabled get_deterministic_debug_mode "
        "get_float32_matmul_precision is_deterministic_algorithms_warn_only_enabled "
        "set_deterministic_debug_mode set_flush_denormal set_float32_matmul_precision "
        "use_deterministic_algorithms"
    ),
    "sparse.creation": "sparse_coo_tensor",
    "sparse.products": "spmm",
    "storage": (
        "BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage "
        "ComplexFloatStorage DoubleStorage FloatStorage HalfStorage IntStorage LongStorage "
        "ShortStorage TypedStorage UntypedStorage is_storage"
    ),
    "streams": "Event Stream",
    "threads": ("get_num_interop_threads get_num_threads set_num_interop_threads set_num_threads"),
    "ops.buffers": "frombuffer",
    "ops.coordinates": "unravel_index",
    "ops.copies": (
        "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy narrow_copy permute_copy "
        "select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy "
        "transpose_copy unbind_copy unfold_copy unsqueeze_copy view_as_complex_copy "
        "view_as_real_copy view_copy"
    ),
    "ops.finite_differences": "gradient",
    "ops.hashing": "hash_tensor",
    "ops.histograms": "histogram histogramdd",
    "ops.matrices.older_factorizations": (
        "geqrf lu lu_solve lu_unpack orgqr ormqr pca_lowrank svd_lowrank"
    ),
    "ops.older_names": (
        "_shape_as_tensor fill frobenius_norm norm_except_dim nuclear_norm range "
        "set_default_tensor_type to_dlpack typename unsafe_split_with_sizes"
    ),
    "ops.rejection_draws": "_sample_dirichlet _standard_gamma binomial",
    "ops.resizing": "as_strided_ as_strided_scatter empty_permuted empty_strided resize_as_",
    "ops.signals.short_time_fourier": "istft stft",
    "ops.signals.window_functions": (
        "bartlett_window blackman_window hamming_window hann_window kaiser_window"
    ),
}
_HOMES = {name: home for home, names in _FUNCTIONS.items() for name in names.split()}
# Methods of Tensor that are functions too.
_IN_PLACE = (
    "abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_ "
    "atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ cos_ cosh_ deg2rad_ detach_ erf_ erfc_ "
    "exp2_ exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ lcm_ ldexp_ log10_ log1p_ log2_ log_ "
    "logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_ round_ rsqrt_ sigmoid_ sin_ "
    "sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_"
)
_METHODS = frozenset(_IN_PLACE.split())


def __getattr__(name: str) -> Any:
    """The attribute ``name`` of `flambeau`, from the module that has it."""
    if name in _MODULES:
        return import_module(f"flambeau.{name}")
    if name in _HOMES:
        found = getattr(import_module(f"flambeau.{_HOMES[name]}"), name)
    elif name in _METHODS:
        found = getattr(import_module("flambeau.core.tensor").Tensor, name)
    elif name.startswith("_foreach_"):
        found = import_module("flambeau.ops.foreach").foreach(name.removeprefix("_foreach_"))
    else:
        raise absent("flambeau", name)
    setattr(sys.modules["flambeau"], name, found)
    return found


def __dir__() -> list[str]:
    """The names of `flambeau`, those not imported yet included."""
    return sorted({*vars(sys.modules["flambeau"]), *_MODULES, *_HOMES, *_METHODS})
