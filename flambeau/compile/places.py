"""Places outside a function where it finds values, and one quick look at many of them."""

from __future__ import annotations

import contextlib
import functools
import keyword
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CellType, FunctionType, MemberDescriptorType
from typing import Any, Self

from flambeau.compile.source import Page
from flambeau.compile.where import Call, Where
from flambeau.core.identity import MISSING


class Outside(tuple[Any, ...], Where):  # noqa: SLOT001 (a tuple has no slots of its own)
    """A value that a function finds outside itself.

    Args:
        root: Where the way to it begins: a dictionary, a closure cell, a partial function or a
            function with defaults, or the first object.
        key: Its name or position there; ``None`` for the object itself.
        attributes: The attributes that lead on from there.
        label: Its name, if that is not the way from the root.
    """

    # A tuple of the root's identity, the key and the attributes, since traces compare places often.
    root: Any
    label: str
    key: Any = property(operator.itemgetter(1))
    attributes: tuple[str, ...] = property(operator.itemgetter(2))  # type: ignore[assignment]

    def __new__(
        cls, root: Any, key: Any = None, attributes: tuple[str, ...] = (), label: str = ""
    ) -> Self:
        """A place; arguments as for the class."""
        made = super().__new__(cls, (id(root), key, attributes))
        made.root, made.label = root, label
        return made

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
        except Exception:  # noqa: BLE001 (a `__getattr__` of the user's may raise anything)
            return MISSING
        return value

    def holder(self) -> Outside:
        """Where the object is whose attribute this is."""
        return Outside(self.root, self.key, self.attributes[:-1])

    def set(self, value: Any, call: Call = ()) -> None:
        """Put another value there; `MISSING` removes the present one."""
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
            except Exception:  # noqa: BLE001 (a `__getattr__` of the user's may raise anything)
                name = None
            name = name if isinstance(name, str) else type(self.root).__name__
        return ".".join((name, *self.attributes))


def _find_bound(function: Any, key: int | str) -> Any:
    """An argument that ``function``, a partial one or one with defaults, is given by itself."""
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
    """Put ``value`` where ``holder`` has its attribute ``name``, past its ``__setattr__``."""
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
            return  # It follows from values that are put back elsewhere.
        if owner is None or isinstance(vars(owner)[name], MemberDescriptorType):
            object.__setattr__(holder, name, value)
        else:
            setattr(owner, name, value)


@dataclass(frozen=True, slots=True)
class Member(Where):
    """An attribute of a module, past its ``__setattr__``.

    Attributes:
        module: The module.
        place: The registry where it stands, "" for plain ones; and its name.
    """

    module: Any
    place: tuple[str, str]

    def get(self, call: Call = ()) -> Any:
        """The value now; `MISSING` if there is none."""
        return self._holder().get(self.place[1], MISSING)

    def set(self, value: Any, call: Call = ()) -> None:
        """Put a value there; `MISSING` removes the present one."""
        if value is MISSING:
            self._holder().pop(self.place[1], None)
        else:
            self._holder()[self.place[1]] = value

    def _holder(self) -> dict[str, Any]:
        registry = self.place[0]
        return vars(self.module)[registry] if registry else vars(self.module)

    def __str__(self) -> str:
        return f"{type(self.module).__name__}.{self.place[1]}"


class Sizes(Outside):
    """How many entries some dictionaries have together.

    Args:
        root: The dictionaries.
    """

    @staticmethod
    def of_all(states: list[Mapping[str, Any]]) -> list[Sizes]:
        """As many as it takes, since Python cannot compile sums of thousands of terms."""
        return [Sizes(states[i : i + 256]) for i in range(0, len(states), 256)]

    def get(self, call: Call = ()) -> int:
        """The number now."""
        return sum(map(len, self.root))


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
        """Nothing: what a call gives cannot be put anywhere."""


class Variable(Returned):
    """The value of a context variable.

    Args:
        root: Its ``get``.
    """

    def set(self, value: Any, call: Call = ()) -> None:
        """Set the variable; `MISSING` leaves it, since only a token takes its value away."""
        if value is not MISSING:
            self.root.__self__.set(value)


def check_of(places: Iterable[tuple[Outside, Any]], page: Page | None = None) -> Callable[[], bool]:
    """A function that says whether each place holds the object that is given with it.

    A compiled function asks this at every call, so it is one expression, such as
    ``r0["rate"] is v1 and r2.scale is v3``, made for these places: a sixth of the time of a loop.

    Args:
        places: The places, with the objects, which are held from now on.
        page: Where the function is written; a page of its own by default.
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
    """How Python asks whether a place holds ``value``, called ``name``, if it can."""
    if isinstance(place, Returned):
        return None
    if value is not MISSING:
        found = _expression(place, root)
        return found and f"{found} is {name}"
    if not place.attributes:
        return f"{place.key!r} not in {root}" if isinstance(place.root, dict) else None
    holder = _expression(place.holder(), root)
    return holder and f"not hasattr({holder}, {place.attributes[-1]!r})"


def _expression(place: Outside, root: str) -> str | None:
    """How Python writes down the way to a place, if it can."""
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
