"""Compiling ahead: the program of a call whose tensors may be on the meta device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax

from flambeau.compile import arguments
from flambeau.compile.program import Program
from flambeau.core import programs
from flambeau.core.absent import without_elements
from flambeau.core.cell import Cell, is_abstract
from flambeau.core.modes import modes
from flambeau.core.tensor import Tensor


class _StandIns:
    """Arrays without elements in the Cells that a trace meets on the meta device."""

    def __init__(self) -> None:
        self.values: dict[Cell, Any] = {}

    def __call__(self, cell: Cell) -> Any:
        """Put an array without elements into a Cell on the meta device, and give it."""
        self.values[cell] = cell.array
        cell.array = without_elements(cell.array)
        return cell.array

    def put_back(self) -> None:
        """Put every Cell on the meta device again."""
        for cell, value in self.values.items():
            cell.array = value


@contextlib.contextmanager
def _stand_ins() -> Iterator[_StandIns]:
    made = _StandIns()
    try:
        yield made
    finally:
        made.put_back()


def lower(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> jax.stages.Lowered:
    """The program of a call of ``function``, in JAX's hands; see `flambeau.compiler.lower`."""
    if modes.trace is not None:
        raise RuntimeError("lower() cannot be called inside a compiled function")
    leaves, structure = arguments.flatten(args, kwargs)
    arguments.signature(leaves)
    with _stand_ins() as stand_ins:
        for each in leaves:
            if isinstance(each, Tensor) and is_abstract(each._cell.array):
                stand_ins(each._cell)
        program = _traced(function, leaves, structure, stand_ins)
        return programs.lowered(program.computation, program.inputs(leaves))


def _traced(
    function: Callable[..., Any], leaves: list[Any], structure: Any, stand_ins: _StandIns
) -> Program:
    """Trace until all Cells on the meta device were met before they were asked for anything."""
    while True:
        count = len(stand_ins.values)
        try:
            program = Program(function, leaves, structure, stand_ins)
        except Exception:
            if len(stand_ins.values) == count:
                raise
        else:
            if len(stand_ins.values) == count:
                return program
