"""Modules, layers and their building blocks.

Promise: a module is a registry and a call, as PyTorch documents it. Nothing here imports JAX. May
import `core`, `ops`, `autograd`, `compile`, `sparse` and `return_types`.

`Module` (`module.py`) intercepts assignment and has its parts in other files:

- `registry.py`: parameters, buffers, submodules and hooks, in tables that announce every change;
- `calling.py`: `forward` and the hooks around it. One check finds that a call has no hooks;
- `traversal.py`: the members of a tree; `conversion.py`: changing it in place (`to`, `_apply`);
- `state_dict.py`, `loading.py`, `snapshot.py`: saving, and loading all or nothing;
- `deferred.py`: `materialize` runs the plans that Cells on the meta device carry, one tensor at a
  time.

Layers are in `modules`, their functions in `functional`. `attention/flex_attention.py` re-exports a
part of `func`, at the path that PyTorch has fixed.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from flambeau._absent import absent as _absent
from flambeau.nn import attention as attention
from flambeau.nn import compiled as _compiled  # noqa: F401 (tells `compile` what a module is)
from flambeau.nn import functional as functional
from flambeau.nn import init as init
from flambeau.nn import modules as modules
from flambeau.nn import utils as utils
from flambeau.nn.modules import *
from flambeau.nn.modules.utils import factory_kwargs as factory_kwargs
from flambeau.nn.parameter import Buffer as Buffer
from flambeau.nn.parameter import Parameter as Parameter
from flambeau.nn.parameter import UninitializedBuffer as UninitializedBuffer
from flambeau.nn.parameter import UninitializedParameter as UninitializedParameter


def __getattr__(name: str) -> _Any:
    # Imported on first use: few programs need them.
    if name in ("parallel", "quantized"):
        return _import_module(f"flambeau.nn.{name}")
    if name == "DataParallel":
        return _import_module("flambeau.nn.parallel").DataParallel
    raise _absent(__name__, name)
