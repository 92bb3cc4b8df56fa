"""Compiling ahead: the program of a call whose tensors may be on the meta device.

`dry_run` traces only, and keeps nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import jax

from flambeau.compile.guarding import arguments
from flambeau.compile.guarding.numbers import Numbers
from flambeau.compile.program import Program
from flambeau.compile.recording import Recording
from flambeau.core.programs import compiled as programs
from flambeau.core.programs import jit_core
from flambeau.core.programs.absent import without_elements
from flambeau.core.support.modes import modes
from flambeau.core.values.cell import Cell, is_abstract
from flambeau.core.values.tensor import Tensor


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


class _FinishedError(Exception):
    """Ends the trace of `dry_run`, which undoes everything as after any error."""


def dry_run(function: Callable[[], Any], tensors: Iterable[Tensor] = ()) -> None:
    """Call ``function()`` in a trace: nothing is computed, and all its effects are undone.

    Args:
        function: The function. Its Tensors have shapes, but no values.
        tensors: The tensors that it uses; those on the meta device go with all others.

    Raises:
        CompileError: The function asks for a tensor's value.
    """

    def traced() -> None:
        function()
        raise _FinishedError

    _, structure = arguments.flatten((), {})
    with _StandIns() as stand_ins, jit_core.tracing(), contextlib.suppress(_FinishedError):
        for each in tensors:
            if is_abstract(each._cell.array):
                stand_ins(each._cell)
        recording = Recording(traced, [], structure, (), Numbers.none())
        recording.trace.stand_in = stand_ins
        recording.record()


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
