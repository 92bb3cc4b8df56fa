"""``flambeau.ops.aten``: PyTorch's internal operators that have a function of the same name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau.core.values.tensor import Tensor


def _softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    dtype = flambeau.float32 if half_to_float else None
    return flambeau.nn.functional.softmax(self, dim, dtype=dtype)


def _log_softmax(self: Any, dim: int, half_to_float: bool) -> Any:
    dtype = flambeau.float32 if half_to_float else None
    return flambeau.nn.functional.log_softmax(self, dim, dtype=dtype)


def _slice(self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return self[(slice(None),) * (dim % self.dim()) + (slice(start, end, step),)]


def _to_copy(self: Any, *, dtype: Any = None, device: Any = None, **layout: Any) -> Any:
    return self.to(device=device or self.device, dtype=dtype or self.dtype, copy=True)


def _index(self: Any, indices: Sequence[Any]) -> Any:
    return self[tuple(slice(None) if each is None else each for each in indices)]


def _sparse_addmm(self: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    return flambeau.sparse.addmm(self, mat1, mat2, beta=beta, alpha=alpha)


_OWN: dict[str, Callable[..., Any]] = {
    "_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "index": _index,
    "slice": _slice,
    "_sparse_addmm": _sparse_addmm,
    "_to_copy": _to_copy,
    "_pin_memory": lambda self, device=None: self.pin_memory(device),
    "_unsafe_view": flambeau.reshape,
    "alias": lambda self: self.view_as(self),
}
# The namespaces of functions, in search order.
_SPACES = ("flambeau", "flambeau.nn.functional", "flambeau.linalg", "flambeau.special")


class AtenOperator:
    """A function as an operator of ``aten``; each overload is the function itself.

    Args:
        name: The name.
        function: The function.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__name__ = name
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if "self" in kwargs:
            args = (kwargs.pop("self"), *args)
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> Any:
        if overload.startswith("_"):
            raise AttributeError(overload)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AtenOperator) and other._function is self._function

    def __hash__(self) -> int:
        return hash(self._function)

    def __repr__(self) -> str:
        return f"aten.{self.__name__}"


class Aten:
    """The namespace ``aten``."""

    def __getattr__(self, name: str) -> AtenOperator:
        if not name.startswith("__"):
            function = _function_of(name)
            if function is not None:
                return AtenOperator(name, function)
        raise AttributeError(
            f"'_OpNamespace' 'aten' object has no attribute '{name}': no function of flambeau has "
            "that name"
        )


def _function_of(name: str) -> Callable[..., Any] | None:
    if name in _OWN:
        return _OWN[name]
    for space in _SPACES:
        found: Any = flambeau
        for part in space.split(".")[1:]:
            found = getattr(found, part)
        function = getattr(found, name, None)
        if callable(function) and not isinstance(function, type):
            return function
    method = getattr(Tensor, name, None)
    return method if callable(method) else None
