"""The effects of a program besides its computation, written as two functions in Python.

``look`` runs before anything is overwritten, and finds the objects that a call returns or changes.
``write`` runs with the outputs of the program: it creates the new tensors, containers and objects,
stores everything in its place, and returns the result of the function. It can begin again after an
interrupt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau.compile.guarding.where import Argument, Created, Flag, Gradient, Itself, OnTape, Where
from flambeau.compile.outputs.passing import PassedGradients
from flambeau.compile.outputs.results import DETACHED, LEAF, SPENT, Result
from flambeau.compile.reading.printing import show
from flambeau.compile.recording import Recording
from flambeau.core.support import world
from flambeau.core.tape import nodes as tape
from flambeau.core.values.attributes import handle_on
from flambeau.core.values.cell import Cell
from flambeau.core.values.tensor import Tensor

_SPENT = tape.SpentNode(())


class Effects:
    """The effects of a program.

    Args:
        recording: The finished trace.
        slot_of: The places of tensors that are looked up at each call, by their Cells.
        read: The Cells that the program reads.
        unset: Tensors that have no gradient when the program runs.
        gradients: The gradients that pass through the program, if any do.
        places: For each output of the trace, its position among the program's.

    Attributes:
        look: Takes the leaves of the arguments, and finds the objects that the call needs from
            before it; ``None`` if it needs none.
        write: Stores and returns; see the module's text.
        changes: Whether anything outside changes.
    """

    def __init__(
        self,
        recording: Recording,
        slot_of: dict[Cell, Where],
        read: Iterable[Cell],
        unset: set[Tensor],
        gradients: PassedGradients | None,
        places: Sequence[int],
    ) -> None:
        self.recording = recording
        self._places = places
        self.page = recording.page
        # The lines of `look`, the variables that it returns, and the lines of `write`.
        self._looking: list[str] = []
        self._found: list[str] = []
        self._making: list[str] = []
        self._applying: list[str] = []
        # The variables of new Cells, by their outputs; of tensors, by the ids of their results.
        self._cells: dict[int, str] = {}
        self._tensors: dict[int, str] = {}
        self._numbers = {id(each): i for i, each in enumerate(recording.results)}
        self._look_first()
        self._make_results(gradients)
        self._write_elements(slot_of, {*read})
        self._write_effects(unset)
        keeping = recording.keeping
        self.changes = bool(self._applying or keeping.setting)
        self.look: Callable[..., Any] | None = None
        lines = self._lines(gradients)
        if self._looking:
            self._looking.append(f"return [{', '.join(self._found)}]")
            self.look = self.page.function("look(leaves)", self._looking)
        self.write = self.page.function("write(results, arrays, leaves, found)", lines)

    def _lines(self, gradients: PassedGradients | None) -> list[str]:
        """All lines of `write`."""
        keeping = self.recording.keeping
        lines = [f"{', '.join(self._found)}, = found"] if self._found else []
        lines.append("outputs = results" if gradients is None else "outputs, residuals = results")
        lines += [*self._making, *keeping.making, *self._applying]
        lines += keeping.setting
        if self.recording.printed:
            lines.append(f"{self.page.name(show)}({self.recording.printed!r})")
        if gradients is not None and gradients.leads_to_results:
            # By now, arguments that were taken off the tape are leaves.
            lines.append(f"node.connect([{', '.join(self._results)}])")
        return [*lines, f"return {keeping.returned}"]

    def _look_up(self, expression: str, name: str = "") -> str:
        """The variable in which ``look`` keeps the value of an expression."""
        name = name or f"f{len(self._found)}"
        self._looking.append(f"{name} = {expression}")
        self._found.append(name)
        return name

    def _look_first(self) -> None:
        """Find numbers, and set flags to true: the call's node refers to such leaves."""
        for name, expression in self.recording.keeping.looking.items():
            self._look_up(expression, name)
        for where, flag in self.recording.effects:
            if isinstance(where, Flag) and flag:
                self._looking.append(where.setting(self.page, "True"))

    def _make_results(self, gradients: PassedGradients | None) -> None:
        """Create the tensors that the function returns or stores."""
        if gradients is not None:
            self._making.append(
                f"node = {self.page.name(gradients.node)}(arrays, residuals, leaves)"
            )
        self._results = [*map(self._tensor, self.recording.results)]

    def _tensor(self, result: Result) -> str:
        """The variable of a tensor that is returned or stored."""
        name = self._tensors.get(id(result))
        if name is not None:
            return name
        number = self._numbers.get(id(result))
        name = f"g{len(self._tensors)}" if number is None else f"t{number}"
        self._tensors[id(result)] = name
        page, cls = self.page, self.page.name(result.cls)
        where = result.where
        if where is None:
            cell = self._cell(result.output)
            self._making.append(f"{name} = {page.name(handle_on)}({cell}, {page.name(Tensor)})")
            if result.cls is not Tensor:
                self._making.append(f"{name} = {name}.as_subclass({cls})")
            if result.number is not None:
                target = f"{name}._grad_fn, {name}._output_nr, {name}._requires_grad"
                self._making.append(f"{target} = {self._on_tape(result.number)}")
            elif result.requires_grad:
                self._making.append(f"{name}._requires_grad = True")
            return name
        # All other places are read before anything is overwritten.
        start = where.expression(page)
        start = start if isinstance(where, Itself | Argument) else self._look_up(start)
        if not result.is_alias:
            self._making.append(f"{name} = {start}")
            return name
        self._making.append(f"{name} = {start}._alias({cls})")
        if result.view is not None:
            seen = f"{page.name(result.view)}.seen_through({name}._view)"
            self._making.append(f"{name}._view = {seen}")
        self._making.append(f"{name}._requires_grad = {result.requires_grad}")
        return name

    def _output(self, output: int) -> str:
        """The expression for an output of the trace."""
        return f"outputs[{self._places[output]}]"

    def _cell(self, output: int) -> str:
        """The variable of the one new Cell for an output."""
        if output not in self._cells:
            name = self._cells[output] = f"n{output}"
            self._making.append(f"{name} = {self.page.name(Cell)}({self._output(output)})")
        return self._cells[output]

    def _on_tape(self, number: int) -> str:
        """The expression for a position on the tape; see `OnTape`."""
        if number in (DETACHED, LEAF):
            return f"(None, 0, {number == LEAF})"
        if number == SPENT:
            return f"({self.page.name(_SPENT)}, 0, True)"
        return f"(node, {number}, True)"

    def _write_elements(self, slot_of: dict[Cell, Where], read: set[Cell]) -> None:
        for target, (output, count) in self.recording.writes.items():
            where = slot_of.get(target) if isinstance(target, Cell) else target
            if where is None:
                name = self.page.name(target, "w")
                self._applying.append(f"{name}.array = {self._output(output)}")
                self._applying.append(f"{name}.version += {count}")
                if target not in read:
                    # The Cell may hold a deferred initialization instead of an array.
                    self._applying.append(f"{name}._make = None")
                continue
            # The method counts one write.
            self._applying.append(f"x = {where.expression(self.page)}")
            self._applying.append(f"x._store({self._output(output)})")
            if count != 1:
                self._applying.append(f"x._cell.version += {count - 1}")

    def _write_effects(self, unset: set[Tensor]) -> None:
        """Set gradients, flags and positions on the tape, and the modes of modules."""
        page, sets_gradients = self.page, False
        # A leaf that is frozen was part of the graph before.
        # Gradients are set last: other effects may be on the gradients of before the call.
        for where, value in sorted(self.recording.effects, key=lambda e: type(e[0]) is Gradient):
            if isinstance(where, Gradient):
                if value is None and isinstance(where.of, Itself) and where.of.tensor in unset:
                    continue
                expression = "None" if value is None else self._tensor(value)
                sets_gradients = sets_gradients or not isinstance(where.of, Created)
            elif isinstance(where, Flag) and value:
                continue
            else:
                expression = self._on_tape(value) if isinstance(where, OnTape) else page.name(value)
            self._applying.append(where.setting(page, expression))
        if sets_gradients:
            self._applying.append(f"{page.name(world.bump_gradients)}()")
        for module, mode in self.recording.modes.items():
            name = page.name(module)
            self._applying.append(f"if {name}.training is not {mode}: {name}.training = {mode}")
