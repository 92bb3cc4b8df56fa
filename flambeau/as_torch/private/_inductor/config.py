"""Settings of PyTorch's compiler, which are kept and change nothing."""

import sys as _sys
import types as _types

from flambeau.as_torch.private._settings import Settings as _Settings

conv_1x1_as_mm = False
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
cpp_wrapper = False
emulate_precision_casts = False
epilogue_fusion = True
force_disable_caches = False
freezing = False
fx_graph_cache = True
fx_graph_remote_cache = None
max_autotune = False
max_autotune_gemm = False
triton = _types.SimpleNamespace(cudagraphs=False, cudagraph_trees=True, unique_kernel_names=True)

_sys.modules[__name__].__class__ = _Settings
