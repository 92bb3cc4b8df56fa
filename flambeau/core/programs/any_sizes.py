"""Plans for sizes that were never seen before, without tracing.

Functions that differ in nothing but sizes are one `Family`: operators with arrays of other shapes
as arguments, and gradients and views that are bound to other shapes. Once a member is needed that
differs from the one before, it is traced with the sizes that differ left open (`interpreter`), and
later members are filled in. See `interpreter/sizes.py` for why they are what tracing would give.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import pickle
import types
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.core import ShapedArray

from flambeau.core import interpreter
from flambeau.core.programs.store import Store
from flambeau.core.support.generations import Generations
from flambeau.core.support.jax_private import ArrayImpl
from flambeau.core.types import Function, Key, Leaf, PyTreeDef, Shape

#: Plans and templates with larger constants (in bytes) are not kept on disk.
MOST_KEPT = 2**18

# A family has so many templates at most. For a pattern as many are made without one being used.
_MOST = 16


class _UnknownForm(Exception):
    """A function is bound to something that may not be compared."""


class Form(NamedTuple):
    """A function, or arguments, without sizes, and the sizes.

    Attributes:
        key: Equal for functions that differ in sizes only.
        sizes: All integers.
    """

    key: Hashable
    sizes: tuple[int, ...]


def form_of(function: Function) -> Form | None:
    """The form of a function; ``None`` if it cannot be told."""
    sizes: list[int] = []
    try:
        key = _key_of(function, sizes)
        hash(key)
    except (_UnknownForm, TypeError, RecursionError):
        return None
    return Form(key, tuple(sizes))


def _key_of(value: Any, sizes: list[int]) -> Any:
    kind = type(value)
    if kind is int:
        sizes.append(value)
        return _SIZE
    if kind is tuple:
        return tuple([_key_of(each, sizes) for each in value])
    if kind is functools.partial:
        if value.keywords:
            raise _UnknownForm
        return kind, _key_of(value.func, sizes), _key_of(value.args, sizes)
    if kind in _AVALS:
        sizes.extend(value.shape)
        return kind, value.dtype, len(value.shape), bool(getattr(value, "weak_type", False))
    if kind is types.MethodType and _is_record(value.__self__):
        return kind, value.__func__, _key_of(value.__self__, sizes)
    if _is_record(value):
        return kind, tuple([_key_of(each, sizes) for each in _fields(value)])
    if kind in _BY_TEXT:
        return kind, repr(value)
    if isinstance(value, np.generic | np.ndarray | float | complex | tuple):
        raise _UnknownForm
    return value


# Stands for a size in a key.
_SIZE = object()

_AVALS = {ShapedArray, jax.ShapeDtypeStruct}

# Zeros compare equal whatever their sign is.
_BY_TEXT = {bool, float, complex}


def _is_record(value: object) -> bool:
    """Whether a value is a frozen dataclass of flambeau's, such as a step of a view."""
    kind = type(value)
    parameters = getattr(kind, "__dataclass_params__", None)
    return (
        parameters is not None
        and parameters.frozen
        and (kind.__module__.partition(".")[0] == "flambeau")
    )


def _fields(value: Any) -> list[object]:
    return [getattr(value, each.name) for each in dataclasses.fields(value)]


def _with_sizes(value: Any, sizes: Iterator[Any]) -> Any:
    """A function like ``value`` for other sizes, in the order of `form_of`."""
    kind = type(value)
    if kind is int:
        return next(sizes)
    if kind is tuple:
        return tuple([_with_sizes(each, sizes) for each in value])
    if kind is functools.partial:
        function = _with_sizes(value.func, sizes)
        return functools.partial(function, *_with_sizes(value.args, sizes))
    if kind in _AVALS:
        shape = tuple([next(sizes) for _ in value.shape])
        return jax.ShapeDtypeStruct(shape, value.dtype, weak_type=_is_weak(value))
    if kind is types.MethodType and _is_record(value.__self__):
        return types.MethodType(value.__func__, _with_sizes(value.__self__, sizes))
    if _is_record(value):
        return kind(*[_with_sizes(each, sizes) for each in _fields(value)])
    return value


def _is_weak(array: object) -> bool:
    return bool(getattr(array, "weak_type", False))


class _Pattern(NamedTuple):
    """Which of a family's sizes are left open.

    Attributes:
        fixed: The places of the others.
        places: The places of open sizes, one for each that are equal.
        equal: Pairs of places of equal sizes.
    """

    fixed: tuple[int, ...]
    places: tuple[int, ...]
    equal: tuple[tuple[int, int], ...]

    def marked(self, sizes: Shape) -> list[int | str]:
        """``sizes``, with names in the place of open ones."""
        found: list[int | str] = [*sizes]
        for i in self.places:
            found[i] = f"size {i}"
        for i, j in self.equal:
            found[i] = found[j]
        return found


def _pattern_of(known: tuple[int, ...], sizes: tuple[int, ...]) -> _Pattern:
    """The pattern in which sizes that differ are open, and equal where both members' are."""
    fixed, equal = [], []
    places: dict[tuple[int, int], int] = {}
    for i, pair in enumerate(zip(known, sizes, strict=True)):
        if pair[0] == pair[1]:
            fixed.append(i)
        elif places.setdefault(pair, i) != i:
            equal.append((i, places[pair]))
    return _Pattern(tuple(fixed), tuple(places.values()), tuple(equal))


class _Open(NamedTuple):
    """A template for a pattern.

    Attributes:
        pattern: Which sizes it leaves open.
        values: The other sizes.
        template: Takes the open sizes.
        tree: The structure of the results.
    """

    pattern: _Pattern
    values: list[int]
    template: interpreter.Template
    tree: PyTreeDef

    def plan(self, sizes: tuple[int, ...]) -> interpreter.Plan | None:
        """The plan for all sizes; ``None`` if this is for others."""
        pattern = self.pattern
        if [sizes[i] for i in pattern.fixed] != self.values:
            return None
        if any(sizes[i] != sizes[j] for i, j in pattern.equal):
            return None
        return self.template.plan([sizes[i] for i in pattern.places])


#: Sizes of which some may be open: numbers, `interpreter.Size`s, or names in their place.
Sizes: TypeAlias = list[Any]
#: A plan, and the structure of its results.
Filled: TypeAlias = tuple[interpreter.Plan, PyTreeDef]


class Source(NamedTuple):
    """A member of a family, with other sizes.

    Attributes:
        trace: Takes the sizes, of which some may be open; traces it, as a `jax.stages.Traced`.
        place: Takes the sizes, with names in the place of open ones; gives the store and the key
            of its template, or ``None`` where nothing is kept.
    """

    trace: Callable[[Sizes], jax.stages.Traced]
    place: Callable[[Sizes], tuple[Store, str] | None]


class Family:
    """Functions with arguments that differ in sizes only."""

    __slots__ = ("_known", "_made", "_open", "_refused", "_unproved")

    def __init__(self) -> None:
        # Templates, and members that were traced, the last ones first.
        self._open: list[_Open] = []
        self._known: list[tuple[tuple[int, ...], interpreter.Plan]] = []
        # A template that the next member is compared with, and its place on the disk.
        self._unproved: tuple[_Open, tuple[Store, str] | None] | None = None
        # How many templates were made for a pattern since one was used.
        self._made: Counter[_Pattern] = Counter()
        # Patterns for which there is no template.
        self._refused: set[_Pattern] = set()

    def plan(self, sizes: tuple[int, ...]) -> Filled | None:
        """The plan of the member with these sizes, and the structure of its results."""
        for each in self._open:
            plan = each.plan(sizes)
            if plan is not None:
                self._made[each.pattern] = 0
                return plan, each.tree
        return None

    def note(self, sizes: tuple[int, ...], plan: interpreter.Plan) -> None:
        """Note the plan of a member that was traced."""
        self._known.insert(0, (sizes, plan))
        del self._known[_MOST:]
        unproved, self._unproved = self._unproved, None
        if unproved is not None:
            self._compare(*unproved, sizes, plan)

    def open(self, sizes: tuple[int, ...], source: Source) -> Filled | None:
        """`plan`, of a template from the disk, or made for it, if that is possible.

        Args:
            sizes: Those of the member that is asked for.
            source: Gives the member with other sizes.
        """
        if len(self._refused) >= _MOST:
            return None
        patterns = [(_pattern_of(known, sizes), known, plan) for known, plan in self._known]
        for pattern, known, plan in sorted(patterns, key=lambda each: len(each[0].places)):
            # Functions treat sizes of one in a way of their own.
            is_possible = pattern.places and all(sizes[i] > 1 for i in pattern.places)
            if not is_possible or pattern in self._refused:
                continue
            place = source.place(pattern.marked(sizes))
            if place is not None and (kept := _loaded(pattern, sizes, *place)) is not None:
                self._open.insert(0, kept[0])
                del self._open[_MOST:]
                return kept[1]
            self._made[pattern] += 1
            found = _opened(pattern, sizes, source.trace) if self._made[pattern] <= _MOST else None
            filled = None if found is None else found.plan(sizes)
            if found is None or filled is None:
                self._refused.add(pattern)
                return None
            is_right = self._compare(found, place, known, plan)
            if is_right is None:
                self._unproved = found, place
            return (filled, found.tree) if is_right else None
        return None

    def _compare(
        self,
        found: _Open,
        place: tuple[Store, str] | None,
        sizes: tuple[int, ...],
        plan: interpreter.Plan,
    ) -> bool | None:
        """Use and keep a template if it gives this plan; ``None`` if it is for other sizes."""
        filled = found.plan(sizes)
        if filled is None:
            return None
        is_right = interpreter.are_equal(filled, plan)
        if is_right:
            self._open.insert(0, found)
            del self._open[_MOST:]
            if place is not None:
                _keep(found, *place)
        else:
            self._refused.add(found.pattern)
        return is_right


def _opened(
    pattern: _Pattern, sizes: tuple[int, ...], trace: Callable[[Sizes], jax.stages.Traced]
) -> _Open | None:
    """The template for a pattern, by the example of ``sizes``; see `Family.open`."""
    record = interpreter.Record([sizes[i] for i in pattern.places])
    left_open: Sizes = [*sizes]
    for i, size in zip(pattern.places, interpreter.sizes_of(record), strict=True):
        left_open[i] = size
    for i, j in pattern.equal:
        left_open[i] = left_open[j]
    moved = gc.get_stats()[0]["collections"]
    try:
        traced = trace(left_open)
        template = interpreter.Template(traced.jaxpr, record)
    except Exception:  # noqa: BLE001 - it asks for more than sizes without values can tell.
        return None
    finally:
        record.is_open = False
        # JAX catches an error for each open size in a frame that keeps it. With it, all frames from
        # there to the user's would stay until the collector runs, and the tensors in them.
        gc.collect(0 if moved == gc.get_stats()[0]["collections"] else 1)
    return _Open(pattern, [sizes[i] for i in pattern.fixed], template, traced.out_tree)


def _loaded(
    pattern: _Pattern, sizes: tuple[int, ...], store: Store, key: str
) -> tuple[_Open, Filled] | None:
    """A template from the disk, and what it gives for these sizes."""
    kept = store.get(key)
    if kept is None:
        return None
    try:
        found = _Open(pattern, [sizes[i] for i in pattern.fixed], *pickle.loads(kept))
        plan = found.plan(sizes)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it can be made again.
        store.discard(key)
        return None
    return None if plan is None else (found, (plan, found.tree))


def _keep(found: _Open, store: Store, key: str) -> None:
    """Write a template to the disk."""
    with contextlib.suppress(Exception):  # Structures of results that cannot be pickled.
        content = pickle.dumps((found.template, found.tree))
        if len(content) <= MOST_KEPT:
            store.put(key, content)


_families = Generations()


class Member(NamedTuple):
    """A call with arguments of certain types, as one of a family.

    Attributes:
        family: All that differ in sizes only.
        sizes: Its own, of the function and of the arguments.
        kinds: The arguments without sizes.
    """

    family: Family
    sizes: tuple[int, ...]
    kinds: list[Hashable]


def member_of(form: Form, key: Key) -> Member:
    """The member for a function and a key of `first_gear`."""
    sizes = [*form.sizes]
    kinds = [*map(functools.partial(_without_sizes, sizes), key[3:])]
    family_key = (form.key, *key[:3], *kinds)
    try:
        family = _families[family_key]
    except KeyError:
        family = _families[family_key] = Family()
    return Member(family, tuple(sizes), kinds)


def _without_sizes(sizes: list[int], fact: object) -> Any:
    """A fact of `first_gear` about an argument, whose sizes are added to ``sizes``."""
    if type(fact) is not tuple:
        return fact
    if len(fact) == 3:
        sizes.extend(fact[2])
        return fact[:2], len(fact[2])
    aval, committed = fact
    shape = aval.shape
    sizes.extend(shape)
    return aval.dtype, aval.weak_type, committed, len(shape)


def with_sizes(function: Function, leaves: list[Leaf], sizes: Sizes) -> tuple[Function, list[Leaf]]:
    """The function and the arguments with other sizes, in the order of `Member`."""
    left = iter(sizes)
    function = _with_sizes(function, left)
    arguments = []
    for each in leaves:
        if isinstance(each, ArrayImpl | np.ndarray | np.generic):
            shape = tuple([next(left) for _ in each.shape])
            weak = _is_weak(each)
            each = jax.ShapeDtypeStruct(shape, each.dtype, weak_type=weak)
        arguments.append(each)
    return function, arguments
