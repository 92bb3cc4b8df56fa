"""Making a call that PyTorch refuses, with PyTorch and with flambeau, and what came of it.

A table is text: an expression a line. ``<a|b>`` in a line stands for two expressions, and a name
such as ``matrix`` for an operand that each expression gets for itself.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

#: What names stand for in an expression.
OPERANDS: dict[str, Callable[[Any], Any]] = {
    "scalar": lambda lib: lib.tensor(2.0),
    "vector": lambda lib: lib.tensor([1.0, 2.0, 3.0]),
    "vector4": lambda lib: lib.tensor([1.0, 2.0, 3.0, 4.0]),
    "matrix": lambda lib: lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    "square": lambda lib: lib.tensor([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]]),
    "cube": lambda lib: lib.tensor(np.arange(24, dtype=np.float32).reshape(2, 3, 4)),
    "images": lambda lib: lib.tensor(np.arange(96, dtype=np.float32).reshape(2, 3, 4, 4)),
    "volumes": lambda lib: lib.tensor(np.ones((1, 2, 3, 3, 3), np.float32)),
    "double": lambda lib: lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64),
    "half": lambda lib: lib.tensor([1.0, 2.0, 3.0], dtype=lib.float16),
    "complex": lambda lib: lib.tensor([1.0 + 1.0j, 2.0, 3.0j]),
    "complex_matrix": lambda lib: lib.tensor([[1.0 + 1.0j, 2.0], [0.5, 3.0j]]),
    "indices": lambda lib: lib.tensor([0, 1, 2]),
    "index_matrix": lambda lib: lib.tensor([[0, 1, 2], [2, 1, 0]]),
    "ints": lambda lib: lib.tensor([1, 2, 3], dtype=lib.int32),
    "mask": lambda lib: lib.tensor([True, False, True]),
    "mask_matrix": lambda lib: lib.tensor([[True, False, True], [False, False, True]]),
    "empty": lambda lib: lib.tensor([]),
    "empty_matrix": lambda lib: lib.zeros(0, 3),
    "nans": lambda lib: lib.tensor([float("nan"), 1.0, 2.0]),
    "nan_matrix": lambda lib: lib.full((3, 3), float("nan")),
    "leaf": lambda lib: lib.tensor([1.0, 2.0, 3.0], requires_grad=True),
    "leaf_matrix": lambda lib: lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True),
    "on_meta": lambda lib: lib.empty(3, device="meta"),
    "matrix_on_meta": lambda lib: lib.empty(2, 3, device="meta"),
}

#: Words of what lies below flambeau, which tell its user nothing.
FOREIGN = re.compile(r"jax|XLA|jnp|\blax\.|tracer|dot_general|ShapedArray|\baval", re.IGNORECASE)

_CHOICE = re.compile(r"<((?:->|[^<>])*\|(?:->|[^<>])*)>")


def expressions(text: str) -> Iterator[str]:
    """The expressions of a table, with every choice made in every way."""
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            parts = _CHOICE.split(line)
            choices = [[part] if i % 2 == 0 else part.split("|") for i, part in enumerate(parts)]
            yield from map("".join, itertools.product(*choices))


class Outcome(NamedTuple):
    """What a call did.

    Attributes:
        raised: The name of the type of what it raised.
        message: What that said.
        changed: The operands that are not as they were.
    """

    raised: str | None
    message: str
    changed: list[str]


class _Operands(dict[str, Any]):
    """Makes each operand when the expression first names it."""

    def __init__(self, lib: Any) -> None:
        super().__init__()
        self._lib = lib
        self.before: dict[str, Any] = {}

    def __missing__(self, name: str) -> Any:
        if name not in OPERANDS:
            raise KeyError(name)
        self[name] = made = OPERANDS[name](self._lib)
        self.before[name] = _state(made)
        return made

    def changed(self) -> list[str]:
        return [name for name, state in self.before.items() if _state(self[name]) != state]


def _state(tensor: Any) -> tuple[Any, ...]:
    elements = None if tensor.is_meta else tensor.detach().numpy().tobytes()
    facts = str(tensor.dtype).rpartition(".")[2], tuple(tensor.shape), tensor.requires_grad
    return *facts, tensor._version, elements, tensor.grad is None, tensor.grad_fn is None


def fits(ours: str | None, theirs: str | None) -> bool:
    """Whether a program that catches PyTorch's exception catches flambeau's."""
    if ours is None or theirs is None:
        return ours is theirs
    # PyTorch's name for its LinAlgError begins with an underscore.
    ours, theirs = ours.lstrip("_"), theirs.lstrip("_")
    return ours == theirs or (ours, theirs) in _SPECIAL


#: flambeau's type and PyTorch's, which is a base class of it: an operator that is not there for a
#: dtype is always a NotImplementedError, a matrix that cannot be factored a LinAlgError, and a bad
#: file a CheckpointError.
_SPECIAL = {
    ("NotImplementedError", "RuntimeError"), ("LinAlgError", "RuntimeError"),
    ("DamagedFileError", "RuntimeError"), ("RefusedContentError", "UnpicklingError"),
}  # fmt: skip


def _common(lib: Any) -> dict[str, Any]:
    """What expressions name besides operands."""
    nn = lib.nn
    return {
        "torch": lib, "nn": nn, "F": nn.functional, "optim": lib.optim, "data": lib.utils.data,
        "rnn": nn.utils.rnn, "prune": import_module(f"{lib.__name__}.nn.utils.prune"),
        "nan": float("nan"), "inf": float("inf"), "np": np,
    }  # fmt: skip


def call(expression: str, lib: Any) -> Outcome:
    """Evaluate an expression with one library."""
    operands = _Operands(lib)
    raised, message = None, ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eval(expression, _common(lib), operands)
        except Exception as error:  # noqa: BLE001 - whatever is raised is what happened
            raised, message = type(error).__name__, str(error)
        changed = operands.changed() if lib.__name__ == "flambeau" else []
    return Outcome(raised, message, changed)


def deliberate(text: str) -> dict[str, str]:
    """The reason for each expression of a table whose comments say why it differs."""
    reasons: dict[str, str] = {}
    reason = ""
    for line in text.splitlines():
        if line.startswith("#"):
            reason = line.removeprefix("#").strip()
        else:
            reasons.update(dict.fromkeys(expressions(line), reason))
    return reasons
