"""A description of the computation of a function, by which another process finds its program.

A description names the code and spells out everything bound to it. It is sound as long as the code
of the packages that it names is the same, which is why a program's key has their versions, and the
contents of flambeau's files, in it.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray

from flambeau.core.support.naming import module_of

#: The packages whose code is known by their version, and flambeau's by its files.
_KNOWN = {"_operator", "builtins", "flambeau", "functools", "jax", "math", "numpy", "operator"}

_Jitted = type(jax.jit(lambda: None))

# Larger constants are not spelled out.
_LARGEST = 4096


class IndescribableError(Exception):
    """A function depends on something that another process could not recognize."""


def describe(value: object) -> str:
    """A text that is equal for two values if and only if they compute the same.

    Args:
        value: A function with all that is bound to it: partial functions, methods, closures over
            numbers, shapes, dtypes, named tuples, dataclasses and other functions.

    Raises:
        IndescribableError: It is, or refers to, code of the user's or an object of another kind.

    >>> from flambeau.core.programs.description import describe
    >>> import functools, operator
    >>> def add(number):
    ...     return describe(functools.partial(operator.add, number))
    >>> add(1) == add(1), add(1) == add(1.0)
    (True, False)
    """
    parts: list[str] = []
    _describe(value, parts)
    return "".join(parts)


def _describe(value: Any, parts: list[str]) -> None:
    """Add the description of ``value`` to ``parts``."""
    kind = type(value)
    if kind in _PLAIN:
        parts.append(f"{kind.__name__} {value!r};")
    elif kind is tuple or kind is list:
        _sequence(kind.__name__, value, parts)
    elif kind is dict:
        _sequence("dict", [part for item in value.items() for part in item], parts)
    elif isinstance(value, tuple):
        # A named tuple or a size: its class is part of its meaning.
        _sequence("tuple of", (kind, *value), parts)
    elif kind is set or kind is frozenset:
        _named("set", "".join(sorted(describe(each) for each in value)), parts)
    elif kind is slice:
        _sequence("slice", (value.start, value.stop, value.step), parts)
    elif kind is functools.partial:
        _sequence("partial", (value.func, value.args, value.keywords), parts)
    elif kind is types.MethodType:
        _sequence("method", (value.__func__, value.__self__), parts)
    elif isinstance(value, np.dtype | np.generic):
        _named("dtype" if isinstance(value, np.dtype) else str(value.dtype), repr(value), parts)
    elif kind is np.ndarray:
        _array(value, parts)
    elif isinstance(value, jax.ShapeDtypeStruct | ShapedArray):
        weak = bool(getattr(value, "weak_type", False))
        _sequence("aval", (value.shape, value.dtype, weak), parts)
    elif isinstance(value, enum.Enum):
        _sequence("enum", (kind, value.name), parts)
    elif hasattr(kind, "described_by"):
        _sequence(kind.__qualname__, (kind, *value.described_by()), parts)
    elif _is_importable(value):
        _named("name", f"{module_of(value)}.{_qualname(value)}", parts)
    elif kind is _Jitted and hasattr(value, "__wrapped__"):
        _sequence("jit", (value.__wrapped__,), parts)
    elif kind is types.FunctionType:
        _function(value, parts)
    elif dataclasses.is_dataclass(value) and kind is not type:
        fields = [getattr(value, each.name) for each in dataclasses.fields(value)]
        _sequence("dataclass", (kind, *fields), parts)
    else:
        # Describe it by its type: the text of a traced program is long and slow to make.
        raise IndescribableError(f"an object of type {kind.__qualname__}")


_PLAIN = {bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented)}


def _named(kind: str, text: str, parts: list[str]) -> None:
    # The length says where the text ends, whatever is in it.
    parts.append(f"{kind} {len(text)}:{text};")


def _sequence(kind: str, members: Iterable[object], parts: list[str]) -> None:
    parts.append(f"{kind}(")
    for each in members:
        _describe(each, parts)
    parts.append(")")


def _array(array: np.ndarray, parts: list[str]) -> None:
    if array.nbytes > _LARGEST or array.dtype.hasobject:
        raise IndescribableError(f"an array of {array.dtype}{list(array.shape)}")
    _sequence("array", (array.shape, array.dtype, array.tobytes()), parts)


def _function(function: types.FunctionType, parts: list[str]) -> None:
    # A decorator may give a function of the user's the name of one of flambeau's.
    home = function.__globals__.get("__name__")
    if not _is_known(module_of(function)) or not _is_known(home):
        raise IndescribableError(f"{home}.{function.__qualname__}")
    _named("function", f"{home}.{function.__qualname__}", parts)
    try:
        cells = [each.cell_contents for each in function.__closure__ or ()]
    except ValueError:  # a variable that has no value yet
        raise IndescribableError(f"a variable of {home}.{function.__qualname__}") from None
    _sequence("bound", (cells, function.__defaults__, function.__kwdefaults__), parts)
    parts.append(_text_of(function.__code__))


@functools.lru_cache(maxsize=4096)
def _text_of(code: types.CodeType) -> str:
    parts: list[str] = []
    _code(code, parts)
    return "".join(parts)


def _code(code: types.CodeType, parts: list[str]) -> None:
    """Add a text that distinguishes functions with one name, such as lambdas on one line."""
    constants = [each for each in code.co_consts if type(each) is not types.CodeType]
    place = [each for *_, each in code.co_positions()][-1]
    _sequence("code", (code.co_firstlineno, place, code.co_names, constants), parts)
    _named("bytecode", code.co_code.hex(), parts)
    for each in code.co_consts:
        if type(each) is types.CodeType:
            _code(each, parts)


def _is_known(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in _KNOWN


def _qualname(value: object) -> str | None:
    return getattr(value, "__qualname__", None) or getattr(value, "__name__", None)


def _is_importable(value: object) -> bool:
    """Whether ``value`` is the member of a known module with its name."""
    module, name = module_of(value), _qualname(value)
    if not isinstance(name, str) or not isinstance(module, str) or not _is_known(module):
        return False
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value
