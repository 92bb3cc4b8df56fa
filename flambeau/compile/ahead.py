"""Compiling ahead: the program of a call whose tensors may be on the meta device."""

from __future__ import annotations

from collections.abc import Callable
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
    """Puts arrays without elements into the meta Cells that a trace meets, until its block ends."""

    def __init__(self) -> None:
        self.values: dict[Cell, Any] = {}

    def __call__(self, cell: Cell) -> Any:
        """Put an array without elements into a Cell on the meta device, and return the array."""
        self.values[cell] = cell.array
        cell.array = without_elements(cell.array)
        return cell.array

    def __enter__(self) -> _StandIns:
        return self

    def __exit__(self, *exception: object) -> None:
        for cell, value in self.values.items():
            cell.array = value


def lower(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> jax.stages.Lowered:
    """The program of a call of ``function``, as JAX lowers it; see `flambeau.compiler.lower`."""
    if modes.trace is not None:
        raise RuntimeError("lower() cannot be called inside a compiled function")
    leaves, structure = arguments.flatten(args, kwargs)
    arguments.signature(leaves)
    with _StandIns() as stand_ins:
        for each in leaves:
            if isinstance(each, Tensor) and is_abstract(each._cell.array):
                stand_ins(each._cell)
        program = _traced(function, leaves, structure, stand_ins)
        return programs.lowered(program.computation, program.inputs(leaves))


def _traced(
    function: Callable[..., Any], leaves: list[Any], structure: Any, stand_ins: _StandIns
) -> Program:
    """Trace again until a trace meets no new Cell on the meta device."""
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
