"""The state of a running trace: the Cells that it has read, and its writes to them.

While a thread traces, its Cells do not change: writes go to the trace's own table, and reads look
there first. A tensor that is rebound to another Cell or view, and a module's changed table, do
change; the trace remembers their values and restores them at its end. So no tracer is left behind,
whatever happens during a trace.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from flambeau.core.devices.device import device, get_default_device, of_sharding
from flambeau.core.support import debugger
from flambeau.core.support.handle import HookDict
from flambeau.core.support.identity import MISSING
from flambeau.core.support.modes import modes
from flambeau.core.types import Backward, Contents, Cotangent, Function, Key, Node, Tensor, View
from flambeau.core.values.before import Before
from flambeau.core.values.cell import Cell, is_abstract, next_epoch
from flambeau.core.values.inside import Block, Conditions


class TracedValueError(RuntimeError):
    """The traced code asked for a value that is not known yet.

    The trace remembers the error and fails at its end, even if the function catches it: with a
    value, the function would not have run its ``except`` clause. A debugger's prompt only prints
    the error.

    Attributes:
        line: The user's line that caused the error, if another line raised it.
    """

    line: str | None = None

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        trace = modes.trace
        if trace is not None and trace.refused is None and not debugger.at_its_prompt():
            trace.refused = self


class AskedValueError(TracedValueError):
    """Python asked for the value of a tensor, which is known in eager mode."""


class AskedCountError(AskedValueError):
    """Python needs the number of elements that a mask selects."""


class MadeInsideError(TracedValueError):
    """A long-lived object was first made while a program was being traced.

    Once it has been made outside a trace, the trace succeeds.
    """


class Handle(NamedTuple):
    """A tensor's state before a trace, besides its elements.

    Attributes:
        cell: Its Cell.
        view: Its view of the Cell.
        cls: Its class.
        accumulator: The reference to the node that accumulates its gradient, if there was one.
        grad_fn: Its node.
        output_nr: Its index among the outputs of the node.
        requires_grad: Its flag.
    """

    cell: Cell
    view: View | None
    cls: type
    accumulator: Any
    grad_fn: Node | None
    output_nr: int
    requires_grad: bool

    @staticmethod
    def of(tensor: Tensor) -> Handle:
        """The present state of ``tensor``."""
        return Handle(
            tensor._cell, tensor._view, type(tensor), tensor._accumulator, tensor._grad_fn,
            tensor._output_nr, tensor._requires_grad,
        )  # fmt: skip

    def is_of(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` has the Cell, view and class still."""
        return (tensor._cell, tensor._view, type(tensor)) == (self.cell, self.view, self.cls)

    def put_back(self, tensor: Tensor) -> None:
        """Restore the Cell, view and class of ``tensor``."""
        if type(tensor) is not self.cls:
            tensor.__class__ = self.cls
        tensor._cell, tensor._view, tensor._accumulator = self.cell, self.view, self.accumulator

    def put_history_back(self, tensor: Tensor) -> None:
        """Restore the history and the flag of ``tensor``."""
        tensor._grad_fn, tensor._output_nr = self.grad_fn, self.output_nr
        tensor._requires_grad = self.requires_grad


class Trace(Block):
    """One recording of a Python function into one program, as a ``with`` block.

    Attributes:
        reads: Every Cell that was read before it was written, with the array it held. The program's
            constants contain the same object, by which the two are matched.
        values: The arrays that the trace has written to Cells that existed before it.
        versions: The versions that those Cells had before.
        grads: The ``.grad`` of each tensor for which it was set, ``None`` included.
        grads_read: Tensors whose ``.grad`` of before the trace was read, with this value.
        modules: Modules that were entered, in order.
        tensors: Tensors from outside that were used, with their state before.
        derived: Views and aliases that were made inside, perhaps on Cells from outside.
        flags: Tensors from outside whose ``requires_grad`` was set, with the flag before.
        free: Members of ``flags`` whose flag was not read before it was set: the guard accepts any.
        exchanged: Tensors from outside that were given another Cell, view or class.
        looked_at: Tensors from outside whose properties matter, without their elements.
        watched: Other objects whose state the program depends on; see `watch`.
        before: The contents of containers, which are restored if the trace fails.
        refused: The first error about an unknown value, if any.
        device: The device of the program's arguments, if it has any.
        first_sequence: Nodes numbered below this were recorded before the trace began.
        stand_in: Puts an array into a Cell on the meta device and returns it; ``None`` leaves such
            Cells unchanged.
        conditions: Must hold for the results of the program to count.
        spans_processes: Whether the program exchanges values with that of other processes.
    """

    def __init__(self, first_sequence: int) -> None:
        self.reads: dict[Cell, Contents] = {}
        self.values: dict[Cell, Contents] = {}
        self.versions: dict[Cell, int] = {}
        self.grads: dict[Tensor, Any] = {}
        self.grads_read: dict[Tensor, Tensor | None] = {}
        self.modules: dict[Any, None] = {}
        self.watched: dict[Key, tuple[object, Callable[[], object], object]] = {}
        self.before = Before()
        self.tensors: dict[Tensor, Handle] = {}
        self.derived: dict[Tensor, None] = {}
        self.flags: dict[Tensor, bool] = {}
        self.free: set[Tensor] = set()
        self.exchanged: dict[Tensor, None] = {}
        self.looked_at: dict[Tensor, None] = {}
        self.first_sequence = first_sequence
        self.refused: TracedValueError | None = None
        self.device: device | None = None
        self.stand_in: Callable[[Cell], Contents] | None = None
        self.conditions = Conditions()
        self.spans_processes: bool = False
        self._owners: dict[int, Cell] = {}
        self._began = next_epoch()
        # The epochs in which something was computed outside the trace; see `outside`.
        self._asides: list[range] = []
        # Products of matrices are compiled for the precision chosen.
        self.watch(jax.config, lambda: jax.config.values["jax_default_matmul_precision"])

    def __enter__(self) -> Trace:
        # First, since an interrupt may arrive.
        self.around = modes.inside
        modes.trace = self
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        """End the block; may be repeated, and called before the block has begun."""
        if modes.trace is self:
            modes.inside = self.around
            modes.trace = None

    def owns(self, cell: Cell) -> bool:
        """See `Block.owns`."""
        return self.is_made_inside(cell)

    def require(self, find: Callable[[], jax.Array]) -> None:
        """See `Block.require`; inside `outside` nothing is traced."""
        if modes.trace is self:
            self.conditions.add(find)

    def writer(self, cell: Cell, array: Contents) -> Block | None:
        """See `flambeau.core.values.inside.writer`; inside `outside` the trace takes no part."""
        if modes.trace is not self:
            return super().writer(cell, array)
        if self.transformation is not None and not self.owns(cell):
            self.transformation.writer(cell, array)
        return self

    def read(self, cell: Cell) -> Contents:
        """The value of ``cell`` as the traced program sees it."""
        value = self.values.get(cell, MISSING)
        if value is not MISSING:
            return value
        array = cell.array
        if self.stand_in is not None and is_abstract(array) and not self.is_made_inside(cell):
            array = self.stand_in(cell)
        if isinstance(array, Tracer | jax.ShapeDtypeStruct | np.ndarray):
            # NumPy arrays are view positions that a node has saved: constants of the program.
            return array
        if cell not in self.reads:
            if self.is_made_inside(cell):
                # A constant, or a value that the tape saved when it was read.
                return array
            if self._owners.setdefault(id(array), cell) is not cell:
                array = self._make_own(cell, array)
            self.reads[cell] = array
        return array

    def arguments(self) -> list[Tensor]:
        """The tensors among the arguments of the traced function, as the caller passed them."""
        return []

    def as_input(self, cell: Cell, array: Contents) -> Contents:
        """The array of ``cell`` for a read from Python; a tracer if later values may differ."""
        is_known = isinstance(array, Tracer) or cell not in self.reads
        return array if is_known else jnp.array(array, copy=True)

    def _make_own(self, cell: Cell, array: Contents) -> Contents:
        # Two Cells may hold the same array (a clone does); the program must tell them apart.
        with jax.ensure_compile_time_eval():
            array = cell.array = array.copy()
        self._owners[id(array)] = cell
        return array

    def is_made_inside(self, cell: Cell) -> bool:
        """Whether ``cell`` was made by the traced function, or replaces an argument's."""
        born = cell.born
        if born < self._began:
            return False
        return not any(map(range.__contains__, self._asides, itertools.repeat(born)))

    def write(self, cell: Cell, array: Contents) -> None:
        """Record that the traced program writes ``array`` to ``cell``."""
        if isinstance(cell.array, Tracer) or self.is_made_inside(cell):
            is_outside = isinstance(array, jax.Array) and not isinstance(array, Tracer)
            # The array of a tensor from outside is another one at the next call.
            cell.array = jnp.array(array, copy=True) if is_outside else array
        else:
            self.versions.setdefault(cell, cell.version)
            self.values[cell] = array

    def writes_to(self, cell: Cell) -> int:
        """The number of writes to ``cell`` in the traced program."""
        return max(1, cell.version - self.versions[cell])

    def get_grad(self, tensor: Tensor) -> Any:
        """The ``.grad`` of ``tensor`` as the traced program sees it."""
        grad = self.grads.get(tensor, MISSING)
        if grad is MISSING:
            grad = self.grads_read[tensor] = tensor._grad
            if grad is not None and grad.is_sparse:
                raise TracedValueError(
                    "a compiled function reads a sparse gradient from before the call; let it call "
                    "zero_grad() and backward() itself, before it uses the gradient"
                )
        return grad

    def set_grad(self, tensor: Tensor, grad: Tensor | None) -> None:
        """Record that the traced program sets the ``.grad`` of ``tensor``."""
        self.grads[tensor] = grad

    def note(self, tensor: Tensor) -> None:
        """Note that ``tensor`` was used, so that the guard watches its flag and its Cell."""
        if tensor not in self.tensors and self.is_outside(tensor):
            self.tensors[tensor] = Handle.of(tensor)

    def is_outside(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` existed before the trace."""
        if tensor in self.exchanged:
            return True
        # A sparse tensor has no Cell of its own.
        cell = (tensor._values() if tensor.is_sparse else tensor)._cell
        is_new = isinstance(cell.array, Tracer | np.ndarray) or self.is_made_inside(cell)
        return not is_new and tensor not in self.derived

    def derive(self, tensor: Tensor, source: Tensor) -> None:
        """Note that ``tensor`` is a new handle on the Cell of ``source``."""
        self.note(source)
        self.derived[tensor] = None

    def exchange(self, tensor: Tensor) -> None:
        """Note that ``tensor`` is about to be given another Cell, view or class."""
        if tensor not in self.exchanged and self.is_outside(tensor):
            self.note(tensor)
            self.exchanged[tensor] = None

    def touch(self, table: object) -> None:
        """Note that ``table``, of a module's members, is about to change."""

    def touch_hooks(self, table: object) -> None:
        """Note that ``table``, of a module's hooks, is about to change."""

    def touch_attributes(self, tensor: Tensor) -> None:
        """Note that the user is about to set an attribute of ``tensor``."""

    def show_attributes(self, tensor: Tensor) -> None:
        """Note that code asks for all attributes that the user has set on ``tensor``."""

    def change_class(self, cls: type, name: str) -> None:
        """Note that a member of a class of tensors is about to be replaced."""

    def ask(self, tensor: Tensor, question: Function, *args: object) -> Any:
        """The answer to a question about ``tensor``, or about the argument that it replaces."""
        return question(tensor, *args)

    def look_at(self, tensor: Tensor) -> None:
        """Make the guard check properties of ``tensor``: shape, dtype, flag, is_leaf."""
        if tensor not in self.looked_at and self.is_outside(tensor):
            self.looked_at[tensor] = None

    def add_hook(self, tensor: Tensor, method: str, hooks: HookDict) -> None:
        """Note that ``method`` of ``tensor`` is about to add a hook to ``hooks``."""

    def refuse_version(self, tensor: Tensor) -> None:
        """Fail if ``tensor`` is from outside: its version differs at each call."""
        if self.is_outside(tensor):
            raise TracedValueError(
                "the _version of a tensor from outside the compiled function counts the writes of "
                "all calls, and a program would keep the number of its trace; compare versions "
                "outside of the function"
            )

    def set_flag(self, tensor: Tensor) -> None:
        """Note that the ``requires_grad`` of ``tensor`` is about to be set."""
        if tensor not in self.flags and self.is_outside(tensor):
            self.flags[tensor] = tensor._requires_grad
            if tensor not in self.tensors and tensor not in self.looked_at:
                self.free.add(tensor)

    def watch(self, owner: object, snapshot: Callable[[], object], name: object = None) -> bool:
        """Make the guard compare the result of ``snapshot()`` now with later results.

        Code that changes its value must call `world.bump`.

        Args:
            owner: The object to watch.
            snapshot: Returns its value.
            name: The name of the watched part.

        Returns:
            Whether this part was not watched before.
        """
        if (id(owner), name) in self.watched:
            return False
        self.watched[id(owner), name] = (owner, snapshot, snapshot())
        return True

    def read_entry(
        self,
        table: dict[Any, Any],
        key: Hashable,
        watch: tuple[int, object],
        in_place: bool = False,
    ) -> Any:
        """The entry of a dictionary that the function reads; a number may be an input.

        Args:
            table: The dictionary.
            key: The key of the entry.
            watch: The owner's id and the name of the watched part that compares the entry.
            in_place: Whether the input stands in the dictionary itself until the trace ends.
        """
        return dict.get(table, key)

    def set_entry(self, table: object, key: Hashable) -> None:
        """Note that the function is about to set an entry of a dictionary."""

    def note_setting(self, read: Callable[[], object]) -> None:
        """Note that the function reads a setting of the process, which ``read`` returns."""

    def unwatched(self) -> contextlib.AbstractContextManager[None]:
        """A block that runs only flambeau's and JAX's code, which reads no state of the user's."""
        return contextlib.nullcontext()

    def place(self) -> device:
        """The device that the traced program runs on."""
        for array in self.reads.values():
            if array.committed:
                return of_sharding(array.sharding)
        return get_default_device() if self.device is None else self.device

    def place_of(self, cell: Cell) -> device:
        """The device of a Cell's array, which is a tracer."""
        return self.place()

    def moved(self, source: Tensor, target: device) -> Tensor | None:
        """A tensor moved to the program's device; ``None`` if it is already there."""
        return None

    def refuse_value(self, is_question: bool = False) -> None:
        """Fail, since the program being traced has no values yet.

        Args:
            is_question: `modes.asking` was asked, and another trace may know the answer.
        """
        kind = AskedValueError if is_question else TracedValueError
        raise kind(
            "the value of a tensor is not known while its program is being compiled: item(), "
            "tolist(), int(), float(), str(), print(), `if tensor:` and `while tensor:` cannot be "
            "used here. "
            "Use flambeau.where for a choice, compute with the tensor itself, or move this line "
            "out of the compiled function"
        )

    def before_pull(self, run: Backward, node: Node, cotangents: list[Cotangent]) -> None:
        """Called by the engine before it runs a node.

        Args:
            run: The run of the engine.
            node: The node that it is about to run.
            cotangents: The cotangents of the node's outputs.

        Raises:
            TracedValueError: The node was recorded before the trace, so its arrays would become
                constants of the program.
        """
        if node.edges and node.sequence < self.first_sequence:
            raise TracedValueError(
                f"backward() reached {node.name()}, which was recorded before the compiled "
                "function began; compute the loss inside the compiled function, or call "
                "backward() outside"
            )

    def after_pull(self, run: Backward, gradients: Sequence[Cotangent]) -> Sequence[Cotangent]:
        """Called by the engine with the gradients that a node gave; returns them."""
        return gradients

    def enter(self, module: Any, renewed: bool = False) -> None:
        """Note that ``module`` was called, so that the guard watches it.

        Args:
            module: The module.
            renewed: It was permanently changed by the call, as a lazy module is; the guard checks
                its new state.
        """
        self.modules.setdefault(module)


def current() -> Trace | None:
    """The trace that is recording on this thread, if any."""
    return modes.trace


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Compute with real values inside this block, even if a trace is recording around it.

    For state that is made once and kept, such as an optimizer's.
    """
    trace, inside = modes.trace, modes.inside
    if trace is None:
        yield
        return
    began = next_epoch()
    try:
        modes.trace = None
        if inside is trace:
            modes.inside = trace.around
        with jax.ensure_compile_time_eval():
            yield
    finally:
        trace._asides.append(range(began, next_epoch()))
        modes.trace, modes.inside = trace, inside
