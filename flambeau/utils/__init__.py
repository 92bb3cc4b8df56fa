"""Small utilities of PyTorch's ``utils``."""

from typing import Any

from flambeau._absent import absent as _absent

_MODULES = (
    "_pytree", "_python_dispatch", "benchmark", "checkpoint", "collect_env", "cpp_extension",
    "data", "deterministic", "dlpack", "flop_counter", "hooks", "model_zoo",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    # Imported on first use: not every program needs them, and they depend on higher layers.
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"flambeau.utils.{name}")
    raise _absent(__name__, name)
