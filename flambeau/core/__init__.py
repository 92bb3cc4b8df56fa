"""Values, operators and the tape: the parts of eager code.

Promise: nothing here knows a module, an optimizer or a file. Imports no other folder of flambeau.

The folders, from the lowest to the highest; each imports those above it in this list only:

- `support`: state of the process and the thread, dtypes, errors, and every private name of JAX.
- `interpreter`: the first gear, functions of arrays evaluated with NumPy.
- `devices`: devices and meshes, their memory, and the machine that programs are compiled for.
- `programs`: the second gear, functions of arrays as compiled programs, in memory and on disk.
- `fusion`: the third gear, sequences of calls that run as one program.
- `kernels`: pure functions of arrays with their gradients and tangents, and type promotion.
- `values`: Cells, Tensors and their views, and the traces that follow them.
- `tape`: nodes, hooks, and the engine that runs them backwards.
- `operators`: the declaration of operators, and the one path that every call of one takes.

`types.py` has names of types for the signatures in all of them.
"""

import jax as _jax

from flambeau.core.devices import collector as _collector
from flambeau.core.support.jax_private import is_started as _is_started
from flambeau.core.support.warning import warn as _warn

_collector.adapt()

if _is_started() and not _jax.config.values["jax_enable_x64"]:
    _warn(
        "flambeau switches on JAX's 64-bit types, and JAX has been used before: from now on "
        "jnp.zeros(3) is float64, and jnp.arange(3) int64. Import flambeau first, or set "
        "JAX_ENABLE_X64=1, and pass a dtype where it matters"
    )
# Indices are int64 and double() must mean it. JAX would cut the values of 64-bit arrays otherwise.
_jax.config.update("jax_enable_x64", True)
