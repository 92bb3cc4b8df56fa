"""Small things that PyTorch users look for under ``utils``."""

from typing import Any

from flambeau._absent import absent as _absent
from flambeau.utils import hooks as hooks

_MODULES = (
    "_pytree", "_python_dispatch", "benchmark", "checkpoint", "collect_env", "cpp_extension",
    "data", "deterministic", "dlpack", "flop_counter", "model_zoo",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    # Not every program uses them, and they need rooms that `hooks` does not.
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"flambeau.utils.{name}")
    raise _absent(__name__, name)
