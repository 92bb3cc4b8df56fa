"""Names of the public namespace that are imported when they are first asked for.

Few programs use them, and importing them takes time that every program would pay.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

_MODULES = ("fft", "special")
_FUNCTIONS = {
    "flambeau.ops.short_time_fourier": "istft stft",
    "flambeau.ops.window_functions": (
        "bartlett_window blackman_window hamming_window hann_window kaiser_window"
    ),
}
_HOMES = {name: home for home, names in _FUNCTIONS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """The attribute ``name`` of `flambeau`, from the module that has it."""
    if name in _MODULES:
        return import_module(f"flambeau.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'flambeau' has no attribute '{name}'")
    found = getattr(import_module(home), name)
    setattr(sys.modules["flambeau"], name, found)
    return found


def __dir__() -> list[str]:
    """The names of `flambeau`, those not imported yet included."""
    return sorted({*vars(sys.modules["flambeau"]), *_MODULES, *_HOMES})
