"""Classes and functions that files may name, besides those that are always allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "add_safe_globals", "clear_safe_globals", "find_allowed", "get_safe_globals", "is_allowed",
    "safe_globals", "set_state",
]  # fmt: skip

#: A class or function, or a pair of it and its name in files.
Allowed = Callable[..., Any] | tuple[Callable[..., Any], str]

# By the name in files.
_allowed: dict[str, tuple[Allowed, Callable[..., Any]]] = {}


def add_safe_globals(safe_globals: list[Allowed]) -> None:
    """Allow these classes and functions in files read with ``weights_only=True``.

    The file chooses their arguments, so allow only objects that are harmless with any arguments.

    Args:
        safe_globals: Classes and functions, or pairs of an object and its name in files, as in
            ``(Config, "older_module.Config")``.

    Raises:
        TypeError: One of them is neither a class nor a function.

    >>> from flambeau.serialization import safe_globals
    >>> import io
    >>> import flambeau
    >>> from fractions import Fraction
    >>> file = io.BytesIO()
    >>> flambeau.save({"ratio": Fraction(1, 3)}, file)
    >>> with safe_globals([Fraction]):
    ...     _ = file.seek(0)
    ...     flambeau.load(file)
    {'ratio': Fraction(1, 3)}
    """
    named = {}
    for each in safe_globals:
        function, name = each if isinstance(each, tuple) else (each, None)
        if not callable(function) or not isinstance(name, str | None):
            raise TypeError(
                f"a class or function, or one with its name in files, is allowed, not {each!r}"
            )
        named[name or _name_of(function)] = each, function
    _allowed.update(named)


def get_safe_globals() -> list[Allowed]:
    """The objects allowed by `add_safe_globals`."""
    return [given for given, _ in _allowed.values()]


def clear_safe_globals() -> None:
    """Allow only the classes and functions that are always allowed."""
    _allowed.clear()


@contextmanager
def safe_globals(safe_globals: list[Allowed]) -> Iterator[None]:
    """A block in which these classes and functions are allowed; see `add_safe_globals`."""
    before = dict(_allowed)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _allowed.clear()
        _allowed.update(before)


def find_allowed(name: str) -> Callable[..., Any] | None:
    """The object of a name such as ``"fractions.Fraction"`` in a file, if it is allowed."""
    found = _allowed.get(name)
    return None if found is None else found[1]


def is_allowed(function: Any) -> bool:
    """Whether a class or function is allowed under some name."""
    return any(function is each for _, each in _allowed.values())


def set_state(target: Any, state: Any) -> None:
    """Set the state of an object of an allowed class, as Python's unpickler does."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    for name, value in _items_of(attributes):
        vars(target)[name] = value
    for name, value in _items_of(slots):
        setattr(target, name, value)


def _items_of(state: Any) -> Iterable[tuple[str, Any]]:
    if state is None:
        return ()
    if type(state) is not dict:
        raise TypeError(f"the state of an object is a {type(state).__name__}")
    return state.items()


def _name_of(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"
