"""The tensors that a compiled function returns or stores, and how each call creates them."""

from __future__ import annotations

from typing import Any, NamedTuple

from jax.core import Tracer

from flambeau.compile import errors
from flambeau.compile.guarding.contents import tensors_in
from flambeau.compile.guarding.sharing import slots_by_cell
from flambeau.compile.guarding.where import Argument, Gradient, Itself, Where
from flambeau.compile.outputs.passing import Passing
from flambeau.compile.reading.watching import WatchingTrace
from flambeau.core.values.cell import Cell
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import Handle
from flambeau.core.values.view import View

#: In place of the number of an output of the program's node: backward has already run.
SPENT = -1
#: In place of that number: the tensor was detached, or was detached and then requires grad.
DETACHED, LEAF = -2, -3


class Result(NamedTuple):
    """One tensor among the results of the function.

    Attributes:
        output: Its position among the program's outputs; -1 for a tensor that existed before.
        where: The place of a tensor that existed before.
        number: The number of its output of the program's node, `SPENT`, or ``None`` for a leaf.
        requires_grad: Whether it requires grad.
        cls: Its class.
        is_alias: Whether it is a new handle on the elements of the tensor at ``where``.
        view: The view of that tensor, if the alias is one.
    """

    output: int = -1
    where: Where | None = None
    number: int | None = None
    requires_grad: bool = False
    cls: type = Tensor
    is_alias: bool = False
    view: View | None = None

    @property
    def is_new_handle(self) -> bool:
        """Whether each call creates a tensor for it, on a new Cell or on one from outside."""
        return self.output >= 0 or self.is_alias


class Results:
    """The tensors that a trace stores or returns, and the outputs of its program.

    Args:
        trace: The trace.

    Attributes:
        own: The stand-ins of arguments, with the arguments' positions.
        given: The stand-ins, with their state when the trace began.
        outputs: The outputs of the program.
        returned: The stored or returned tensors, with their positions among the results.
        results: The results, by these positions.
        passing: The gradients that pass through the program.
        slot_before: Places whose values the program checks, with the values that the trace found.
        looked_up: The Cells of tensors in slots that matter by identity, not by their values.
    """

    def __init__(self, trace: WatchingTrace) -> None:
        self.trace = trace
        self.own: dict[Tensor, int] = {}
        self.given: dict[Tensor, Handle] = {}
        self.outputs: list[Any] = []
        self.returned: dict[Tensor, int] = {}
        self.results: list[Result] = []
        self.passing = Passing()
        self.slot_before: list[tuple[Any, Any]] = []
        self.looked_up: set[Cell] = set()
        # The outputs that are the arrays of new Cells.
        self._output_of: dict[Cell, int] = {}
        self._result_of: dict[Tensor, Result] = {}

    def tensors_before(self) -> dict[Tensor, Handle]:
        """The stand-ins of arguments and the tensors from outside, with their former state."""
        return self.given | self.trace.tensors

    def keep(self, tensor: Tensor) -> int:
        """The position among the results of a tensor that the function stores or returns."""
        if tensor not in self.returned:
            self.returned[tensor] = len(self.returned)
            self.results.append(self.result(tensor))
        return self.returned[tensor]

    def add(self, array: Any) -> int:
        self.outputs.append(array)
        return len(self.outputs) - 1

    def result(self, value: Tensor) -> Result:
        """The result for ``value``; the same object at each call for one tensor."""
        if value not in self._result_of:
            self._result_of[value] = self._new_result(value)
        return self._result_of[value]

    def _new_result(self, value: Tensor) -> Result:
        if value in self.own:
            return Result(where=Argument(self.own[value]))
        slot = self.slot_of(value)
        if slot is not None:
            return Result(where=slot)
        is_leaf = value.grad_fn is None and not self.trace.is_outside(value)
        if is_leaf and any(value._leaf_hooks()):
            raise errors.CompileError(
                "the compiled function registers a hook on a leaf that it creates and returns or "
                "keeps, and a program would leave the hook out; register it after the call"
            )
        alias = self._alias(value)
        if alias is not None:
            return alias
        if value._view is None and self.trace.is_outside(value):
            return Result(where=Itself(value))
        return Result(
            output=self.add(value._read()) if value._view else self.cell_output(value._cell),
            number=self.number(value),
            requires_grad=value.requires_grad,
            cls=type(value),
        )

    def cell_output(self, cell: Cell) -> int:
        """The output for the array of a new Cell, shared by all tensors on the Cell."""
        if cell not in self._output_of:
            self._output_of[cell] = self.add(self.trace.read(cell))
        return self._output_of[cell]

    def _alias(self, value: Tensor) -> Result | None:
        """The result for a new handle on elements of a tensor from outside, if it is one.

        A view is one only if it is a leaf; other views are returned as copies.
        """
        if value.grad_fn is not None or not (value.requires_grad or value._view is None):
            return None
        alias = self._shared(value)
        if alias is None and value.requires_grad and self._is_from_outside(value._cell):
            errors.warn(
                "the compiled function returns a new leaf that is a copy of elements of a tensor "
                "from outside, since it begins at a computed position. Later writes to the one do "
                "not reach the other; create the leaf outside the compiled function"
            )
        return alias

    def _shared(self, value: Tensor) -> Result | None:
        cell, view = value._cell, value._view
        if view is not None and isinstance(view.starts, Tracer):
            return None
        # The base may be a tensor of the trace.
        view = None if view is None else view.without_base()
        alias = Result(is_alias=True, cls=type(value), requires_grad=value.requires_grad, view=view)
        for own, i in self.own.items():
            if own._cell is cell and own._view is None and self.given[own].cell is cell:
                return alias._replace(where=Argument(i))
        if isinstance(cell.array, Tracer):
            return None
        if value not in self.trace.derived:
            return Result(where=Itself(value)) if self.trace.is_outside(value) else None
        slot = slots_by_cell(self).get(cell)
        if slot is None:
            return alias._replace(where=Itself(value), view=None)
        return alias._replace(where=slot)

    def _is_from_outside(self, cell: Cell) -> bool:
        """Whether a tensor from outside has ``cell`` now."""
        if any(each._cell is cell for each in self.own):
            return True
        return any(each.cell is cell for each in self.trace.tensors.values())

    def slot_of(self, tensor: Tensor) -> Where | None:
        """The slot that held ``tensor`` before the trace, if there is one."""
        for slot, before in self.slot_before:
            for where, each in tensors_in(before, slot):
                if each is tensor:
                    self.looked_up.add(tensor._cell)
                    return where
        for owner, grad in self.trace.grads_read.items():
            if grad is tensor:
                return Gradient(Itself(owner))
        return None

    def number(self, value: Tensor) -> int | None:
        """The number of the program's node's output for ``value``, see `Result`."""
        node = value.grad_fn
        if node is None or node.spent:
            return None if node is None else SPENT
        self.passing.roots.append(((node, value.output_nr), value._read()))
        return len(self.passing.roots) - 1

    def where_is(self, tensor: Tensor) -> Where:
        """The place of a tensor from outside."""
        if tensor in self.own:
            return Argument(self.own[tensor])
        return self.slot_of(tensor) or Itself(tensor)
