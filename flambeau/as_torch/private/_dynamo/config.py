"""Settings of PyTorch's compiler, which are kept and change nothing."""

import sys as _sys

from flambeau.as_torch.private._settings import Settings as _Settings

accumulated_cache_size_limit = accumulated_recompile_limit = 256
allow_rnn = True
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = recompile_limit = 8
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
compiled_autograd = False
disable = False
dynamic_shapes = True
error_on_recompile = False
fail_on_recompile_limit_hit = False
force_parameter_static_shapes = True
inline_inbuilt_nn_modules = True
optimize_ddp = True
skip_fwd_side_effects_in_bwd_under_checkpoint = False
specialize_float = True
specialize_int = False
suppress_errors = False
verbose = False

_sys.modules[__name__].__class__ = _Settings
