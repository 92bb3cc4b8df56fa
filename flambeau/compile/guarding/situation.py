"""The calls that a program is for, as text: their arguments and the thread's modes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from flambeau.compile.guarding.changes import Change
from flambeau.compile.guarding.value_text import text_of, text_of_content

#: The names of the modes in `function._modes`, in its order.
MODES = (
    "the trace", "recording of gradients", "inference mode", "the default dtype",
    "the default device", "autocast", "multithreaded backward",
    "compiler.checks",
)  # fmt: skip


# Their usual values; ``...`` for a mode that is never mentioned.
_USUAL_MODES = (None, True, False, ..., ..., None, True, (False, False))


class Situation(NamedTuple):
    """The calls that a program was traced for, besides the conditions of its guard.

    Attributes:
        arguments: A name for each leaf of the arguments, with its signature.
        around: The structure of the arguments.
        modes: The thread's modes.
    """

    arguments: tuple[tuple[str, Any], ...]
    around: Any
    modes: tuple[Any, ...]

    @staticmethod
    def of(function: Callable[..., Any], key: Any) -> Situation:
        """The situation of a call with the key ``(structure, signature, modes)``."""
        around, specs, modes = key
        names = _names_of_leaves(function, around)
        names += ["a gradient of an argument"] * (len(specs) - len(names))
        return Situation(tuple(zip(names, specs, strict=True)), around, modes)

    def lines(self) -> Iterator[str]:
        """The arguments, and the modes with unusual values."""
        for name, spec in self.arguments:
            yield f"{name} is {_text_of_spec(spec)}"
        for name, value, usual in zip(MODES, self.modes, _USUAL_MODES, strict=True):
            if value != usual and usual is not ...:
                yield f"{name} is {_text_of_mode(value)}"

    def distance(self, other: Situation) -> tuple[bool, int]:
        """The distance to ``other``: another structure counts more than other leaves."""
        return self.around != other.around, len([*self.differences(other)])

    def differences(self, before: Situation) -> Iterator[Change]:
        """The differences from the situation ``before``."""
        if self.around != before.around:
            old, now = _call(before.arguments), _call(self.arguments)
            line = f"the arguments were {old}, and are {now}"
            yield Change("the structure of the arguments", old, now, line, True)
        else:
            for (name, spec), (_, old) in zip(self.arguments, before.arguments, strict=False):
                if spec != old:
                    yield _change_of_spec(name, old, spec)
            if len(self.arguments) != len(before.arguments):
                line = "other arguments have gradients than before"
                yield Change.told("the gradients of the arguments", line)
        for name, old, value in zip(MODES, before.modes, self.modes, strict=True):
            if old != value:
                yield Change.of(name, _text_of_mode(old), _text_of_mode(value))


def _text_of_mode(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        # Whether `compiler.checks` are on.
        are_on = zip(("indices", "nan"), value, strict=True)
        return " and ".join(name for name, is_on in are_on if is_on) or "off"
    return str(value)


def _call(arguments: tuple[tuple[str, Any], ...]) -> str:
    return "(" + ", ".join(f"{name}: {_text_of_spec(spec)}" for name, spec in arguments) + ")"


# The fields of a tensor's signature; see `arguments.signature`.
_FIELDS = ("the shape", "the dtype", "requires_grad", "the hooks or history", "the placement")


def _is_of_tensor(spec: Any) -> bool:
    return isinstance(spec, tuple) and len(spec) == 7


def _text_of_spec(spec: Any) -> str:
    if _is_of_tensor(spec):
        shape, dtype, requires_grad = spec[:3]
        return f"a Tensor of {dtype}{list(shape)}" + (" with gradient" if requires_grad else "")
    return text_of_content(spec) if isinstance(spec, tuple) else text_of(spec)


def _change_of_spec(name: str, before: Any, now: Any) -> Change:
    if not (_is_of_tensor(before) and _is_of_tensor(now)):
        return Change.of(name, _text_of_spec(before), _text_of_spec(now))
    for field, old, new in zip(_FIELDS, before, now, strict=False):
        if old != new:
            if field == "the hooks or history":
                return Change.told(name, f"{name} has other hooks, or is on the tape differently")
            old, new = (list(each) if isinstance(each, tuple) else each for each in (old, new))
            return Change.of(f"{field} of {name}", str(old), str(new), field == "the shape")
    line = f"{name} or its gradient is, or is no longer, the same tensor as another argument"
    return Change.told(name, line)


def _names_of_leaves(function: Callable[..., Any], around: Any) -> list[str]:
    """The user's name for each leaf of the arguments."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    plain = [
        each.name
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]

    def position(i: int) -> str:
        return plain[i] if i < len(plain) else f"argument {i}"

    count, keywords, parts = around
    tops = [*map(position, range(count)), *keywords]
    return [name for top, each in zip(tops, parts, strict=True) for name in _paths(top, each)]


def _paths(name: str, around: Any) -> Iterator[str]:
    kind, parts = around
    if kind is None:
        yield name
        return
    for i, each in enumerate(parts):
        key = kind.keys[i] if i < len(kind.keys) else i
        yield from _paths(f"{name}[{key!r}]", each)
