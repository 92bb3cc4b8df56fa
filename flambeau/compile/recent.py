"""The fast path of a compiled function: calls like the last one."""

from __future__ import annotations

from typing import Any

from flambeau.compile.guarding import arguments
from flambeau.compile.program import Program
from flambeau.core.programs.forms import form_of
from flambeau.core.support import world
from flambeau.core.support.jax_private import ArrayImpl
from flambeau.core.support.modes import modes
from flambeau.core.values.tensor import Tensor

#: The result of `Recent.run` for a call that takes the slow path.
UNKNOWN = object()


class Recent:
    """The fast path: runs the last program again.

    The checks take 2 µs of a step that may take 80 µs, so one function checks and collects without
    helpers.

    Args:
        program: The program.
        args: The arguments of its last call, all of them plain tensors.
    """

    def __init__(self, program: Program, args: tuple[Any, ...]) -> None:
        self.program = program
        self.guard = program.guard
        many = arguments.have_many_places()
        arrays = [each._cell.array for each in args]
        # On a machine with one device all arrays lie on that.
        self.forms = [
            (i, form_of(e.aval), e.sharding if many else None) for i, e in enumerate(arrays)
        ]
        self.count = len(args)
        # No argument may be on one of these Cells.
        self.written = program.checks.sharing.written_cells
        # Thread-local modes at that call; any difference takes the slow path.
        self.modes = dict(vars(modes))
        self.version = world.version

    @staticmethod
    def of(program: Program, args: tuple[Any, ...]) -> Recent | None:
        """The fast path for calls like this one; ``None`` if they are not simple enough."""
        if not program.is_simple:
            return None
        is_simple = all(map(arguments.is_simple, args)) and arguments.are_different(args)
        return Recent(program, args) if is_simple else None

    def run(self, args: tuple[Any, ...]) -> Any:
        """The result for ``args``; `UNKNOWN`, without any effect, if the slow path must decide.

        Arguments must be plain tensors without views and gradients. A change of the default dtype
        or device changes ``world.version``.
        """
        if (
            len(args) != self.count
            or vars(modes) != self.modes
            or self.version != world.version
            or not self.guard.holds()
        ):
            return UNKNOWN
        count, written = self.count, self.written
        if count > 1 and (args[0] is args[1] if count == 2 else not arguments.are_different(args)):
            return UNKNOWN
        arrays = []
        for i, form, sharding in self.forms:
            each = args[i]
            if (
                type(each) is not Tensor
                or each._view is not None
                or each._requires_grad
                or each._grad is not None
            ):
                return UNKNOWN
            cell = each._cell
            array = cell.array
            if type(array) is not ArrayImpl:
                return UNKNOWN
            # Arrays from the same source mostly share one aval.
            if array.aval is not form and form_of(array.aval) is not form:
                return UNKNOWN
            if sharding is not None and array.sharding != sharding:
                return UNKNOWN
            if written and cell in written:
                return UNKNOWN
            arrays.append(array)
        return self.program.run_on(args, arrays)
