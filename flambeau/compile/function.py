"""`compile`: the public face, and the choice of a program for each call."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from flambeau.compile import arguments
from flambeau.compile.errors import CompileWarning
from flambeau.compile.program import Program
from flambeau.core import device, dtype
from flambeau.core.modes import modes

# A function that needs more programs than this is probably compiled anew at every call.
MANY_PROGRAMS = 16


class CompiledFunction:
    """A function whose calls run as one XLA program each.

    Args:
        function: A function of Tensors, numbers, modules and containers of them.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.programs: dict[Any, list[Program]] = {}
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for these arguments, tracing the function if there is none yet."""
        if modes.trace is not None:
            return self.function(*args, **kwargs)
        leaves, structure = arguments.flatten(args, kwargs)
        key = (
            structure, arguments.signature(leaves), modes.grad_enabled, modes.inference,
            dtype._default, modes.device or device._global_default,
        )  # fmt: skip
        programs = self.programs.get(key)
        if programs is None:
            programs = self.programs[key] = []
            self._warn_if_many()
        for i, program in enumerate(programs):
            if program.accepts():
                if i:
                    programs.insert(0, programs.pop(i))
                return program.run(leaves)
        program = Program(self.function, leaves, structure)
        programs.insert(0, program)
        return program.run(leaves)

    def __getattr__(self, name: str) -> Any:
        # What a module offers besides being called: parameters(), train(), its submodules.
        if name == "function":
            raise AttributeError(name)
        return getattr(self.function, name)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _warn_if_many(self) -> None:
        if len(self.programs) == MANY_PROGRAMS + 1:
            name = getattr(self.function, "__name__", repr(self.function))
            warnings.warn(
                f"{name} has been compiled for {MANY_PROGRAMS} kinds of arguments; each new shape, "
                "dtype and Python number is a new program. Pass numbers that vary as Tensors, and "
                "pad inputs to a few shapes",
                CompileWarning,
                stacklevel=3,
            )

    @property
    def program_count(self) -> int:
        """How many programs have been compiled."""
        return sum(map(len, self.programs.values()))


def compile(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Turn a function (a training step, say) or a module into one XLA program.

    The function is traced once per situation: structure, shapes and dtypes of the arguments,
    gradient mode, and for each module it enters the training flag, hooks, submodules and plain
    attributes. A changed situation picks another program or traces again, so the result is always
    the eager one. Parameters, buffers, gradients and optimizer state are read and written where
    they live. Python side effects run while tracing only.

    Args:
        function: A function of Tensors, numbers and containers of them, or a module.
        options: PyTorch's (``mode``, ``fullgraph``, ``dynamic``, ``backend``, ``options``,
            ``disable``); accepted, and without effect except ``disable``.

    Returns:
        A callable with the same arguments and results.

    Raises:
        CompileError: At the first call: the function needs a tensor's value in Python.

    >>> import flambeau
    >>> @flambeau.compile
    ... def double(x):
    ...     return x + x
    >>> double(flambeau.ones(2))
    tensor([2., 2.])
    """
    unknown = sorted(
        set(options) - {"mode", "fullgraph", "dynamic", "backend", "options", "disable"}
    )
    if unknown:
        raise TypeError(f"compile() got unexpected arguments {unknown}")
    if function is None:
        return functools.partial(compile, **options)
    if options.get("disable"):
        return function
    return CompiledFunction(function)
