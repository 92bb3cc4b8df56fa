"""Where the tensors of a compiled function lie, on a machine with several devices.

One program runs on one device: that of the tensors with which the function computes. Tensors that
lie elsewhere may take part where eager mode lets them: a single number goes along with the others,
and the function may move an argument to the program's device, or a result away from it. A call of
the program then copies these before, or after. Everything else is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax.numpy as jnp
from jax.core import Tracer

from flambeau.compile.errors import CompileError
from flambeau.core.devices.device import device, from_jax_device
from flambeau.core.devices.donation import put
from flambeau.core.operators.companions import place_of
from flambeau.core.support.modes import modes
from flambeau.core.values.cell import Cell
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import TracedValueError


class Devices:
    """The devices of one trace's tensors.

    Attributes:
        given: The devices of arguments, by the Cells of their stand-ins.
        used: The devices of tensors that operators have taken, each with the shape of one of them.
        wanted: The devices to which arguments and tensors from outside were moved.
        left: The devices of results that were moved away from the program's, by their Cells.
    """

    def __init__(self) -> None:
        self.given: dict[Cell, device] = {}
        self.used: dict[device, tuple[int, ...]] = {}
        self.wanted: dict[device, None] = {}
        self.left: dict[Cell, device] = {}

    def give(self, stand_ins: Iterable[Any], leaves: Iterable[Any]) -> None:
        """Note where the arguments are that ``stand_ins`` stand for."""
        for stand_in, leaf in zip(stand_ins, leaves, strict=True):
            if stand_in is not leaf and isinstance(leaf, Tensor):
                where = place_of(leaf._cell.array)
                if where is not None:
                    self.given[stand_in._cell] = where

    def of(self, cell: Cell) -> device | None:
        """The device of a Cell's array; ``None`` if the program computes it."""
        known = self.left.get(cell) or self.given.get(cell)
        return known or (None if isinstance(cell.array, Tracer) else place_of(cell.array))

    def of_program(self) -> device | None:
        """The device on which the program will run, as far as is known."""
        given = sorted(self.given.values(), key=lambda each: each.type == "cpu")
        return next(iter([*self.used, *self.wanted, *given]), None)

    def use(self, tensor: Tensor) -> None:
        """Note that an operator takes ``tensor``.

        Raises:
            TracedValueError: The function has moved it away from the program's device.
        """
        cell = tensor._cell
        if cell in self.left:
            raise TracedValueError(
                f"the compiled function moves a tensor to {self.left[cell]} and computes with it "
                "there; one program runs on one device, so move the function's results after the "
                "call"
            )
        where = self.of(cell)
        # The gradient of a number cannot go back to another device, so it stays on this one.
        if where is not None and (tensor.ndim or tensor.requires_grad):
            self.used.setdefault(where, tuple(tensor.shape))

    def moved(self, source: Tensor, target: device) -> Tensor:
        """``source`` on another device, as the program will find it or leave it.

        Raises:
            TracedValueError: A gradient would have to come back from there.
        """
        if source.requires_grad and modes.grad_enabled:
            raise TracedValueError(
                f"the compiled function moves a tensor that requires grad to {target}; one program "
                "runs on one device, so move it before or after the call"
            )
        target = from_jax_device(target.jax_device)
        # A new array, since the program may also return the old one.
        result = Tensor._wrap(jnp.copy(source._read()))
        if self.of(source._cell) is not None or not self.used:
            self.wanted[target] = None
        else:
            self.left[result._cell] = target
        return result

    def leaving(self, outputs: Sequence[Any]) -> dict[int, device]:
        """The devices to which outputs of the trace go, by their positions."""
        going = {id(cell.array): where for cell, where in self.left.items()}
        return {i: going[id(each)] for i, each in enumerate(outputs) if id(each) in going}

    def settle(self) -> None:
        """Fail unless the whole program can run on one device.

        Raises:
            CompileError: It cannot.
        """
        found = [f"{where} (of shape {list(shape)})" for where, shape in self.used.items()]
        found += [f"{where} (moved there)" for where in self.wanted if where not in self.used]
        if len(found) > 1:
            raise CompileError(
                "Expected all tensors to be on the same device, but the compiled function computes "
                f"with tensors on {' and '.join(found)}; move them to one before the call, since "
                "one program runs on one device"
            )


def bringing(
    inputs: Sequence[Any], written: Iterable[int], where: device
) -> Callable[[list[Any]], None] | None:
    """A function that moves a program's inputs to its device, in place; ``None`` if all are there.

    Args:
        inputs: The arrays of the call that was traced.
        written: The positions of those that get new values.
        where: The device of the program.

    Raises:
        CompileError: An array that gets a new value lies elsewhere.
    """
    places = [place_of(each) for each in inputs]
    away = [i for i, each in enumerate(places) if each not in (None, where)]
    if not away:
        return None
    for i in written:
        if i in away:
            raise CompileError(
                f"the compiled function writes to a tensor of shape {list(inputs[i].shape)} on "
                f"{places[i]}, and computes on {where}; move it there before the call, since one "
                "program runs on one device"
            )
    target = where.jax_device

    def bring(arrays: list[Any]) -> None:
        for i in away:
            arrays[i] = put(arrays[i], target)

    return bring


def sending(left: dict[int, device]) -> Callable[[Any], Any] | None:
    """A function that moves a program's results at some positions; ``None`` if there are none."""
    if not left:
        return None

    def send(results: Any) -> Any:
        return tuple(
            put(each, left[i].jax_device) if i in left else each for i, each in enumerate(results)
        )

    return send
