"""Values: cells, tensors, views, operators, the tape."""

import os as _os

import jax as _jax

from flambeau.core import cache as _cache

# Indices are int64 and double() must mean it.
_jax.config.update("jax_enable_x64", True)
# Most kernels of an eager step run for a few microseconds: handing them to another thread, and
# waiting for it, takes longer than running them.
if "JAX_CPU_ENABLE_ASYNC_DISPATCH" not in _os.environ:
    _jax.config.update("jax_cpu_enable_async_dispatch", False)
_cache.enable()
