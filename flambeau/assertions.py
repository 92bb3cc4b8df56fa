"""Assertions under PyTorch's names, with messages that are computed on failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.operators.overrides import asks
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.tensor import Tensor

_Message = Callable[[], Any] | None


@asks
def _assert(condition: Any, message: str) -> None:
    """``assert condition, message``, which `flambeau.fx` records without evaluating it."""
    if not condition:
        raise AssertionError(message)


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """Raise a RuntimeError if the only element is zero; the element is read immediately."""
    if not input:
        raise RuntimeError(assert_msg or "expected a tensor with a nonzero element, but got zero")


def _check(cond: Any, message: _Message = None) -> None:
    """Raise a RuntimeError unless ``cond`` is true.

    Args:
        cond: A bool; see `_check_tensor_all` for tensors.
        message: A function that returns the error's message.

    Raises:
        TypeError: ``cond`` is not a bool, or ``message`` is not callable.
    """
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: _Message = None) -> None:
    """`_check`, with an IndexError."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: _Message = None) -> None:
    """`_check`, with a ValueError."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: _Message = None) -> None:
    """`_check`, with a TypeError."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: _Message = None) -> None:
    """`_check`, with a NotImplementedError."""
    _check_with(NotImplementedError, cond, message)


def _check_with(error_type: type[Exception], cond: Any, message: _Message = None) -> None:
    """`_check`, with an error of another type."""
    if isinstance(cond, Tensor):
        raise TypeError("cond must be a bool, but got a Tensor; use _check_tensor_all() for it")
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    _demand(error_type, cond, message)


def _check_is_size(i: Any, message: _Message = None, *, max: int | None = None) -> None:
    """Raise a RuntimeError unless ``i`` is between 0 and ``max``."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all(cond: Any, message: _Message = None) -> None:
    """Read a tensor of bools and raise a RuntimeError unless all elements are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Any, message: _Message = None
) -> None:
    """`_check_tensor_all`, with an error of another type."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not dtypes.bool:
        raise TypeError(f"cond tensor must have dtype {dtypes.bool}, but got {cond.dtype}")
    _demand(error_type, bool(cond.all()), message)


def _demand(error_type: type[Exception], cond: bool, message: _Message) -> None:
    if cond:
        return
    if message is None:
        raise error_type("expected cond to be True, but got False; message= may say why")
    if not callable(message):
        raise TypeError("message must be a callable, which gives the text")
    raise error_type(str(message()))
