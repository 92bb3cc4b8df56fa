"""Schemas of operators: names, arguments and results, as strings and as objects."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.devices.device import device
from flambeau.core.support.dtype import dtype
from flambeau.core.values.tensor import Tensor

_MISSING = inspect.Parameter.empty
# The schema types of Python's types.
_WORDS: dict[Any, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
    int | float | bool: "Scalar", int | float: "Scalar", dtype: "ScalarType", device: "Device",
}  # fmt: skip
_CONSTANTS = {"None": None, "True": True, "False": False}


@dataclasses.dataclass
class Argument:
    """One argument of an operator.

    Attributes:
        name: Its name.
        type: Its type in the schema, such as ``Tensor`` or ``int[]``, with ``?`` if it is optional.
        default: The default, if ``has_default``.
        has_default: Whether it is optional.
        kwarg_only: Whether it is keyword-only.
        is_write: Whether the operator mutates it.
    """

    name: str
    type: str
    default: Any = None
    has_default: bool = False
    kwarg_only: bool = False
    is_write: bool = False

    def __str__(self) -> str:
        kind = self.type
        if self.is_write:
            kind = kind.replace("Tensor", "Tensor(a!)", 1)
        if not self.has_default:
            return f"{kind} {self.name}"
        shown = f'"{self.default}"' if isinstance(self.default, str) else self.default
        return f"{kind} {self.name}={shown}"


@dataclasses.dataclass
class Schema:
    """The arguments and results of an operator.

    Attributes:
        name: ``namespace::name``.
        arguments: The arguments.
        returns: The types of the results.
    """

    name: str
    arguments: list[Argument]
    returns: list[str]

    @property
    def is_mutable(self) -> bool:
        """Whether the operator mutates an argument."""
        return any(each.is_write for each in self.arguments)

    def __str__(self) -> str:
        shown, by_name = [], False
        for each in self.arguments:
            if each.kwarg_only and not by_name:
                shown.append("*")
                by_name = True
            shown.append(str(each))
        returns = self.returns[0] if len(self.returns) == 1 else f"({', '.join(self.returns)})"
        return f"{self.name}({', '.join(shown)}) -> {returns}"

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The values of all arguments, in the order of the schema.

        Raises:
            RuntimeError: An argument is missing, unknown, given twice, or not a Tensor where one is
                required.
        """
        by_position = [each for each in self.arguments if not each.kwarg_only]
        if len(args) > len(by_position):
            raise RuntimeError(
                f"{self.name}() expected at most {len(by_position)} argument(s) but received "
                f"{len(args)} argument(s). Declaration: {self}"
            )
        given = dict(zip((each.name for each in by_position), args, strict=False))
        for name, value in kwargs.items():
            if name in given or name not in {each.name for each in self.arguments}:
                why = "was given twice" if name in given else "is unknown"
                raise RuntimeError(
                    f"{self.name}() the keyword argument '{name}' {why}. Declaration: {self}"
                )
            given[name] = value
        return [self._value(each, given) for each in self.arguments]

    def _value(self, argument: Argument, given: dict[str, Any]) -> Any:
        if argument.name not in given:
            if not argument.has_default:
                raise RuntimeError(
                    f"{self.name}() is missing value for argument '{argument.name}'. "
                    f"Declaration: {self}"
                )
            return argument.default
        value = given[argument.name]
        if argument.type == "Tensor" and not isinstance(value, Tensor):
            raise RuntimeError(
                f"{self.name}() Expected a value of type 'Tensor' for argument '{argument.name}' "
                f"but instead found type '{type(value).__name__}'. Declaration: {self}"
            )
        return value


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: Any, op_name: str | None = None
) -> str:
    """Infer the schema from a function's annotations.

    Args:
        prototype_function: A function whose parameters and result are annotated.
        mutates_args: The names of the parameters that it mutates; ``"unknown"`` for all Tensors.
        op_name: The name of the operator in the schema.

    Raises:
        ValueError: A parameter or the result has no annotation, or an unsupported annotation.

    >>> from flambeau import Tensor
    >>> from flambeau.library import infer_schema
    >>> def scaled(x: Tensor, factor: float = 2.0) -> Tensor: ...
    >>> infer_schema(scaled, mutates_args=())
    '(Tensor x, float factor=2.0) -> Tensor'
    """
    return str(schema_of(prototype_function, mutates_args, op_name or ""))


def schema_of(function: Callable[..., Any], mutates_args: Any, name: str) -> Schema:
    """The inferred schema as an object."""
    signature = inspect.signature(function)
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):
        hints = dict(getattr(function, "__annotations__", {}))
    if mutates_args != "unknown":
        unknown = set(mutates_args) - set(signature.parameters)
        if unknown:
            raise ValueError(
                f"mutates_args: {sorted(unknown)} are not parameters of {function.__name__}"
            )
    arguments = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError(
                f"infer_schema(func): parameters such as *{parameter.name} have no place in a "
                f"schema. Got signature {signature}"
            )
        if parameter.name not in hints:
            raise ValueError(
                f"infer_schema(func): Parameter {parameter.name} must have a type annotation. "
                f"Got signature {signature}"
            )
        word = _word_of(hints[parameter.name], f"Parameter {parameter.name}", signature)
        unknown_writes = mutates_args == "unknown" and word.startswith("Tensor")
        arguments.append(
            Argument(
                parameter.name, word,
                None if parameter.default is _MISSING else parameter.default,
                parameter.default is not _MISSING,
                parameter.kind is parameter.KEYWORD_ONLY,
                unknown_writes or (mutates_args != "unknown" and parameter.name in mutates_args),
            )
        )  # fmt: skip
    if signature.return_annotation is _MISSING:
        raise ValueError(
            f"infer_schema(func): the result must have a type annotation. Got signature {signature}"
        )
    return Schema(name, arguments, _returns_of(hints.get("return"), signature))


def _returns_of(hint: Any, signature: Any) -> list[str]:
    if hint is None or hint is type(None):
        return []
    if typing.get_origin(hint) is tuple:
        return [_word_of(each, "Return", signature) for each in typing.get_args(hint)]
    return [_word_of(hint, "Return", signature)]


def _word_of(hint: Any, subject: str, signature: Any) -> str:
    if hint in _WORDS:
        return _WORDS[hint]
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType) and type(None) in parts:
        others = tuple(each for each in parts if each is not type(None))
        return f"{_word_of(typing.Union[others], subject, signature)}?"  # noqa: UP007
    if origin in (list, Sequence, tuple) and parts:
        return f"{_word_of(parts[0], subject, signature)}[]"
    raise ValueError(
        f"infer_schema(func): {subject} has unsupported type {hint}. Tensors, numbers, strings, "
        f"dtypes, devices, lists of them and None are supported. Got signature {signature}"
    )


_WHOLE = re.compile(r"\s*([\w:.]*)\s*\((.*)\)\s*->\s*(.+?)\s*$", re.DOTALL)
_ONE = re.compile(
    r"([\w.]+(?:\([\w!| >-]*\)|!)?(?:\[\d*\])?\??)\s+(\w+)\s*(?:=\s*(.+))?$", re.DOTALL
)


def parse(text: str) -> Schema:
    """Parse a schema such as ``name(Tensor x, int n=2) -> Tensor``.

    Raises:
        RuntimeError: The text is not a schema.
    """
    found = _WHOLE.match(text)
    if found is None:
        raise RuntimeError(
            f"cannot read the schema {text!r}; it has the form name(Tensor x, int n=2) -> Tensor"
        )
    name, inside, returns = found.groups()
    arguments, by_name = [], False
    for part in _parts(inside):
        if part == "*":
            by_name = True
            continue
        one = _ONE.match(part)
        if one is None:
            raise RuntimeError(f"cannot read the argument {part!r} of the schema {text!r}")
        kind, argument, default = one.groups()
        plain = re.sub(r"\(.*?\)|!", "", kind)
        value = None if default is None else _constant(default)
        arguments.append(
            Argument(argument, plain, value, default is not None, by_name, "!" in kind)
        )
    if returns.startswith("("):
        return Schema(name, arguments, [each.split(" ")[0] for each in _parts(returns[1:-1])])
    return Schema(name, arguments, [returns.split(" ")[0]])


def _parts(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def _constant(text: str) -> Any:
    text = text.strip()
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text.startswith("["):
        return [_constant(each) for each in _parts(text[1:-1])]
    if text[0] in "\"'":
        return text[1:-1]
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text
