"""What an example takes for granted, and what it may leave behind."""

from __future__ import annotations

import builtins
import importlib
import io
import itertools
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

#: What a library has been told, as pairs of the function that says it and the one that changes it.
SETTINGS = [
    ("get_default_dtype", "set_default_dtype"),
    ("is_grad_enabled", "set_grad_enabled"),
    ("get_num_threads", "set_num_threads"),
    ("get_float32_matmul_precision", "set_float32_matmul_precision"),
    ("get_deterministic_debug_mode", "set_deterministic_debug_mode"),
    ("is_anomaly_enabled", "autograd.set_detect_anomaly"),
    ("get_rng_state", "set_rng_state"),
]


def names(lib: Any, path: str) -> dict[str, Any]:
    """The names that examples use without having made them, made with a library.

    Args:
        lib: PyTorch or flambeau.
        path: The namespace that the examples stand in, whose own names are there as they are.
    """
    lib.manual_seed(0)
    nn = lib.nn
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
    batches = [(lib.randn(5, 3), lib.randn(5, 2))]
    return {
        **_own_names(lib, path),
        "__name__": "examples",
        lib.__name__: lib,
        "Tensor": lib.Tensor,
        "nn": nn,
        "F": nn.functional,
        "linalg": lib.linalg,
        "prune": importlib.import_module(f"{lib.__name__}.nn.utils.prune"),
        "np": np,
        "numpy": np,
        "math": math,
        "io": io,
        "itertools": itertools,
        "model": model,
        "net": model,
        "module": model,
        "optimizer": lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        "input": batches[0][0],
        "target": batches[0][1],
        "loss_fn": nn.MSELoss(),
        "loader": batches,
        "dataloader": batches,
        "dataset": batches,
        "num_epochs": 3,
        "train": lambda *args: None,
        "train_batch": lambda *args: None,
        "validate": lambda *args: 1.0,
    }


def _own_names(lib: Any, path: str) -> dict[str, Any]:
    if path in ("", "Tensor", "nn"):
        return {}
    room = importlib.import_module(f"{lib.__name__}.{path}")
    return {
        name: getattr(room, name)
        for name in dir(room)
        if not name.startswith("_") and not hasattr(builtins, name)
    }


@contextmanager
def settings_kept(lib: Any) -> Iterator[None]:
    """Set back, at the end, what may have been set in the block."""
    before = [(_find(lib, change), _find(lib, say)()) for say, change in SETTINGS]
    try:
        yield
    finally:
        lib.set_default_device(None)
        lib.set_flush_denormal(False)
        lib.set_printoptions(profile="default")
        for change, value in before:
            change(value)


class Chance:
    """Python's and NumPy's random numbers, from a seed, as only one of two readers draws them."""

    def __init__(self) -> None:
        self._states = random.Random(0).getstate(), np.random.RandomState(0).get_state()

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Within the block the numbers go on where the last block ended."""
        others = _states()
        _set_states(self._states)
        try:
            yield
        finally:
            self._states = _states()
            _set_states(others)


def _states() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()  # noqa: NPY002 - examples use it


def _set_states(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002 - examples use it


def _find(lib: Any, path: str) -> Any:
    for part in path.split("."):
        lib = getattr(lib, part)
    return lib
