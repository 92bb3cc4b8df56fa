"""The knowledge of a running trace: the Cells that it has read, and its writes to them.

While a thread traces, its Cells stay as they are: writes go to the trace's own table, and reads
look there first. A tensor that is given another Cell or view, and a module's table that is given
other members, do change; the trace remembers their values, and restores them when it ends.
So whatever happens during a trace, no tracer is left behind.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from flambeau.core import debugger
from flambeau.core.before import Before
from flambeau.core.cell import Cell, is_abstract, next_epoch
from flambeau.core.device import get_default_device, of_sharding
from flambeau.core.identity import MISSING
from flambeau.core.inside import Block
from flambeau.core.modes import modes


class TracedValueError(RuntimeError):
    """Something asked a program that is being traced for a value that it does not have yet.

    The trace remembers it and fails in the end, whoever catches it: with a value, the function
    would have gone on where it asked, and not with what its ``except`` does. A debugger's prompt
    only shows it.

    Attributes:
        line: The user's line that is to blame, where no line of the user's raised the error.
    """

    line: str | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        trace = modes.trace
        if trace is not None and trace.refused is None and not debugger.at_its_prompt():
            trace.refused = self


class AskedValueError(TracedValueError):
    """Python asked for the value of a tensor, which an eager call would know."""


class AskedCountError(AskedValueError):
    """Python asked how many elements a mask picks."""


class MadeInsideError(TracedValueError):
    """Something that is to live on was first made while a program was being traced.

    Where it has been made for real, the trace goes through.
    """


class Handle(NamedTuple):
    """A tensor as a trace found it, besides its elements.

    Attributes:
        cell: Its Cell.
        view: Its view of that.
        cls: Its class.
        accumulator: The reference to the node that accumulates its gradient, if there was one.
        grad_fn: Its node,
        output_nr: and which output of that it is.
        requires_grad: Its flag.
    """

    cell: Cell
    view: Any
    cls: type
    accumulator: Any
    grad_fn: Any
    output_nr: int
    requires_grad: bool

    @staticmethod
    def of(tensor: Any) -> Handle:
        """The present state of ``tensor``."""
        return Handle(
            tensor._cell, tensor._view, type(tensor), tensor._accumulator, tensor._grad_fn,
            tensor._output_nr, tensor._requires_grad,
        )  # fmt: skip

    def put_back(self, tensor: Any) -> None:
        """Let ``tensor`` have the Cell, view and class again."""
        if type(tensor) is not self.cls:
            tensor.__class__ = self.cls
        tensor._cell, tensor._view, tensor._accumulator = self.cell, self.view, self.accumulator

    def put_history_back(self, tensor: Any) -> None:
        """Let ``tensor`` have the history and the flag again."""
        tensor._grad_fn, tensor._output_nr = self.grad_fn, self.output_nr
        tensor._requires_grad = self.requires_grad


class Trace(Block):
    """One recording of a Python function into one program, as a ``with`` block.

    Attributes:
        reads: Every Cell that was read before it was written, with the array it held. JAX keeps
            that very object among the program's constants, which is how the two are matched.
        values: The arrays that the trace has written to Cells that existed before it.
        versions: The versions that those Cells had before.
        grads: The ``.grad`` of each tensor for which it was set, ``None`` included.
        grads_read: Tensors whose ``.grad`` was read as it stood before the trace, with that value.
        modules: Modules that were entered, in order.
        tensors: Tensors from outside that took part, as they were.
        derived: Views and aliases that were made inside, perhaps on Cells from outside.
        flags: Tensors from outside whose ``requires_grad`` was set, with the flag before.
        free: Those of them whose flag had not been read before, so that any flag will do.
        exchanged: Those of them that got another Cell, view or class.
        loose: Those of them to whose Cells the program is not bound.
        looked_at: Tensors from outside whose properties matter, without their elements.
        watched: Other objects whose state the program depends on; see `watch`.
        before: The content of containers, which is restored if the trace fails.
        refused: The first question that had no answer, if there was one.
        device: Where the program's arguments are, if it has any.
        first_sequence: Nodes numbered below this were recorded before the trace began.
        stand_in: Puts an array into a Cell on the meta device, and gives it; ``None`` leaves such
            Cells as they are.
    """

    def __init__(self, first_sequence: int) -> None:
        self.reads: dict[Cell, Any] = {}
        self.values: dict[Cell, Any] = {}
        self.versions: dict[Cell, int] = {}
        self.grads: dict[Any, Any] = {}
        self.grads_read: dict[Any, Any] = {}
        self.modules: dict[Any, None] = {}
        self.watched: dict[Any, tuple[Any, Callable[[], Any], Any]] = {}
        self.before = Before()
        self.tensors: dict[Any, Handle] = {}
        self.derived: dict[Any, None] = {}
        self.flags: dict[Any, bool] = {}
        self.free: set[Any] = set()
        self.exchanged: dict[Any, None] = {}
        self.loose: set[Any] = set()
        self.looked_at: dict[Any, None] = {}
        self.first_sequence = first_sequence
        self.refused: TracedValueError | None = None
        self.device: Any = None
        self.stand_in: Callable[[Cell], Any] | None = None
        self._owners: dict[int, Cell] = {}
        self._began = next_epoch()
        # The epochs in which something was computed for real; see `outside`.
        self._asides: list[range] = []
        # Products of matrices are compiled for the precision chosen.
        self.watch(jax.config, lambda: jax.config.values["jax_default_matmul_precision"])

    def __enter__(self) -> Trace:
        # First, since an interrupt may come.
        self.around = modes.inside
        modes.trace = self
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        """End the block; this may be done again, or where the block has not begun."""
        if modes.trace is self:
            modes.inside = self.around
            modes.trace = None

    def owns(self, cell: Cell) -> bool:
        """See `Block.owns`."""
        return self.is_made_inside(cell)

    def writer(self, cell: Cell, array: Any) -> Any:
        """See `flambeau.core.inside.writer`; inside of `outside` the trace does not count."""
        if modes.trace is not self:
            return super().writer(cell, array)
        if self.transformation is not None and not self.owns(cell):
            self.transformation.writer(cell, array)
        return self

    def read(self, cell: Cell) -> Any:
        """The value of ``cell`` as the traced program sees it."""
        value = self.values.get(cell, MISSING)
        if value is not MISSING:
            return value
        array = cell.array
        if self.stand_in is not None and is_abstract(array) and not self.is_made_inside(cell):
            array = self.stand_in(cell)
        if isinstance(array, Tracer | jax.ShapeDtypeStruct | np.ndarray):
            # NumPy arrays are positions that a node has saved, and constants of the program.
            return array
        if cell not in self.reads:
            if self.is_made_inside(cell):
                # A constant; or a value that the tape saved when it was read.
                return array
            if self._owners.setdefault(id(array), cell) is not cell:
                array = self._make_own(cell, array)
            self.reads[cell] = array
        return array

    def as_input(self, cell: Cell, array: Any) -> Any:
        """An array of ``cell`` that Python asks for; a tracer if later calls may find others."""
        is_known = isinstance(array, Tracer) or cell not in self.reads
        return array if is_known else jnp.array(array, copy=True)

    def _make_own(self, cell: Cell, array: Any) -> Any:
        # Two Cells may hold the same array (a clone does); the program must tell them apart.
        with jax.ensure_compile_time_eval():
            array = cell.array = array.copy()
        self._owners[id(array)] = cell
        return array

    def is_made_inside(self, cell: Cell) -> bool:
        """Whether ``cell`` was made by the traced function, or stands in for an argument's."""
        born = cell.born
        if born < self._began:
            return False
        return not any(map(range.__contains__, self._asides, itertools.repeat(born)))

    def write(self, cell: Cell, array: Any) -> None:
        """Let the traced program put ``array`` into ``cell``."""
        if isinstance(cell.array, Tracer) or self.is_made_inside(cell):
            cell.array = array
        else:
            self.versions.setdefault(cell, cell.version)
            self.values[cell] = array

    def writes_to(self, cell: Cell) -> int:
        """The number of writes to ``cell`` in the traced program."""
        return max(1, cell.version - self.versions[cell])

    def get_grad(self, tensor: Any) -> Any:
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

    def set_grad(self, tensor: Any, grad: Any) -> None:
        """Let the traced program set the ``.grad`` of ``tensor``."""
        self.grads[tensor] = grad

    def note(self, tensor: Any) -> None:
        """Note that ``tensor`` took part, so that the guard watches its flag and its Cell."""
        if tensor not in self.tensors and self.is_outside(tensor):
            self.tensors[tensor] = Handle.of(tensor)

    def is_outside(self, tensor: Any) -> bool:
        """Whether ``tensor`` existed before the trace."""
        if tensor in self.exchanged:
            return True
        # A sparse tensor has no Cell of its own.
        cell = (tensor._values() if tensor.is_sparse else tensor)._cell
        is_new = isinstance(cell.array, Tracer | np.ndarray) or self.is_made_inside(cell)
        return not is_new and tensor not in self.derived

    def derive(self, tensor: Any, source: Any) -> None:
        """Note that ``tensor`` is a new handle on the Cell of ``source``."""
        self.note(source)
        self.derived[tensor] = None

    def exchange(self, tensor: Any) -> None:
        """Note that ``tensor`` is about to be given another Cell, view or class."""
        if tensor not in self.exchanged and self.is_outside(tensor):
            self.note(tensor)
            self.exchanged[tensor] = None

    def touch(self, table: Any) -> None:
        """Note that ``table``, of a module's members, is about to be changed."""

    def touch_hooks(self, table: Any) -> None:
        """Note that ``table``, of a module's hooks, is about to be changed."""

    def touch_attributes(self, tensor: Any) -> None:
        """Note that an attribute of ``tensor`` is about to be set by the user."""

    def show_attributes(self, tensor: Any) -> None:
        """Note that all attributes that the user has set on ``tensor`` are asked for."""

    def change_class(self, cls: type, name: str) -> None:
        """Note that a member of a class of tensors is about to be replaced."""

    def ask(self, tensor: Any, question: Callable[..., Any], *args: Any) -> Any:
        """The answer to a question about the argument that ``tensor`` stands for, or about it."""
        return question(tensor, *args)

    def look_at(self, tensor: Any) -> None:
        """Note that properties of ``tensor`` matter: shape, dtype, flag, or that it is a leaf."""
        if tensor not in self.looked_at and self.is_outside(tensor):
            self.looked_at[tensor] = None

    def add_hook(self, tensor: Any, method: str, hooks: Any) -> None:
        """Note that ``method`` of ``tensor`` is about to add a hook to ``hooks``."""

    def refuse_version(self, tensor: Any) -> None:
        """Fail if ``tensor`` is from outside: each call may find it at another version."""
        if self.is_outside(tensor):
            raise TracedValueError(
                "the _version of a tensor from outside the compiled function counts the writes of "
                "all calls, and a program would keep the number of its trace; compare versions "
                "outside of the function"
            )

    def set_flag(self, tensor: Any) -> None:
        """Note that the ``requires_grad`` of ``tensor`` is about to be set."""
        if tensor not in self.flags and self.is_outside(tensor):
            self.flags[tensor] = tensor._requires_grad
            if tensor not in self.tensors and tensor not in self.looked_at:
                self.free.add(tensor)

    def watch(self, owner: Any, snapshot: Callable[[], Any], name: Any = None) -> bool:
        """Let the guard compare the result of ``snapshot()`` now with later results.

        Whatever changes its value must call `world.bump`.

        Args:
            owner: The object to watch.
            snapshot: Gives its value.
            name: Which part of it.

        Returns:
            Whether that is new.
        """
        if (id(owner), name) in self.watched:
            return False
        self.watched[id(owner), name] = (owner, snapshot, snapshot())
        return True

    def note_setting(self, read: Callable[[], Any]) -> None:
        """Note that the function asks for a setting of the process, which ``read`` gives."""

    def unwatched(self) -> contextlib.AbstractContextManager[None]:
        """A block that runs flambeau's and JAX's code alone, which reads nothing of the user's."""
        return contextlib.nullcontext()

    def place(self) -> Any:
        """The device that the traced program runs on."""
        for array in self.reads.values():
            if array.committed:
                return of_sharding(array.sharding)
        return get_default_device() if self.device is None else self.device

    def place_of(self, cell: Cell) -> Any:
        """The device of a Cell's array, which is a tracer."""
        return self.place()

    def moved(self, source: Any, target: Any) -> Any:
        """A tensor on another device than the program's; ``None`` if there is no other."""
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

    def before_pull(self, run: Any, node: Any, cotangents: list[Any]) -> None:
        """Called by the engine before it runs a node.

        Args:
            run: The run of the engine.
            node: The node that it is about to run.
            cotangents: Those of the node's outputs.

        Raises:
            TracedValueError: The node was recorded before the trace, and its arrays would be
                constants of the program.
        """
        if node.edges and node.sequence < self.first_sequence:
            raise TracedValueError(
                f"backward() reached {node.name()}, which was recorded before the compiled "
                "function began; compute the loss inside the compiled function, or call "
                "backward() outside"
            )

    def after_pull(self, run: Any, gradients: Any) -> Any:
        """Called by the engine with the gradients that a node gave; returns these."""
        return gradients

    def enter(self, module: Any, renewed: bool = False) -> None:
        """Note that ``module`` was called, so that the guard watches it.

        Args:
            module: The module.
            renewed: It has changed for good since it was entered, as a lazy module does; what it is
                now counts.
        """
        self.modules.setdefault(module)


def current() -> Trace | None:
    """The trace that is recording on this thread, if any."""
    return modes.trace


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Compute for real inside this block, although a trace may be recording around it.

    For state that is made once and then lives on, such as an optimizer's.
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
