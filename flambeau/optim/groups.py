"""The groups and the state of an optimizer, which announce every change of their structure.

A step runs one compiled program for all parameters. The program relies on the set of parameters,
their state and the options; values that vary from step to step, such as learning rates, are its
inputs. So the containers here distinguish the two: a changed number is written to a Cell, and any
other change is a change of structure.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, Self

import jax
import numpy as np
from jax.core import Tracer

from flambeau.compile.guarding.freezing import freeze
from flambeau.core.support import world
from flambeau.core.support.announcing import Announcing, announced
from flambeau.core.support.identity import Same
from flambeau.core.support.jax_private import ArrayImpl
from flambeau.core.support.modes import modes
from flambeau.core.values.cell import Cell, next_epoch
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import MadeInsideError, TracedValueError, outside
from flambeau.optim.checks import real
from flambeau.optim.precision import number

# The place of a number: its position in the group's Cell; ~position among the group's tensors; None
# if it is switched off; or a tuple of these.
Position = Any
Layout = tuple[tuple[str, Position], ...]


class Structure:
    """Counts the changes of the properties that an optimizer's programs rely on.

    Args:
        owner: The optimizer.
    """

    version: int

    def __init__(self, owner: Any = None) -> None:
        self.owner = owner
        self.version = 0
        # Whether a program has a number as a constant, whose changes must then be announced.
        self.numbers_are_frozen = False
        # Like `Cell.born`: shows whether a trace has made the optimizer.
        self.born: int = next_epoch()

    @property
    def trace(self) -> Any:
        """The running trace; ``None`` if it has made the optimizer, which ends with the call."""
        trace = modes.trace
        return None if trace is None or trace.is_made_inside(self) else trace

    def change(self) -> None:
        """Record a change."""
        self.version += 1
        world.bump()

    def watch_option(self, group: ParameterGroup, key: str) -> Any:
        """An option of a group, or ``None``; the traced program depends on it, and on the groups.

        Args:
            group: The group with the option.
            key: The name of the option.
        """
        owner, trace = self.owner, self.trace
        if trace is None:
            return dict.get(group, key)
        place = next((i for i, each in enumerate(owner.param_groups) if each is group), None)
        if place is None:
            trace.watch(group, lambda: freeze(dict.get(group, key)), key)
            return dict.get(group, key)
        self.numbers_are_frozen: bool = self.numbers_are_frozen or key in group.numbers

        def present() -> Any:
            groups = owner.param_groups
            return groups[place] if place < len(groups) else {}

        trace.watch(self, lambda: (len(owner.param_groups), Same(present())), place)
        trace.watch(self, lambda: freeze(dict.get(present(), key)), (place, key))
        is_there = dict.__contains__(group, key)
        return trace.read_entry(group, key, (id(self), (place, key))) if is_there else None

    def watch_state(self) -> None:
        """Make the traced program depend on which tensors the state has."""
        state, trace = self.owner.state, self.trace
        if trace is None:
            return
        if trace.watch(self.__dict__, lambda: _structure_of(self.owner.state)):
            trace.before.note(state)
            for entries in dict.values(state):
                trace.before.note(entries)
                for name, value in [*dict.items(entries)]:
                    if isinstance(value, _OFTEN_SET):
                        # Separately, since the program may replace it at each call.
                        trace.watch(entries, functools.partial(_entry, entries, name), name)
                        trace.read_entry(entries, name, (id(entries), name), in_place=True)


# Values of a state's entries that steps replace.
_OFTEN_SET = (Tensor, int, float)


def _structure_of(state: dict[Any, Any]) -> Any:
    """The properties of the state that a program relies on, without its tensors and numbers."""
    return tuple(
        (
            freeze(key),
            Same(entries),
            tuple(
                (name, None if isinstance(each, _OFTEN_SET) else freeze(each))
                for name, each in entries.items()
            ),
        )
        for key, entries in state.items()
    )


def _entry(entries: dict[Any, Any], name: Any) -> Any:
    value = dict.get(entries, name)
    return Same(value) if isinstance(value, Tensor) else freeze(value)


class _OfStructure(Announcing):
    """A container whose changes are changes of an optimizer's `Structure`."""

    __slots__ = ()
    structure: Structure

    def _after_change(self) -> None:
        self.structure.change()


class AnnouncedList(_OfStructure, list[Any]):
    """A list, of parameters or of groups, that announces every change.

    Args:
        elements: The initial elements.
        structure: The `Structure` that records changes.
        convert: Converts each new element.
    """

    __slots__ = ("convert", "structure")

    convert: Callable[[Any], Any]

    def __init__(
        self,
        elements: Iterable[Any],
        structure: Structure,
        convert: Callable[[Any], Any] | None = None,
    ) -> None:
        self.structure: Structure = structure
        self.convert = convert or _unchanged
        super().__init__(map(self.convert, elements))

    @announced
    def append(self, element: Any) -> None:
        super().append(self.convert(element))

    @announced
    def extend(self, elements: Iterable[Any]) -> None:
        super().extend(map(self.convert, elements))

    @announced
    def insert(self, index: Any, element: Any) -> None:
        super().insert(index, self.convert(element))

    @announced
    def __setitem__(self, index: Any, value: Any) -> None:
        converted = list(map(self.convert, value)) if isinstance(index, slice) else None
        super().__setitem__(index, self.convert(value) if converted is None else converted)

    def __iadd__(self, elements: Iterable[Any]) -> AnnouncedList:
        self.extend(elements)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def _unchanged(element: Any) -> Any:
    return element


class _AnnouncedDict(_OfStructure, dict[Any, Any]):
    """A dictionary whose entries are all set by ``self[key] = value``."""

    __slots__ = ()

    def update(self, *args: Any, **entries: Any) -> None:
        """Set several entries."""
        for key, value in dict(*args, **entries).items():
            self[key] = value

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The entry ``key``, set to ``default`` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, entries: Any) -> Self:
        self.update(entries)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class ParameterState(_AnnouncedDict):
    """The state of one parameter, by name: ``exp_avg``, ``step`` and the like."""

    __slots__ = ("structure",)

    def __init__(self, entries: Any, structure: Structure) -> None:
        self.structure: Structure = structure
        super().__init__(entries)

    def _before_change(self) -> None:
        # A program that is being traced then makes the change at each call.
        if self.structure.trace is not None:
            self.structure.trace.touch(self)

    def __setitem__(self, name: Any, value: Any) -> None:
        is_traced = isinstance(value, Tensor) and isinstance(value._cell.array, Tracer)
        if is_traced and name not in self and self.structure.trace is not None:
            raise MadeInsideError(
                f"optimizer state {name!r} was made inside a compiled function, at several "
                "calls, so its value would not outlive them; make it once, or in the "
                "optimizer's __init__"
            )
        super().__setitem__(name, value)


class OptimizerState(_AnnouncedDict, defaultdict[Any, Any]):
    """The state of every parameter; a missing one is created empty on access."""

    default_factory: Any

    def __init__(self, entries: Any, structure: Structure) -> None:
        super().__init__()
        self.move_to(structure)
        for key, value in dict(entries).items():
            self[key] = value

    def move_to(self, structure: Structure) -> None:
        """Become the state of another optimizer, which is notified of changes from now on."""
        self.structure = structure
        self.default_factory: Any = lambda: ParameterState((), structure)
        for entries in dict.values(self):
            if isinstance(entries, ParameterState):
                entries.structure = structure

    # A step written with tensor operators reads its state here while a program is traced.

    def __getitem__(self, key: Any) -> Any:
        if modes.trace is not None:
            self.structure.watch_state()
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """The state of ``key``, or ``default``."""
        if modes.trace is not None:
            self.structure.watch_state()
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        if modes.trace is not None:
            self.structure.watch_state()
        return super().__contains__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, dict) and not isinstance(value, ParameterState):
            entries, value = value, ParameterState((), self.structure)
            if modes.trace is not None and isinstance(self.get(key), ParameterState):
                # A program changes the entries of the present dictionary.
                value = self[key]
                for name in [each for each in value if each not in entries]:
                    del value[name]
            value.update(entries)
        super().__setitem__(key, value)


class ParameterGroup(_AnnouncedDict):
    """A dictionary of parameters with common options; its numbers are mirrored in a Cell.

    ``group["lr"]`` is the assigned number or tensor. All numbers of the group are also in one Cell,
    which the compiled step reads, so that a changed learning rate takes effect at the next step
    without a new program.

    Args:
        entries: The options and ``"params"``.
        numbers: The names of the options that are numbers, or tuples of them.
        switches: The numbers that select another formula if they are zero.
        structure: The `Structure` that records every change except that of a number's value.
    """

    __slots__ = ("cell", "layout", "numbers", "structure", "switches", "tensors")

    layout: Any
    numbers: tuple[str, ...]
    structure: Structure
    switches: tuple[str, ...]
    tensors: tuple[Tensor, ...]

    def __init__(
        self,
        entries: dict[str, Any],
        numbers: tuple[str, ...],
        switches: tuple[str, ...],
        structure: Structure,
    ) -> None:
        super().__init__(entries)
        self.move_to(numbers, switches, structure)

    def move_to(
        self, numbers: tuple[str, ...], switches: tuple[str, ...], structure: Structure
    ) -> None:
        """Become a group of another optimizer; arguments as for the class."""
        self.numbers, self.switches, self.structure = numbers, switches, structure
        dict.__setitem__(self, "params", AnnouncedList(dict.get(self, "params", ()), structure))
        values, self.layout, self.tensors = self._lay_out({})
        self.cell: Cell = Cell(self._vector(values))

    def __getitem__(self, key: str) -> Any:
        found = dict.__getitem__(self, key)
        return found if modes.trace is None else self.structure.watch_option(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """The option ``key``, or ``default``."""
        found = None if modes.trace is None else self.structure.watch_option(self, key)
        return dict.get(self, key, default) if found is None else found

    def __setitem__(self, key: str, value: Any) -> None:
        trace = None if modes.trace is None else self.structure.trace
        if trace is not None:
            self._set_traced(trace, key, value)
        if key == "params":
            value = AnnouncedList(value, self.structure)
        if key not in self.numbers:
            dict.__setitem__(self, key, value)
            self.structure.change()
            return
        values, layout, tensors = self._lay_out({key: value})
        dict.__setitem__(self, key, value)
        same = layout == self.layout and all(map(_is, tensors, self.tensors))
        self.layout, self.tensors = layout, tensors
        self.cell.write(self._vector(values))
        if not same:
            self.structure.change()
        elif self.structure.numbers_are_frozen:
            world.bump()

    def _set_traced(self, trace: Any, key: str, value: Any) -> None:
        """Note that a program sets an option of a user's optimizer at each call; refuse others."""
        if key not in self.numbers and key != "params":
            trace.set_entry(self, key)
            return
        before = dict.get(self, key, self)
        if before is value or (isinstance(value, float | int | tuple) and before == value):
            return
        raise TracedValueError(
            f"the optimizer's option {key!r} was set inside a compiled function, where it would "
            "change once, while tracing, and not at every call; step the scheduler, or set the "
            "option, outside the compiled function"
        )

    def _vector(self, values: list[float]) -> Any:
        """The numbers on the device of the parameters, so that no step has to copy them.

        They are not committed to the device, since parameters may move, or be on several.
        """
        first = next(iter(dict.__getitem__(self, "params")), None)
        # A sparse tensor has no Cell; `SparseAdam` refuses it later.
        array: Any = None if first is None or first.is_sparse else first._cell.array
        devices = array.devices() if type(array) is ArrayImpl else set()
        with outside(), jax.default_device(*devices) if len(devices) == 1 else nullcontext():
            return jax.device_put(np.array(values, np.float64))

    def _lay_out(self, changes: dict[str, Any]) -> tuple[list[float], Layout, tuple[Tensor, ...]]:
        """The numbers with ``changes``: their values, their places, and the tensors among them."""
        values: list[float] = []
        tensors: list[Tensor] = []

        def place(name: str, value: Any) -> Position:
            if value is None:
                return None
            if isinstance(value, tuple | list):
                return tuple(place(name, each) for each in value)
            if isinstance(value, Tensor):
                tensors.append(value)
                return ~(len(tensors) - 1)
            values.append(real(name, value))
            return None if name in self.switches and not values[-1] else len(values) - 1

        layout = tuple(
            (name, place(name, changes[name] if name in changes else dict.get(self, name)))
            for name in self.numbers
        )
        return values, layout, tuple(tensors)


def _is(one: Any, other: Any) -> bool:
    return one is other


def pick(layout: Layout, vector: Any, tensors: list[Any]) -> dict[str, Any]:
    """The numbers by name, in the form for a rule: the results of `number`, in tuples, or ``None``.

    Args:
        layout: The place of each number.
        vector: The array of the group's Cell.
        tensors: The arrays of the tensors among the group's numbers.
    """

    def find(place: int) -> Any:
        return number(vector[place] if place >= 0 else tensors[~place].reshape(()))

    return {name: jax.tree.map(find, place) for name, place in layout}
