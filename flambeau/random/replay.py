"""Deferred draws of code on the meta device.

Nothing is drawn on the meta device and no generator advances. Instead each generator keeps a list
of deferred draws, beginning at its current state. A draw that is made later uses the same numbers
as in the original order, independent of which other draws are made. States that are saved in
between contain a bookmark into the list.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from copy import copy
from typing import Any

from flambeau.core.devices.device import device
from flambeau.core.support.modes import modes
from flambeau.core.values import plan
from flambeau.random import generator as generators
from flambeau.random.generator import Generator, generator_for


class _Draw:
    """One deferred draw.

    Attributes:
        run: A function of the device, a generator and the inputs' arrays that returns the array.
        skip: Advances a generator as `run` would, without drawing; ``None`` if only drawing
            determines how far.
        inputs: Planned arrays for `run`.
    """

    __slots__ = ("inputs", "run", "skip")

    def __init__(self, run: Callable[..., Any], skip: Any, inputs: tuple[Any, ...]) -> None:
        self.run = run
        self.skip = skip
        self.inputs = inputs


class _Sequence:
    """The deferred draws of one generator since its last change.

    Args:
        owner: The generator; the CPU's default one stands for those of all devices.
    """

    def __init__(self, owner: Generator) -> None:
        defaults = generators.default_generators()
        starts = defaults if owner in defaults else (owner,)
        self.moves = _moves(owner)
        self.starts = {(each.device.type, each.device.index or 0): each.save() for each in starts}
        self.seed = generators.current_seed()
        self.draws: list[_Draw] = []
        # For each device, a generator and the number of draws before its state.
        self.cursors: dict[device, tuple[Generator, int]] = {}

    def until(self, number: int, moves: int) -> _Sequence:
        """A copy of the first draws, to which others can be appended."""
        result = copy(self)
        result.moves, result.draws, result.cursors = moves, self.draws[:number], {}
        return result

    def make(self, number: int, where: device, inputs: tuple[Any, ...]) -> Any:
        """Make one of the draws."""
        # Removed until the draw is done, since an interrupted draw leaves an unknown state.
        generator, position = self.cursors.pop(where, (None, 0))
        if generator is None or position > number:
            generator, position = self._at_start(where), 0
        for draw in self.draws[position:number]:
            if draw.skip is None:
                arrays = [_value(each, where) for each in draw.inputs]
                draw.run(where, generator, *arrays)
            else:
                draw.skip(generator)
        array = self.draws[number].run(where, generator, *inputs)
        self.cursors[where] = generator, number + 1
        return array

    def _at_start(self, where: device) -> Generator:
        result = Generator(where)
        start = self.starts.get((where.type, where.index or 0))
        if start is None:
            result.manual_seed(self.seed)
        else:
            result.restore(start)
        return result


def _value(each: Any, where: device) -> Any:
    return plan.carry_out(each, where) if isinstance(each, plan.Planned) else each


def _owner(generator: Generator | None) -> Generator:
    """The generator whose list contains draws from this one, or from the default one."""
    if generator is None or generator in generators.default_generators():
        return generator_for(device("cpu"))
    return generator


def _moves(owner: Generator) -> int:
    return generators.moves_of_all() if owner is _owner(None) else owner.moves


_sequences: weakref.WeakKeyDictionary[Generator, _Sequence] = weakref.WeakKeyDictionary()


def _current(owner: Generator) -> _Sequence | None:
    """The deferred draws since the generator's last change, if there are any."""
    sequence = _sequences.get(owner)
    return sequence if sequence is not None and sequence.moves == _moves(owner) else None


class _Bookmark:
    """A position in a list of draws, from which a restored generator continues.

    It is valid in this process only: copies share it, and pickles omit it.
    """

    def __init__(self, sequence: _Sequence) -> None:
        self.sequence = sequence
        self.number = len(sequence.draws)

    def __call__(self, generator: Generator) -> None:
        owner = _owner(generator)
        _sequences[owner] = self.sequence.until(self.number, _moves(owner))

    def __deepcopy__(self, memo: Any) -> _Bookmark:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def _bookmark(generator: Generator) -> _Bookmark | None:
    sequence = None if modes.trace is not None else _current(_owner(generator))
    return None if sequence is None else _Bookmark(sequence)


generators.bookmark = _bookmark


def planned_draw(
    shape: tuple[int, ...],
    dtype: Any,
    given: Generator | None,
    run: Callable[..., Any],
    skip: Callable[[Generator], None] | None = None,
    inputs: tuple[Any, ...] = (),
) -> Any:
    """The value of a meta Cell for a deferred draw.

    Args:
        shape: The shape of the array.
        dtype: The dtype of the array.
        given: The explicit generator, if any.
        run: A function of the device, a generator and the inputs' arrays that returns the array.
        skip: Advances a generator as ``run`` would; ``None`` if only the draw itself can.
        inputs: Planned arrays for ``run``.
    """
    if not plan.is_recording():
        return plan.planned(shape, dtype, run)
    owner = _owner(given)
    sequence = _current(owner)
    if sequence is None:
        sequence = _sequences[owner] = _Sequence(owner)
    number = len(sequence.draws)
    sequence.draws.append(_Draw(run, skip, inputs))

    def compute(where: device, *arrays: Any) -> Any:
        return sequence.make(number, where, arrays)

    return plan.planned(shape, dtype, compute, inputs)
