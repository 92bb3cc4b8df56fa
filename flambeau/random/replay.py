"""The draws that code on the meta device would have made, to be made later.

Nothing is drawn on the meta device and no generator moves. Instead each generator keeps a list of
what would have been drawn from it, beginning at the state it was in. A draw that is made later
takes its numbers from where they would have been, whichever of the others are made at all. What is
saved of a generator's state meanwhile has a bookmark in that list.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from copy import copy
from typing import Any

from flambeau.core import plan
from flambeau.core.device import device
from flambeau.core.modes import modes
from flambeau.random import generator as generators
from flambeau.random.generator import Generator, generator_for


class _Draw:
    """One draw that was not made.

    Attributes:
        run: Takes the device, a generator and the inputs' arrays, and gives the array.
        skip: Moves a generator as far as `run` would, without the numbers; ``None`` where only
            drawing them tells how far that is.
        inputs: Planned arrays that `run` takes.
    """

    __slots__ = ("inputs", "run", "skip")

    def __init__(self, run: Callable[..., Any], skip: Any, inputs: tuple[Any, ...]) -> None:
        self.run = run
        self.skip = skip
        self.inputs = inputs


class _Sequence:
    """The draws that one generator would have made since it last moved.

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
        # For each device a generator, and the number of draws that it is past.
        self.cursors: dict[device, tuple[Generator, int]] = {}

    def until(self, number: int, moves: int) -> _Sequence:
        """The first draws, to be followed by others."""
        result = copy(self)
        result.moves, result.draws, result.cursors = moves, self.draws[:number], {}
        return result

    def make(self, number: int, where: device, inputs: tuple[Any, ...]) -> Any:
        """Make one of the draws."""
        # Away until the draw is done: one that is interrupted leaves its generator anywhere.
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
    """The generator that draws from this one, or from no particular one, are listed under."""
    if generator is None or generator in generators.default_generators():
        return generator_for(device("cpu"))
    return generator


def _moves(owner: Generator) -> int:
    return generators.moves_of_all() if owner is _owner(None) else owner.moves


_sequences: weakref.WeakKeyDictionary[Generator, _Sequence] = weakref.WeakKeyDictionary()


def _current(owner: Generator) -> _Sequence | None:
    """The draws listed since the generator last moved, if there are any."""
    sequence = _sequences.get(owner)
    return sequence if sequence is not None and sequence.moves == _moves(owner) else None


class _Bookmark:
    """A place in a list of draws, from which a generator that is set back goes on.

    It belongs to this process: copies are the same one, and pickles do without it.
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
    """The value of a Cell on the meta device that a draw would fill.

    Args:
        shape: Of the array.
        dtype: Of the array.
        given: The generator that the caller named, if any.
        run: Takes the device, a generator and the inputs' arrays, and gives the array.
        skip: Moves a generator as far as ``run`` would; ``None`` where that takes the draw itself.
        inputs: Planned arrays that ``run`` takes.
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
