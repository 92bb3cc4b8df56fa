"""Small things that PyTorch users look for under ``utils``."""

from typing import Any

from flambeau._absent import absent as _absent
from flambeau.utils import hooks as hooks


def __getattr__(name: str) -> Any:
    # Not every program uses them, and they need rooms that `hooks` does not.
    if name in ("_pytree", "checkpoint", "data", "dlpack", "model_zoo"):
        from importlib import import_module

        return import_module(f"flambeau.utils.{name}")
    raise _absent(__name__, name)
