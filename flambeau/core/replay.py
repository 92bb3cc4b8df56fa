"""The draws that code on the meta device would have made, to be made later.

Nothing is drawn on the meta device and no generator moves. Instead each generator keeps a list of
what would have been drawn from it, beginning at the state it was in. A draw that is made later
takes its numbers from where they would have been, whichever of the others are made at all.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from flambeau.core import generator as generators
from flambeau.core import plan
from flambeau.core.device import device
from flambeau.core.generator import Generator, generator_for


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
        given: The generator; ``None`` for the default one of whatever device they are made on.
    """

    def __init__(self, given: Generator | None) -> None:
        owners = generators.default_generators() if given is None else (given,)
        self.moves = _moves(given)
        self.starts = {(each.device.type, each.device.index or 0): each.save() for each in owners}
        self.seed = generators.current_seed()
        self.draws: list[_Draw] = []
        # For each device a generator, and the number of draws that it is past.
        self.cursors: dict[device, tuple[Generator, int]] = {}

    def make(self, number: int, where: device, inputs: tuple[Any, ...]) -> Any:
        """Make one of the draws."""
        generator, position = self.cursors.get(where, (None, 0))
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
        made = Generator(where)
        start = self.starts.get((where.type, where.index or 0))
        if start is None:
            made.manual_seed(self.seed)
        else:
            made.restore(start)
        return made


def _value(each: Any, where: device) -> Any:
    return plan.carry_out(each, where) if isinstance(each, plan.Planned) else each


def _moves(given: Generator | None) -> int:
    return generators.moves_of_all() if given is None else given.moves


_sequences: weakref.WeakKeyDictionary[Generator, _Sequence] = weakref.WeakKeyDictionary()


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
    owner = generator_for(device("cpu")) if given is None else given
    sequence = _sequences.get(owner)
    if sequence is None or sequence.moves != _moves(given):
        sequence = _sequences[owner] = _Sequence(given)
    number = len(sequence.draws)
    sequence.draws.append(_Draw(run, skip, inputs))

    def compute(where: device, *arrays: Any) -> Any:
        return sequence.make(number, where, arrays)

    return plan.planned(shape, dtype, compute, inputs)
