"""Functions that are replaced during tracing."""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable, MutableMapping
from typing import Any

from flambeau.fx.node import map_aggregate
from flambeau.fx.proxy import Proxy

_ABSENT = object()

# The functions given to `wrap`: by the identity of a module's globals, and name.
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}


class Patcher:
    """A context manager that replaces functions until its block ends."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._visited: set[int] = set()
        # The identity of a namespace, and a name in it.
        self._patched: set[tuple[int, str]] = set()

    def __enter__(self) -> Patcher:
        return self

    def __exit__(self, *exception: object) -> None:
        while self._undo:
            self._undo.pop()()

    def patch_member(self, owner: type, name: str, function: Any) -> None:
        """Set ``owner.name`` to ``function``."""
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, function)
        if before is _ABSENT:
            self._undo.append(lambda: delattr(owner, name))
        else:
            self._undo.append(lambda: setattr(owner, name, before))

    def patch_global(self, namespace: MutableMapping[str, Any], name: str, function: Any) -> None:
        """Set the global ``name`` of a module to ``function``."""
        place = (id(namespace), name)
        if place in self._patched:
            return
        self._patched.add(place)
        before = namespace.get(name, _ABSENT)
        namespace[name] = function
        if before is _ABSENT:
            # A builtin, which the new global shadows.
            self._undo.append(lambda: namespace.__delitem__(name))
        else:
            self._undo.append(lambda: namespace.__setitem__(name, before))

    def wrap_known(self, namespace: dict[str, Any], identities: set[int]) -> None:
        """Wrap the globals of a module that are known functions."""
        if id(namespace) in self._visited:
            return
        self._visited.add(id(namespace))
        for name, value in list(namespace.items()):
            if not name.startswith("_") and callable(value) and id(value) in identities:
                self.patch_global(namespace, name, recorded_whole(value))

    def wrap_registered(self) -> None:
        """Wrap the functions registered by `wrap`."""
        for (_, name), namespace in list(_wrapped.items()):
            original = namespace.get(name, getattr(builtins, name, None))
            if original is not None:
                self.patch_global(namespace, name, recorded_whole(original))


def recorded_whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``function`` so that calls with a Proxy are recorded instead of executed."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found = find_proxy(args, kwargs)
        if found is None:
            return function(*args, **kwargs)
        recorded = found.tracer.create_proxy("call_function", function, args, kwargs)
        recorded.node.meta["is_wrapped"] = True
        return recorded

    return wrapped


def find_proxy(*values: Any) -> Proxy | None:
    """The first Proxy among ``values``, also inside tuples, lists, slices and dictionaries."""
    found: list[Proxy] = []
    map_aggregate(values, lambda each: found.append(each) if isinstance(each, Proxy) else None)
    return found[-1] if found else None


def wrap(fn_or_name: Any) -> Any:
    """Record calls of a function as one node, instead of tracing into it.

    To be called at the top level of a module, or as a decorator there.

    Args:
        fn_or_name: A function, or the name of a global of the module, such as ``"len"``.

    Raises:
        NotImplementedError: The call is not at the top level of a module.
        RuntimeError: ``fn_or_name`` is neither a function nor a name.

    >>> from flambeau import fx
    >>> @fx.wrap
    ... def halved(x):
    ...     return x / 2 if x.sum() > 0 else x
    >>> traced = fx.symbolic_trace(lambda x: halved(x) + 1)
    >>> [node.name for node in traced.graph.nodes]
    ['x', 'halved', 'add', 'output']
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"wrap() takes a function or the name of a global one, got {type(fn_or_name).__name__}"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    assert frame is not None
    caller = frame.f_back
    assert caller is not None
    if caller.f_code.co_name != "<module>":
        raise NotImplementedError(
            f"wrap({name!r}) must be called at the top level of a module, not in a function"
        )
    _wrapped[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name
