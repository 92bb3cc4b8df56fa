"""Modes that see the functions of this library: `TorchFunctionMode`.

The public functions of operators ask the modes of the current thread. To cost nothing otherwise,
they look for modes only while one is open in any thread: entering a mode patches the names that
these functions look up, and replaces the code object of functions that are no operators
(`overrides.asks`).

The replaced code also lets non-tensor arguments that stand in for tensors override such functions;
`expect_stand_ins` announces such arguments. Operators always ask these arguments.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from flambeau.core.operators import dispatch, op, writing
from flambeau.core.operators.overrides import (
    OverrideNeeded,
    any_overrides,
    asking_functions,
    flattened,
    handle_torch_function,
    has_torch_function,
    stands_in,
)
from flambeau.core.support.modes import modes
from flambeau.core.support.tracebacks import trim

_lock = threading.Lock()
# The number of open modes in all threads.
_open = 0
# The number of announcements of stand-ins.
_expecting = 0


class TorchFunctionMode:
    """Sees each function of this library that is called inside, and may replace it.

    A subclass defines ``__torch_function__(self, func, types, args=(), kwargs=None)``, which calls
    ``func(*args, **(kwargs or {}))`` or does something else. Inside it this mode is not active, but
    the modes around it are.

    Compiled functions run eagerly while a mode is open around them.

    >>> import flambeau
    >>> from flambeau.overrides import TorchFunctionMode
    >>> class Names(TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     total = (flambeau.ones(2) + 1).sum()
    ones
    add
    sum
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Compute ``func(*args, **kwargs)``, or replace it."""
        raise NotImplementedError(f"{type(self).__name__} does not define __torch_function__")

    def __enter__(self) -> Any:
        _count(1)
        modes.functions = (*modes.functions, self)
        return self

    def __exit__(self, *exception: object) -> None:
        modes.functions = modes.functions[:-1]
        if not modes.functions:
            # As if never set: the modes of a thread are compared as a whole.
            del modes.functions
        _count(-1)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A new mode; an older name of the constructor."""
        return cls(*args, **kwargs)


def _asking_run(kernel: Any, inputs: tuple[Any, ...], bare: bool = False) -> Any:
    if modes.functions:
        raise OverrideNeeded
    return kept_names.get("run", dispatch.run)(kernel, inputs, bare)


def _asking_any_overrides(arguments: Any) -> bool:
    return bool(modes.functions) or any_overrides(arguments)


def _asking_has_torch_function(relevant_args: Any) -> bool:
    return bool(modes.functions) or has_torch_function(relevant_args)


# Modules and names with the replacements that are used while a mode is open.
_ASKING: tuple[tuple[str, str, Any], ...] = (
    (op.__name__, "run", _asking_run),
    (op.__name__, "any_overrides", _asking_any_overrides),
    (writing.__name__, "any_overrides", _asking_any_overrides),
    ("flambeau.ops.indices.indexing", "has_torch_function", _asking_has_torch_function),
    ("flambeau.ops.indices.indexing", "PLAIN_TYPES", frozenset()),
)
#: The original values of these names while a mode is open. Modules have the same under one name.
kept_names: dict[str, Any] = {}


def _ask_first(face: FunctionType) -> CodeType:
    """Code for a function that asks the thread's modes before it runs the original code."""
    own = FunctionType(
        face.__code__, face.__globals__, face.__name__, face.__defaults__, face.__closure__
    )
    own.__kwdefaults__ = face.__kwdefaults__

    def ask(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if modes.functions or any(map(stands_in, (*args, *kwargs.values()))):
            values = flattened((*args, *kwargs.values()))
            return handle_torch_function(face, values, *args, **kwargs)
        return own(*args, **kwargs)

    # Keeps the signature visible.
    face.__wrapped__ = own  # type: ignore[attr-defined]

    places = {_ASK: ask, _TRIM: trim}
    consts = [places.get(each, each) for each in _asking.__code__.co_consts]
    code = face.__code__
    return _asking.__code__.replace(
        co_consts=tuple(consts), co_name=code.co_name, co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
    )  # fmt: skip


# The places of two functions among the constants of the code below.
_ASK, _TRIM = "asks first", "trims an error"


def _asking(*args: Any, **kwargs: Any) -> Any:
    ask: Any = "asks first"
    try:
        return ask(args, kwargs)
    except Exception as error:
        trim: Any = "trims an error"
        trim(error)
        raise


# The original code of each function whose code is replaced.
_own_code: dict[FunctionType, CodeType] = {}


def _count(change: int) -> None:
    global _open
    with _lock:
        before, _open = _open, _open + change
        if before and _open:
            return
        for module, name, asking in _ASKING:
            home = sys.modules[module]
            if _open:
                kept_names[name] = getattr(home, name)
            setattr(home, name, asking if _open else kept_names[name])
        if not _open:
            kept_names.clear()
        _let_functions_ask()


def expect_stand_ins(expected: bool) -> None:
    """Announce that stand-ins for tensors may be passed as arguments, or no longer will be."""
    global _expecting
    with _lock:
        _expecting += 1 if expected else -1
        _let_functions_ask()


def _let_functions_ask() -> None:
    """Replace the code of functions while modes or stand-ins exist, and restore it otherwise."""
    if not (_open or _expecting):
        while _own_code:
            face, code = _own_code.popitem()
            face.__code__ = code
            del face.__wrapped__  # type: ignore[attr-defined]
        return
    for face in asking_functions:
        if face not in _own_code:
            _own_code[face] = face.__code__
            face.__code__ = _ask_first(face)
