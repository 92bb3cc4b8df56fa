"""Stand-ins: subclasses of lists and dictionaries that tell a `Watch` of questions and changes."""

from __future__ import annotations

import copy
import functools
import operator
from collections import deque
from collections.abc import Callable
from typing import Any

import jax

from flambeau.compile.contents import KINDS
from flambeau.core.announcing import CHANGES
from flambeau.core.pytree import PASSES_FOR


def _reading(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        self._watch.whole()
        return self._watch.run(name, *args)

    return method


def _of_copy(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        return function(self._watch.plain(), *args)

    return method


def _rewriting(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._watch.rewrite(name, *args, **kwargs)

    return method


def _len(self: Any) -> int:
    self._watch.ask(len)
    return self._watch.run("__len__")


def _bool(self: Any) -> bool:
    watch = self._watch
    # Members that the trace has added exist at each call.
    if not (watch.suffix or any(watch.run("__contains__", key) for key in watch.touched)):
        watch.ask(bool)
    return watch.run("__len__") > 0


def _get_position(self: Any, key: Any) -> Any:
    watch = self._watch
    if not isinstance(key, int) or (watch.changed and not -watch.suffix <= key < 0):
        watch.whole()
    elif not watch.changed:
        watch.item(key)
    return watch.run("__getitem__", key)


def _set_position(self: Any, key: Any, value: Any) -> None:
    if key == slice(None):
        _clear(self)
        _extend(self, value)
    else:
        self._watch.rewrite("__setitem__", key, value)


def _delete_position(self: Any, key: Any) -> None:
    if key == slice(None):
        _clear(self)
    else:
        self._watch.rewrite("__delitem__", key)


def _append(self: Any, value: Any) -> None:
    self._watch.change("append", value)
    self._watch.suffix += 1


def _extend(self: Any, values: Any) -> None:
    values = [*values]
    self._watch.change("extend", values)
    self._watch.suffix += len(values)


def _extend_in_place(self: Any, values: Any) -> Any:
    _extend(self, values)
    return self


def _insert(self: Any, index: int, value: Any) -> None:
    watch = self._watch
    # At the front of a list, the result does not depend on the other members.
    at_front = index == 0 and watch.kind is list
    (watch.change if at_front else watch.rewrite)("insert", index, value)


def _append_left(self: Any, value: Any) -> None:
    self._watch.change("appendleft", value)
    self._watch.suffix = 0


def _extend_left(self: Any, values: Any) -> None:
    for value in values:
        _append_left(self, value)


def _clear(self: Any) -> None:
    self._watch.change("clear")
    self._watch.known, self._watch.suffix = True, 0


def _contains(self: Any, key: Any) -> bool:
    if key not in self._watch.touched:
        self._watch.ask(operator.contains, key)
    return self._watch.run("__contains__", key)


def _get_item(self: Any, key: Any) -> Any:
    factory = getattr(self, "default_factory", None)
    if factory is not None:
        return self._watch.reach(key, factory)
    self._watch.item(key)
    return self._watch.run("__getitem__", key)


def _get(self: Any, key: Any, default: Any = None) -> Any:
    self._watch.item(key)
    return self._watch.run("get", key, default)


def set_item(self: Any, key: Any, value: Any) -> None:
    """Set an item of a dictionary's stand-in."""
    self._watch.change("__setitem__", key, value)
    self._watch.touched.add(key)


def _delete_item(self: Any, key: Any) -> None:
    if not _contains(self, key):
        raise KeyError(key)
    self._watch.change("__delitem__", key)
    self._watch.touched.add(key)


def _pop_item(self: Any, key: Any, *default: Any) -> Any:
    watch = self._watch
    watch.item(key)
    if not watch.run("__contains__", key):
        return watch.run("pop", key, *default)
    value = watch.run("__getitem__", key)
    watch.change("__delitem__", key)
    watch.touched.add(key)
    return value


def _set_default(self: Any, key: Any, default: Any = None) -> Any:
    if type(default) in KINDS:
        return self._watch.reach(key, functools.partial(copy.copy, copy.copy(default)), default)
    return self._watch.reach(key, lambda: default)


def _update(self: Any, *args: Any, **kwargs: Any) -> None:
    for key, value in dict(*args, **kwargs).items():
        set_item(self, key, value)


def _update_in_place(self: Any, other: Any) -> Any:
    _update(self, other)
    return self


# The methods that all kinds of stand-ins share.
_OF_ALL: dict[str, Any] = {
    "__slots__": ("_watch",),
    "__module__": __name__,
    "__hash__": None,
    "__eq__": _of_copy(operator.eq),
    "__ne__": _of_copy(operator.ne),
    "__len__": _len,
    "__bool__": _bool,
    "__iter__": _reading("__iter__"),
    "__reversed__": _reading("__reversed__"),
    "copy": _of_copy(lambda plain: plain),
    "__copy__": _of_copy(lambda plain: plain),
    "__reduce_ex__": _of_copy(lambda plain, protocol: plain.__reduce_ex__(protocol)),
    "clear": _clear,
}


def _of_sequences(kind: type) -> dict[str, Any]:
    orders = ("__lt__", "__le__", "__gt__", "__ge__", "__add__", "__mul__")
    own = {
        "__contains__": _reading("__contains__"),
        "index": _reading("index"),
        "count": _reading("count"),
        "__rmul__": _of_copy(operator.mul),
        **{name: _of_copy(getattr(operator, name)) for name in orders},
        "__getitem__": _get_position,
        "__setitem__": _set_position,
        "__delitem__": _delete_position,
        "append": _append,
        "extend": _extend,
        "__iadd__": _extend_in_place,
        "insert": _insert,
    }
    return {**own, "appendleft": _append_left, "extendleft": _extend_left} if kind is deque else own


def _of_dictionaries() -> dict[str, Any]:
    return {
        **{name: _reading(name) for name in ("keys", "values", "items")},
        "__or__": _of_copy(operator.or_),
        "__ror__": _of_copy(lambda plain, other: other | plain),
        "__contains__": _contains,
        "__getitem__": _get_item,
        "get": _get,
        "__setitem__": set_item,
        "__delitem__": _delete_item,
        "pop": _pop_item,
        "setdefault": _set_default,
        "update": _update,
        "__ior__": _update_in_place,
    }


def _unless_inside(kind: type, name: str, method: Any) -> Any:
    """``method``, or Python's own method if that is called by another one of Python's."""

    def either(self: Any, *args: Any, **kwargs: Any) -> Any:
        chosen = getattr(kind, name) if self._watch.log.inside else method
        return chosen(self, *args, **kwargs)

    return either if callable(method) else method


def _subclass(kind: type) -> type:
    particular = _of_dictionaries() if issubclass(kind, dict) else _of_sequences(kind)
    # Other changes depend on the content.
    methods = {**{name: _rewriting(name) for name in CHANGES[kind]}, **_OF_ALL, **particular}
    members = {name: _unless_inside(kind, name, each) for name, each in methods.items()}
    # `type(stand_in)()` gives a new container of the original's class.
    members["__new__"] = staticmethod(lambda cls, *args, **kwargs: kind(*args, **kwargs))
    return type(f"Traced{kind.__name__}", (kind,), members)


#: The class of stand-ins for each kind of container.
STAND_INS = {kind: _subclass(kind) for kind in KINDS}


def _flatten(stand_in: Any) -> tuple[list[Any], Any]:
    """The members and keys: for JAX, stand-ins are the containers that they replace."""
    if isinstance(stand_in, dict):
        return [*stand_in.values()], tuple(stand_in)
    return [*stand_in], None


def _unflatten(keys: Any, members: Any) -> Any:
    return [*members] if keys is None else dict(zip(keys, members, strict=True))


for _kind, _cls in STAND_INS.items():
    PASSES_FOR[_cls] = _kind
    if _kind is not deque:
        jax.tree_util.register_pytree_node(_cls, _flatten, _unflatten)
