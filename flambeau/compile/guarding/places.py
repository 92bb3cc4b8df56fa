"""Places outside a function that hold values, and a fast check of many places."""

from __future__ import annotations

import contextlib
import functools
import keyword
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CellType, FunctionType, MemberDescriptorType
from typing import Any, Self

from flambeau.compile.guarding.where import Call, Where
from flambeau.compile.ownership import NO_STATE, state_of
from flambeau.compile.source import Page
from flambeau.core.support import world
from flambeau.core.support.identity import MISSING


class Outside(tuple[Any, ...], Where):  # noqa: SLOT001 (a tuple has no slots of its own)
    """A place outside a function.

    Args:
        root: The object where the path to the place starts: a dictionary, a closure cell, a
            partial function, a function with defaults, or any other object.
        key: The name or position in the root; ``None`` for the root itself.
        attributes: The attributes that follow on the path.
        label: The name of the place, if it is not the path.
    """

    # A tuple of the root's identity, the key and the attributes: traces compare many places.
    root: Any
    label: str
    key: Any = property(operator.itemgetter(1))
    attributes: tuple[str, ...] = property(operator.itemgetter(2))  # type: ignore[assignment]

    def __new__(
        cls, root: Any, key: Any = None, attributes: tuple[str, ...] = (), label: str = ""
    ) -> Self:
        """A place; arguments as for the class."""
        place = super().__new__(cls, (id(root), key, attributes))
        place.root, place.label = root, label
        return place

    def get(self, call: Call = ()) -> Any:
        """The value now; `MISSING` if there is none."""
        root = self.root
        try:
            if self.key is None:
                value = root
            elif isinstance(root, dict):
                value = dict.__getitem__(root, self.key)
            elif type(root) is CellType:
                value = root.cell_contents
            else:
                value = _find_bound(root, self.key)
            for name in self.attributes:
                value = getattr(value, name)
        except Exception:  # noqa: BLE001 (a user's `__getattr__` may raise anything)
            return MISSING
        return value

    def holder(self) -> Outside:
        """The place of the object whose attribute this is."""
        return Outside(self.root, self.key, self.attributes[:-1])

    def set(self, value: Any, call: Call = ()) -> None:
        """Set the value; `MISSING` removes it."""
        root = self.root
        if value is MISSING and not self.attributes:
            if isinstance(root, dict):
                root.pop(self.key, None)
            elif self.get() is not MISSING:
                del root.cell_contents
        elif self.attributes:
            _set_attribute(self.holder().get(), self.attributes[-1], value)
        elif isinstance(root, dict):
            root[self.key] = value
        elif type(root) is CellType:
            root.cell_contents = value
        else:
            _set_bound(root, self.key, value)

    def __str__(self) -> str:
        if self.label:
            return self.label
        name = self.key
        if not isinstance(name, str):
            try:
                name = self.root.__name__
            except Exception:  # noqa: BLE001 (a user's `__getattr__` may raise anything)
                name = None
            name = name if isinstance(name, str) else type(self.root).__name__
        return ".".join((name, *self.attributes))


def _find_bound(function: Any, key: int | str) -> Any:
    """An argument that is bound by a partial function, or by a function's defaults."""
    positional, named = _bound(function)
    return named.get(key, MISSING) if isinstance(key, str) else positional[key]


def _set_bound(function: Any, key: int | str, value: Any) -> None:
    positional, named = _bound(function)
    if isinstance(key, str):
        named[key] = value
        return
    changed = (*positional[:key], value, *positional[key + 1 :])
    if isinstance(function, functools.partial):
        state = (function.func, changed, function.keywords, vars(function) or None)
        function.__setstate__(state)  # pyright: ignore[reportAttributeAccessIssue]
    else:
        function.__defaults__ = changed


def _bound(function: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(function, functools.partial):
        return function.args, function.keywords
    return function.__defaults__ or (), function.__kwdefaults__ or {}


def _set_attribute(holder: Any, name: str, value: Any) -> None:
    """Set an attribute without calling the ``__setattr__`` of its class."""
    attributes = getattr(holder, "__dict__", {})
    if name == "__class__":
        holder.__class__ = value
    elif value is MISSING:
        delete = type.__delattr__ if isinstance(holder, type) else object.__delattr__
        with contextlib.suppress(AttributeError):
            delete(holder, name)
    elif isinstance(holder, type):
        type.__setattr__(holder, name, value)
    elif name in attributes:
        attributes[name] = value
    else:
        owner = next((cls for cls in type(holder).__mro__ if name in vars(cls)), None)
        if owner is not None and isinstance(vars(owner)[name], property):
            return  # Its value follows from attributes that are set by themselves.
        if owner is None or isinstance(vars(owner)[name], MemberDescriptorType):
            object.__setattr__(holder, name, value)
        else:
            setattr(owner, name, value)


def name_of(slot: Any) -> Any:
    """The dictionary and the name of an attribute: the same for all slots that hold it."""
    if isinstance(slot, Outside) and slot.key is None and len(slot.attributes) == 1:
        state = state_of(slot.root)
        return (slot if state is NO_STATE else id(state)), slot.attributes[0]
    is_entry = isinstance(slot, Outside) and not slot.attributes
    return (id(slot.root), slot.key) if is_entry else slot


class Announced(Outside):
    """A place whose changes are announced, so that programs compare it only after one."""

    def set(self, value: Any, call: Call = ()) -> None:
        """See `Outside.set`."""
        is_other = self.get() is not value
        super().set(value)
        if is_other:
            world.bump()


class Sizes(Outside):
    """The number of entries of several dictionaries together.

    Args:
        root: The dictionaries.

    Attributes:
        held: The names in each dictionary, with the name of the object that has it.
    """

    held: list[tuple[str, set[str]]]

    @staticmethod
    def of_all(states: list[tuple[str, Mapping[str, Any]]]) -> list[Sizes]:
        """Places of 256 dictionaries each: Python cannot compile sums of thousands of terms."""
        return [Sizes.of(states[i : i + 256]) for i in range(0, len(states), 256)]

    @staticmethod
    def of(states: list[tuple[str, Mapping[str, Any]]]) -> Sizes:
        """The place of dictionaries, each with the name of the object that has it."""
        place = Sizes([state for _, state in states])
        place.held = [(label, {*state}) for label, state in states]
        return place

    def get(self, call: Call = ()) -> int:
        """The number now."""
        return sum(map(len, self.root))

    def changes(self) -> Iterator[tuple[str, Any, Any]]:
        """The attributes that were added or removed, each with its values before and now."""
        for (label, names), state in zip(self.held, self.root, strict=True):
            for name in names.symmetric_difference(state):
                before = MISSING if name in state else "present"
                yield f"{label}.{name}", before, state.get(name, MISSING)


class Returned(Outside):
    """The result of a call, such as that of the ``get`` of a context variable.

    Args:
        root: The function to call.
    """

    def get(self, call: Call = ()) -> Any:
        """The result now; `MISSING` if the call raises."""
        try:
            return self.root()
        except LookupError:
            return MISSING

    def set(self, value: Any, call: Call = ()) -> None:
        """Do nothing: the result of a call cannot be set."""


class Variable(Returned):
    """The value of a context variable.

    Args:
        root: Its ``get``.
    """

    def set(self, value: Any, call: Call = ()) -> None:
        """Set the variable; `MISSING` leaves it, since only a token removes the value."""
        if value is not MISSING:
            self.root.__self__.set(value)


def check_of(places: Iterable[tuple[Outside, Any]], page: Page | None = None) -> Callable[[], bool]:
    """A function that tells whether each place holds its object.

    Every call of a compiled function runs it. It is one generated expression, such as
    ``r0["rate"] is v1 and r2.scale is v3``, which takes a sixth of the time of a loop.

    Args:
        places: The places, with their objects, which are held from now on.
        page: The page to write the function on; a new one by default.
    """
    page, terms = page or Page(), []
    for place, value in places:
        held = page.name(value, "v")
        if isinstance(place, Sizes):
            sizes = [f"len({page.name(each, 'r')})" for each in place.root]
            terms.append(f"{' + '.join(sizes)} == {held}")
        elif term := _term(place, value, page.name(place.root, "r"), held):
            terms.append(term)
        else:
            terms.append(f"{page.name(place.get, 'f')}() is {held}")
    expression = " and ".join(terms) or "True"
    lines = (
        "try:",
        f"    return {expression}",
        "except (AttributeError, LookupError, TypeError, ValueError):",
        "    return False",
    )
    return page.function("check()", lines)


def _term(place: Outside, value: Any, root: str, name: str) -> str | None:
    """The expression for whether a place holds ``value``, named ``name``; ``None`` without one."""
    if isinstance(place, Returned):
        return None
    if value is not MISSING:
        present = _expression(place, root)
        return present and f"{present} is {name}"
    if not place.attributes:
        return f"{place.key!r} not in {root}" if isinstance(place.root, dict) else None
    holder = _expression(place.holder(), root)
    return holder and f"not hasattr({holder}, {place.attributes[-1]!r})"


def _expression(place: Outside, root: str) -> str | None:
    """The expression for a place; ``None`` if Python's syntax has none."""
    if not all(name.isidentifier() and not keyword.iskeyword(name) for name in place.attributes):
        return None
    if place.key is None:
        start = root
    elif type(place.root) is dict:
        start = f"{root}[{place.key!r}]"
    elif type(place.root) is CellType:
        start = f"{root}.cell_contents"
    elif isinstance(place.root, functools.partial):
        start = f"{root}.{'keywords' if isinstance(place.key, str) else 'args'}[{place.key!r}]"
    elif isinstance(place.root, FunctionType):
        kind = "__kwdefaults__" if isinstance(place.key, str) else "__defaults__"
        start = f"{root}.{kind}[{place.key!r}]"
    else:
        return None
    return ".".join((start, *place.attributes))
