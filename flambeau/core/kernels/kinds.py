"""The kinds of an operator's parameters, declared by annotations.

An operand is an array of the program, which takes any values. Every other parameter is static: it
decides which program is compiled. Programs are looked up by equality of their static arguments, and
``1``, ``1.0`` and ``True`` are equal, so an argument of the wrong type is refused before a program
is cached for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from jax.export import is_symbolic_dim

from flambeau.core.support.dtype import dtype, of_python_type

Check: TypeAlias = Callable[[str, str, object], None]


@dataclass(frozen=True, eq=False)
class Kind:
    """The role of a parameter in its operator.

    Attributes:
        is_operand: Whether it is an array of the program, or several.
        check: Raises a TypeError for a value of a wrong type, given the names of the operator and
            of the parameter; ``None`` if the value may be of any type.
        counts_type: Whether values that are equal and of different types need different programs.
    """

    is_operand: bool = False
    check: Check | None = None
    counts_type: bool = False


def _refusal(operator: str, name: str, expected: str, value: object) -> TypeError:
    kind = type(value).__name__
    return TypeError(f"{operator}(): {name} must be {expected}, got {kind}: {value!r:.80}")


def _is_int(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _check_int(operator: str, name: str, value: object) -> None:
    if not _is_int(value):
        raise _refusal(operator, name, "an int", value)


def _check_float(operator: str, name: str, value: object) -> None:
    if not isinstance(value, int | float):
        raise _refusal(operator, name, "a real number", value)


def _check_sizes(operator: str, name: str, value: Any) -> None:
    members = value if isinstance(value, tuple) else (value,)
    if not all(each is None or _is_int(each) or is_symbolic_dim(each) for each in members):
        raise _refusal(operator, name, "an int or a tuple of ints", value)


def _check_listed(operator: str, name: str, value: object) -> None:
    if not isinstance(value, tuple):
        raise _refusal(operator, name, "a tuple of ints", value)
    _check_sizes(operator, name, value)


def _check_dtype(operator: str, name: str, value: object) -> None:
    if not isinstance(of_python_type(value), dtype):
        raise _refusal(operator, name, "a dtype", value)


def _check_type(kind: type, expected: str) -> Check:
    def check(operator: str, name: str, value: object) -> None:
        if not isinstance(value, kind):
            raise _refusal(operator, name, expected, value)

    return check


# Operands

ARRAY, ARRAYS, OPERAND, TENSOR, NUMBER = (Kind(is_operand=True) for _ in range(5))
#: An array; where it is required, a tensor.
Array: TypeAlias = Annotated[Any, ARRAY]
#: Several arrays, given as one sequence.
Arrays: TypeAlias = Annotated[Any, ARRAYS]
#: An array, or a number that takes the dtype of the others.
Operand: TypeAlias = Annotated[Any, OPERAND]
#: The same without numbers.
TensorOperand: TypeAlias = Annotated[Any, TENSOR]
#: A number, or an array in its place.
Number: TypeAlias = Annotated[Any, NUMBER]

# Static parameters

#: A size or a dimension, or a tuple of them in which ``None`` may occur.
SIZES = Kind(check=_check_sizes)
#: A tuple of sizes.
LISTED = Kind(check=_check_listed)
ANY = Kind(counts_type=True)
NONE = Kind()
STR = Kind(check=_check_type(str, "a str"))

_OF_TYPES: dict[object, Kind] = {
    int: Kind(check=_check_int),
    float: Kind(check=_check_float, counts_type=True),
    bool: Kind(check=_check_type(bool, "True or False")),
    str: STR,
    dtype: Kind(check=_check_dtype),
    type(None): NONE,
    Any: ANY,
    object: ANY,
}


def kinds_of(function: FunctionType, name: str) -> tuple[Kind, ...]:
    """The kinds that an operator's parameter accepts.

    Raises:
        TypeError: Its annotation names no kind, or an unknown one.
    """
    annotation = function.__annotations__.get(name)
    found = None if annotation is None else _resolved(annotation, function)
    if found is None:
        raise TypeError(
            f"{function.__module__}.{function.__qualname__}: the parameter '{name}' is annotated "
            f"{annotation!r}, which is not a known kind of parameter; see {__name__}"
        )
    return found


def check_of(kinds: tuple[Kind, ...]) -> Check | None:
    """The check of an argument of one of these kinds; ``None`` if every type is accepted.

    The check is called with the names of the operator and of the argument, and with the value.
    """
    first, *others = kinds
    besides = tuple(_BESIDES[each] for each in others if each in _BESIDES)
    check = first.check
    if check is None or len(besides) < len(others):
        return None
    return check if not besides else _unless(besides, check)


_BESIDES: dict[Kind, type] = {NONE: type(None), STR: str}


def _unless(types: tuple[type, ...], check: Check) -> Check:
    def check_given(operator: str, name: str, value: object) -> None:
        if not isinstance(value, types):
            check(operator, name, value)

    return check_given


def check_of_face(function: FunctionType, name: str) -> Check | None:
    """`check_of` for a parameter of any function, even if its annotation names no kind."""
    annotation = function.__annotations__.get(name)
    found = None if annotation is None else _resolved(annotation, function)
    return None if found is None else check_of(found)


# The kinds for each annotation, by module and text.
_known: dict[tuple[str, str], tuple[Kind, ...] | None] = {}


def _resolved(annotation: str, function: FunctionType) -> tuple[Kind, ...] | None:
    key = function.__module__, annotation
    if key not in _known:
        try:
            meant = eval(annotation, function.__globals__)
        except (NameError, TypeError, AttributeError):
            meant = None
        is_union = get_origin(meant) in (Union, UnionType)
        kinds = [_kind_of(each) for each in (get_args(meant) if is_union else (meant,))]
        _known[key] = None if None in kinds else tuple(filter(None, kinds))
    return _known[key]


def _kind_of(annotation: Any) -> Kind | None:
    origin = get_origin(annotation)
    if origin is Annotated:
        return next((each for each in annotation.__metadata__ if isinstance(each, Kind)), None)
    if origin is tuple:
        return SIZES if {*get_args(annotation)} <= {int, ...} else ANY
    try:
        return _OF_TYPES.get(annotation)
    except TypeError:
        return None
