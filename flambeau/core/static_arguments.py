"""Of what type an operator's static arguments must be, which say what program is compiled.

A program is found by what its static arguments are equal to, and ``1``, ``1.0`` and ``True`` are
equal. So what has the wrong type is refused before a program is remembered for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from flambeau.core.dtype import dtype, of_python_type

Check: TypeAlias = Callable[[str, str, Any], None]


def check_of(annotation: str) -> Check | None:
    """What checks an argument with this annotation; ``None`` if it may be of any type.

    The check is called with the names of the operator and of the argument, and with the value.

    >>> check_of("int")("flip", "dims", 1)
    >>> check_of("int")("flip", "dims", 1.0)
    Traceback (most recent call last):
        ...
    TypeError: flip(): dims must be an int, got float: 1.0
    """
    first, *others = annotation.split(" | ")
    check = _CHECKS.get(first)
    if check is None or not set(others) <= set(_BESIDES):
        return None
    return check if not others else _unless(tuple(_BESIDES[each] for each in others), check)


def _unless(kinds: tuple[type, ...], check: Check) -> Check:
    def check_given(operator: str, name: str, value: Any) -> None:
        if not isinstance(value, kinds):
            check(operator, name, value)

    return check_given


def _refusal(operator: str, name: str, expected: str, value: Any) -> TypeError:
    kind = type(value).__name__
    return TypeError(f"{operator}(): {name} must be {expected}, got {kind}: {value!r:.80}")


def _is_int(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _check_int(operator: str, name: str, value: Any) -> None:
    if not _is_int(value):
        raise _refusal(operator, name, "an int", value)


def _check_float(operator: str, name: str, value: Any) -> None:
    if not isinstance(value, int | float):
        raise _refusal(operator, name, "a real number", value)


def _check_sizes(operator: str, name: str, value: Any) -> None:
    members = value if isinstance(value, tuple) else (value,)
    if not all(each is None or _is_int(each) for each in members):
        raise _refusal(operator, name, "an int or a tuple of ints", value)


def _check_listed(operator: str, name: str, value: Any) -> None:
    if not isinstance(value, tuple):
        raise _refusal(operator, name, "a tuple of ints", value)
    _check_sizes(operator, name, value)


def _check_type(kind: type, expected: str) -> Check:
    def check(operator: str, name: str, value: Any) -> None:
        if not isinstance(value, kind):
            raise _refusal(operator, name, expected, value)

    return check


def _check_dtype(operator: str, name: str, value: Any) -> None:
    if not isinstance(of_python_type(value), dtype):
        raise _refusal(operator, name, "a dtype", value)


_BESIDES: dict[str, type] = {"None": type(None), "str": str}

_CHECKS: dict[str, Check] = {
    "int": _check_int,
    "float": _check_float,
    "Dims": _check_sizes,
    "Sizes": _check_sizes,
    "OutputSize": _check_sizes,
    "Shape": _check_sizes,
    "Listed": _check_listed,
    "tuple[int, ...]": _check_sizes,
    "bool": _check_type(bool, "True or False"),
    "str": _check_type(str, "a str"),
    "dtypes.dtype": _check_dtype,
}
