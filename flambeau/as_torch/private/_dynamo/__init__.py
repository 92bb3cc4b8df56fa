"""`torch._dynamo`: hints for PyTorch's compiler, which need not be given here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau.as_torch.private._dynamo import config as config
from flambeau.as_torch.private._dynamo import decorators as decorators
from flambeau.as_torch.private._dynamo import eval_frame as eval_frame
from flambeau.as_torch.private._dynamo import exc as exc
from flambeau.as_torch.private._dynamo import utils as utils
from flambeau.as_torch.private._dynamo.decorators import *
from flambeau.as_torch.private._dynamo.eval_frame import OptimizedModule as OptimizedModule
from flambeau.compile import compile
from flambeau.compiler import disable as disable
from flambeau.compiler import is_compiling as is_compiling
from flambeau.compiler import list_backends as list_backends
from flambeau.compiler import reset as reset
from flambeau.compiler import substitute_in_graph as substitute_in_graph

__getattr__ = _Absent("flambeau._dynamo")


def optimize(*args: Any, **kwargs: Any) -> Callable[..., Any]:
    """An older `compile`: a decorator."""
    return compile


def run(fn: Any = None) -> Any:
    """The function as it is."""
    return fn


def is_dynamo_supported() -> bool:
    """``True``: functions can be compiled."""
    return True


def is_inductor_supported() -> bool:
    """``True``: functions can be compiled."""
    return True


def reset_code_caches() -> None:
    """Nothing: no program is ever stale."""
