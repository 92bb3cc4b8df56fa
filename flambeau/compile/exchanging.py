"""Tensors from outside that a compiled function gives another Cell or view.

``tensor.data = value``, which `Module.double` and loading with ``assign=True`` use, and operators
that change a shape in place do so. A trace exchanges the Cell of the tensor itself, and puts the
old one back when it ends. The change is recorded as an `Exchange`, which each call repeats.

The tensor then has another Cell at each call, so the program looks up its `Whole` Cell instead of
being bound to the one that the trace found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.core import Tracer

from flambeau.compile.contents import tensors_in
from flambeau.compile.errors import CompileError
from flambeau.compile.where import Gradient, Itself, Where, Whole
from flambeau.core.cell import Cell
from flambeau.core.modes import enable_grad
from flambeau.core.steps import Step
from flambeau.core.tensor import Tensor
from flambeau.core.trace import Handle, Trace
from flambeau.core.view import View
from flambeau.core.viewing import become_view


class Exchange(NamedTuple):
    """Another Cell or view for one tensor.

    Attributes:
        output: The output of the program that becomes the array of the new Cell; -1 if ``source``
            gives the Cell.
        source: The place of the tensor whose Cell it takes.
        view: The view of that Cell, applied after the source's own view if that is an argument.
        starts: The output with the start positions of the view; -1 if the view has them.
        cls: The new class, if it changes.
        steps: The steps, with their names and start positions, if the tensor becomes a view of its
            former self on the tape.
    """

    output: int
    source: Where | None
    view: View | None
    starts: int
    cls: type | None
    steps: tuple[tuple[Step, str, Any], ...] = ()


def collect(
    handles: Mapping[Tensor, Handle],
    where_of: Callable[[Tensor], Where],
    owners: Mapping[Cell, Tensor],
    output_of: Callable[[Cell], int],
    add: Callable[[Any], int],
) -> Iterator[tuple[Whole, Exchange]]:
    """The exchanges of a trace, with the tensors that they belong to.

    Args:
        handles: Tensors from outside and stand-ins of arguments, with their former state.
        where_of: Gives the place of each at a call.
        owners: A tensor for each Cell from outside or of a stand-in.
        output_of: Makes the array of a Cell an output of the program; returns its number.
        add: Makes an array an output of the program; returns its number.

    Raises:
        CompileError: A tensor became a view of its former self on the tape, and was written to.
    """
    for tensor, before in handles.items():
        whole = Whole(where_of(tensor))
        cell, view = tensor._cell, tensor._view
        if cell is before.cell and view is before.view and type(tensor) is before.cls:
            continue
        base = None if view is None else view.base
        was_base = None if before.view is None else before.view.base
        if view is not None and base is not None and base is not was_base:
            if cell is not before.cell or base._grad_fn is not before.grad_fn:
                raise CompileError(
                    "the compiled function changes the shape of a tensor that it takes from "
                    f"outside in place, from {list(_shape(before))} to {list(tensor.shape)}, and "
                    "also its elements, while gradients are recorded for it; do one of these "
                    "outside, or use an operator that is not in place"
                )
            steps = _new_steps(before.view, view)
            yield whole, Exchange(-1, whole.of, None, -1, None, steps)
            continue
        owner = owners.get(cell)
        output = output_of(cell) if owner is None else -1
        source = None if owner is None else where_of(owner)
        starts = -1
        if view is not None and view.starts is not None and not isinstance(view.starts, np.ndarray):
            starts = add(view.starts)
        cls = None if type(tensor) is before.cls else type(tensor)
        yield whole, Exchange(output, source, view, starts, cls)


def _new_steps(before: View | None, view: View) -> tuple[tuple[Step, str, Any], ...]:
    """The steps of ``view`` that come after those of ``before``."""
    known = 0 if before is None else len(before.steps)
    position = sum(step.starts for step in view.steps[:known])
    steps = []
    for step, name in zip(view.steps[known:], view.names[known:], strict=True):
        starts = None
        if view.starts is not None and step.starts:
            starts = tuple(view.starts[position : position + step.starts].tolist())
        steps.append((step, name, starts))
        position += step.starts
    return tuple(steps)


def _shape(handle: Handle) -> Sequence[int]:
    return handle.cell.array.shape if handle.view is None else handle.view.shape


def become_views(tensor: Tensor, steps: Iterable[tuple[Step, str, Any]]) -> None:
    """Make a tensor a view of its former self on the tape; see `Exchange`."""
    with enable_grad():
        for step, name, own_starts in steps:
            become_view(tensor, step, name, own_starts)


def joined_view(before: View | None, view: View | None, starts: Any) -> View | None:
    """``view`` with these ``starts``, applied after the view ``before``."""
    if view is None and before is None:
        return None
    if view is None:
        assert before is not None
        return before.without_base()
    starts = view.starts if starts is None else starts
    if before is None:
        return View(
            view.steps, view.names, starts, view.shape, view.numpy_dtype, view.base, view.origin,
            view.ban,
        )  # fmt: skip
    parts = [each for each in (before.starts, starts) if each is not None]
    joined = np.concatenate([np.asarray(each) for each in parts]) if parts else None
    return View(
        (*before.steps, *view.steps), (*before.names, *view.names), joined, view.shape,
        view.numpy_dtype, before.base, before.origin, before.ban,
    )  # fmt: skip


def free_cells(trace: Trace, elsewhere: set[Tensor]) -> set[Tensor]:
    """The exchanged tensors whose Cells no other tensor of the program shares.

    Args:
        trace: The trace, after the old Cells were put back.
        elsewhere: Tensors that the program looks up at each call anyway.
    """
    count: dict[Cell, int] = {}
    for tensor in trace.tensors:
        count[tensor._cell] = count.get(tensor._cell, 0) + 1
    return {
        tensor
        for tensor in trace.exchanged
        if tensor not in elsewhere
        and count.get(tensor._cell) == 1
        and not isinstance(tensor._cell.array, Tracer)
    }


def loose_tensors(recording: Any) -> set[Tensor]:
    """Exchanged tensors to whose Cells the program is not bound."""
    trace = recording.trace
    in_slots = {
        tensor for pair in recording.slot_before for _, tensor in tensors_in(pair[1], pair[0])
    }
    in_slots |= {grad for grad in trace.grads_read.values() if grad is not None}
    looked_up = in_slots & trace.exchanged.keys()
    return looked_up | free_cells(trace, in_slots)


def slots_by_cell(recording: Any) -> dict[Cell, Where]:
    """The slots through which the trace reached Cells; the next call may find others there."""
    trace = recording.trace
    slots: dict[Cell, Where] = {}
    in_slots = [each for pair in recording.slot_before for each in tensors_in(pair[1], pair[0])]
    elsewhere = trace.tensors_elsewhere()
    for slot, tensor in in_slots:
        if tensor._view is None and id(tensor) not in elsewhere:
            slots.setdefault(tensor._cell, slot)
    grads = trace.grads_read.items()
    in_slots += [(Gradient(Itself(tensor)), grad) for tensor, grad in grads if grad is not None]
    for slot, grad in in_slots:
        if isinstance(slot, Gradient) and grad._view is None and id(grad) not in elsewhere:
            slots[grad._cell] = slot
    # A Cell that a tensor outside of the slots shares, such as a parameter, stays bound.
    owners = {id(tensor) for _, tensor in in_slots}
    for tensor, before in trace.tensors.items():
        if id(tensor) not in owners:
            slots.pop(before.cell, None)
    for tensor in trace.loose:
        slots.setdefault(tensor._cell, Whole(Itself(tensor)))
    return slots
