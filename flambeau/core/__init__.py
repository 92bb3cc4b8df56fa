"""Values: cells, tensors, views, operators, the tape."""

import jax as _jax

# Indices are int64 and double() must mean it.
_jax.config.update("jax_enable_x64", True)
