"""Decorators of functions that an exporter to ONNX would call, which are never called here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flambeau._absent import Absent as _Absent

__all__ = ["parse_args", "quantized_args"]

__getattr__: _Absent = _Absent(__name__)

_Function = TypeVar("_Function", bound=Callable[..., Any])


def parse_args(*arg_descriptors: str) -> Callable[[_Function], _Function]:
    """A decorator that leaves the function as it is."""
    return _itself


def quantized_args(*arg_q_descriptors: bool, **options: Any) -> Callable[[_Function], _Function]:
    """A decorator that leaves the function as it is."""
    return _itself


def _itself(function: _Function) -> _Function:
    return function
