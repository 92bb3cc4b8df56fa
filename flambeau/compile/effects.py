"""What a program does besides computing, written as two functions in Python.

``look`` runs before anything is overwritten, and finds what a call returns or changes where it
stands now. ``write`` runs with the outputs of the program: it makes the new tensors, containers and
objects, puts everything where it belongs, and gives what the function returns. It can begin again
after an interrupt; where it changes containers, ``done`` has what was made and which changes were
carried out, so that nothing is made or done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau.compile.exchanging import Exchange, become_views, joined_view
from flambeau.compile.history import History
from flambeau.compile.recording import Recording
from flambeau.compile.results import DETACHED, LEAF, SPENT, Result
from flambeau.compile.slots import GradSlot, Slot
from flambeau.core import tape, world
from flambeau.core.attributes import handle_on
from flambeau.core.cell import Cell
from flambeau.core.tensor import Tensor

_SPENT = tape.SpentNode(())


class Effects:
    """The effects of a program.

    Args:
        recording: The finished trace.
        slot_of: Where the tensor on a Cell stands, if another may stand there at each call.
        read: The Cells that the program reads.
        unset: Tensors that have no gradient when the program runs.
        history: What the program knows of gradients that pass through it, if any do.

    Attributes:
        look: Finds what a call needs from before it, given the leaves of the arguments; ``None``
            if it needs nothing.
        write: Writes and returns; see the module's text.
        changes: Whether anything outside changes.
    """

    def __init__(
        self,
        recording: Recording,
        slot_of: dict[Cell, Slot],
        read: Iterable[Cell],
        unset: set[Tensor],
        history: History | None,
    ) -> None:
        self.recording = recording
        self.page = recording.page
        # Lines of `look`, with the variables that it gives; and of `write`.
        self._looking: list[str] = []
        self._found: list[str] = []
        self._making: list[str] = []
        self._applying: list[str] = []
        # The variables of new Cells by their outputs, and of tensors by the ids of their results.
        self._cells: dict[int, str] = {}
        self._tensors: dict[int, str] = {}
        self._numbers = {id(each): i for i, each in enumerate(recording.results)}
        self._look_first()
        self._make_results(history)
        self._write_cells(slot_of, {*read})
        self._write_gradients(unset)
        self._write_arguments()
        self._exchange()
        self._write_the_rest()
        keeping = recording.keeping
        self.changes = bool(self._applying or keeping.leaves_more)
        self.look: Callable[..., Any] | None = None
        lines = [*self._lines(history)]
        if self._looking:
            self._looking.append(f"return [{', '.join(self._found)}]")
            self.look = self.page.function("look(leaves)", self._looking)
        self.write = self.page.function("write(results, arrays, leaves, found, done)", lines)

    def _lines(self, history: History | None) -> Iterator[str]:
        """All lines of `write`."""
        keeping = self.recording.keeping
        if self._found:
            yield f"{', '.join(self._found)}, = found"
        yield "outputs = results" if history is None else "outputs, residuals = results"
        if not keeping.changes:
            yield from (*self._making, *keeping.making)
        else:
            made = [*self._cells.values(), *self._tensors.values(), *keeping.made]
            made += [] if history is None else ["node"]
            names = f"({''.join(f'{each}, ' for each in made)})"
            yield "if done:"
            yield f"    {names} = done[0]"
            yield "else:"
            yield from (f"    {each}" for each in (*self._making, *keeping.making))
            yield f"    done.append({names})"
        yield from self._applying
        for i, change in enumerate(keeping.changes):
            yield f"if len(done) == {i + 1}:"
            yield from (f"    {each}" for each in change)
        yield from keeping.setting
        if history is not None and history.leads_to_results:
            # Arguments that have left the tape are leaves by now.
            yield f"node.connect([{', '.join(self._results)}])"
        yield f"return {keeping.returned}"

    def _where(self, where: Any) -> str:
        """The expression for a tensor that is found at ``where``; see `slots.find`."""
        if isinstance(where, Tensor):
            return self.page.name(where, "x")
        if isinstance(where, int):
            return f"leaves[{where}]"
        if isinstance(where, GradSlot):
            return f"{self.page.name(where.tensor, 'x')}._grad"
        return f"{self.page.name(where.get)}()"

    def _look_up(self, expression: str) -> str:
        """A variable for what ``look`` finds."""
        name = f"f{len(self._found)}"
        self._looking.append(f"{name} = {expression}")
        self._found.append(name)
        return name

    def _look_first(self) -> None:
        """Set flags, and find containers that change; those that are to be made are empty ones."""
        for where, flag in self.recording.flags:
            self._looking.append(f"{self.page.name(_set_flag)}({self._where(where)}, {flag})")
        for i, (first, *_) in enumerate(self.recording.keeping.slots):
            self._looking.append(f"c{i} = {self.page.name(first.get)}()")
            self._found.append(f"c{i}")

    def _make_results(self, history: History | None) -> None:
        """Make the tensors that the function returns or leaves behind."""
        if history is not None:
            self._making.append(f"node = {self.page.name(history.node)}(arrays, residuals, leaves)")
        names = self._results = [*map(self._tensor, self.recording.results)]
        for i, gradient in self.recording.result_grads:
            self._making.append(f"{names[i]}._grad = {names[gradient]}")

    def _tensor(self, result: Result) -> str:
        """The variable of a tensor that is returned, or left somewhere."""
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
                self._making += self._history(name, result.number)
            elif result.requires_grad:
                self._making.append(f"{name}._requires_grad = True")
            return name
        # What stands in a slot is looked up before anything is overwritten.
        is_fixed = isinstance(where, Tensor | int)
        start = self._where(where) if is_fixed else self._look_up(self._where(where))
        if not result.is_alias:
            self._making.append(f"{name} = {start}")
            return name
        self._making.append(f"{name} = {start}._alias({cls})")
        if result.view is not None:
            seen = f"{page.name(result.view)}.seen_through({name}._view)"
            self._making.append(f"{name}._view = {seen}")
        self._making.append(f"{name}._requires_grad = {result.requires_grad}")
        return name

    def _cell(self, output: int) -> str:
        """The variable of the one new Cell for an output."""
        if output not in self._cells:
            name = self._cells[output] = f"n{output}"
            self._making.append(f"{name} = {self.page.name(Cell)}(outputs[{output}])")
        return self._cells[output]

    def _history(self, name: str, number: int | None) -> list[str]:
        """The lines that make a tensor an output of the program's node."""
        if number is None:
            return []
        node, number = (self.page.name(_SPENT), 0) if number == SPENT else ("node", number)
        return [
            f"{name}._grad_fn, {name}._output_nr, {name}._requires_grad = {node}, {number}, True"
        ]

    def _write_cells(self, slot_of: dict[Cell, Slot], read: set[Cell]) -> None:
        for cell, (output, count) in self.recording.cells.items():
            if cell in slot_of:
                self._store(self._where(slot_of[cell]), "{}._store", output, count)
                continue
            name = self.page.name(cell, "w")
            self._applying.append(f"{name}.array = outputs[{output}]")
            self._applying.append(f"{name}.version += {count}")
            if cell not in read:
                # It holds no array yet, it may be, but a plan to make one.
                self._applying.append(f"{name}._make = None")

    def _store(self, where: str, method: str, output: int, times: int) -> None:
        """Write to the tensor at ``where``, which counts as one write, and count the others."""
        self._applying += [f"x = {where}", f"{method.format('x')}(outputs[{output}])"]
        if times != 1:
            self._applying.append(f"x._cell.version += {times - 1}")

    def _write_gradients(self, unset: set[Tensor]) -> None:
        count = 0
        for slot, result in self.recording.slots:
            if result is not None or slot.tensor not in unset:
                value = None if result is None else self._tensor(result)
                self._applying.append(f"{self._where(slot)} = {value}")
                count += 1
        for i, result in self.recording.argument_grads.items():
            value = None if result is None else self._tensor(result)
            self._applying.append(f"leaves[{i}]._grad = {value}")
            count += 1
        if count:
            self._applying.append(f"{self.page.name(world)}.gradients += {count}")

    def _write_arguments(self) -> None:
        for i, is_whole, output, times in self.recording.argument_writes:
            method = "{}._cell.write" if is_whole else "{}._store"
            self._store(f"leaves[{i}]", method, output, times)

    def _exchange(self) -> None:
        """Give tensors their new Cells and views."""
        page = self.page
        for each in self.recording.exchanges:
            target = self._look_up(self._where(each.target))
            if each.steps:
                steps = page.name(each.steps)
                self._applying.append(f"{page.name(become_views)}({target}, {steps})")
                continue
            cell, before = self._exchanged(each)
            starts = f"outputs[{each.starts}]" if each.starts >= 0 else None
            view = f"{page.name(joined_view)}({before}, {page.name(each.view)}, {starts})"
            self._applying.append(f"{target}._become({cell}, {view})")
            if each.cls is not None:
                self._applying.append(f"{target}.__class__ = {page.name(each.cls)}")

    def _exchanged(self, exchange: Exchange) -> tuple[str, str | None]:
        """The new Cell, and the view of the argument that it is taken from, if it is."""
        if exchange.output >= 0:
            return self._cell(exchange.output), None
        source = self._where(exchange.source)
        # The view of a tensor that is no argument is known to the trace.
        is_part = isinstance(exchange.source, int)
        is_part = is_part and exchange.source not in self.recording.joined.owners
        before = self._look_up(f"{source}._view") if is_part else None
        return self._look_up(f"{source}._cell"), before

    def _write_the_rest(self) -> None:
        """Set modes of modules, histories and hooks."""
        recording, page = self.recording, self.page
        for module in recording.trace.switched:
            name, mode = page.name(module), module.training
            self._applying.append(f"if {name}.training is not {mode}: {name}.training = {mode}")
        for where, number in recording.moved:
            self._applying += [f"x = {self._where(where)}", f"{page.name(_move)}(x)"]
            if number in (DETACHED, LEAF):
                self._applying.append(f"{page.name(_leave_tape)}(x, {number == LEAF})")
            else:
                self._applying += [*self._history("x", number), "x._rebased += 1"]
        for where, method, hook in recording.hooks:
            arguments = f"{self._where(where)}, {method!r}, {page.name(hook)}"
            self._applying.append(f"{page.name(_add_hook)}({arguments})")
        self._applying += [f"leaves[{i}].retain_grad()" for i in recording.retained]


def _set_flag(tensor: Any, flag: bool) -> None:
    if tensor._requires_grad is not flag:
        tensor._requires_grad = flag
        world.bump()


def _move(tensor: Any) -> None:
    """Tell the guards that the history of a tensor goes on, if it had none."""
    if not tensor._requires_grad:
        world.bump()


def _leave_tape(tensor: Any, requires_grad: bool) -> None:
    tensor._grad_fn, tensor._output_nr, tensor._requires_grad = None, 0, requires_grad
    world.bump()


def _add_hook(tensor: Any, method: str, hook: Callable[..., Any]) -> None:
    # One that was detached after it got the hook keeps the hook.
    requires_grad, tensor._requires_grad = tensor._requires_grad, True
    getattr(tensor, method)(hook)
    tensor._requires_grad = requires_grad
