"""What scripts ask about NVIDIA GPUs, under the names of `torch.cuda`.

JAX orders the work on a device and keeps its memory, so there are no streams, events or caches to
manage.
"""

from importlib import import_module as _import_module
from typing import Any

from flambeau._absent import absent as _absent
from flambeau.cuda import memory as memory
from flambeau.cuda import random as random
from flambeau.cuda.devices import *
from flambeau.cuda.memory import *
from flambeau.cuda.random import *


def __getattr__(name: str) -> Any:
    # Few programs use its older names.
    if name == "amp":
        return _import_module("flambeau.cuda.amp")
    raise _absent(__name__, name)
