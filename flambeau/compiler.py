"""Queries about compilation, under the names of `torch.compiler`."""

from __future__ import annotations

from typing import Any as _Any

from flambeau._absent import Absent as _Absent
from flambeau.compile import compile
from flambeau.compile.function import CompiledFunction as _CompiledFunction
from flambeau.compile.function import set_stance as _set_stance
from flambeau.core.devices.limits import programs_at_once as _programs_at_once
from flambeau.core.devices.native import native_kernels as _native_kernels
from flambeau.core.fusion.report import report as _report
from flambeau.core.fusion.stream import here as _here
from flambeau.core.programs import compiled as _programs
from flambeau.core.programs.finishing import between_steps
from flambeau.core.programs.gears import gears
from flambeau.core.support.modes import ContextDecorator as _ContextDecorator
from flambeau.core.support.modes import modes
from flambeau.core.support.statistics import statistics as _statistics
from flambeau.core.tape.checks import checks

__all__ = [
    "allow_in_graph", "assume_constant_result", "between_steps", "checks", "compile",
    "cudagraph_mark_step_begin", "disable", "explain", "gears", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "lower", "nested_compile_region",
    "reset", "set_stance", "stats", "substitute_in_graph",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)


def stats() -> dict[str, _Any]:
    """The counts and times of XLA programs that this process has compiled and loaded.

    Returns:
        A dictionary. ``interpreted`` counts calls that were evaluated without a program; see
        `gears`. ``compiled`` and ``loaded`` (from the persistent cache) count programs, ``seconds``
        is their total time, ``ahead`` counts the loaded programs that a background thread had
        prefetched, ``held`` counts the programs in memory, at most ``bound``, and ``dropped`` the
        evicted programs and those deleted with their function; operators that were only traced may
        be counted as held after an eviction. ``followed`` counts sequences of eager calls that ran
        as one program, ``left`` the sequences that diverged and continued eagerly. ``by_name`` has,
        for each operator (compiled functions are ``compiled_step``), the number of compiled and of
        loaded programs, their seconds, and the number of interpreted calls. ``kernels`` names the
        native kernels that programs may call.

    >>> import flambeau
    >>> _ = flambeau.ones(3).exp()
    >>> found = flambeau.compiler.stats()
    >>> found["compiled"] + found["loaded"] == found["held"] + found["dropped"]
    True
    >>> sorted(found["by_name"]["exp"])
    ['compiled', 'compiling_seconds', 'interpreted', 'loaded', 'loading_seconds']
    """
    compiled, loaded = dict(_statistics.compiled), dict(_statistics.loaded)
    interpreted = dict(_statistics.interpreted)
    by_name = {}
    for name in sorted({*compiled, *loaded, *interpreted}):
        count, making = compiled.get(name, (0, 0.0))
        found, loading = loaded.get(name, (0, 0.0))
        by_name[name] = {
            "compiled": count, "compiling_seconds": making,
            "loaded": found, "loading_seconds": loading,
            "interpreted": interpreted.get(name, 0),
        }  # fmt: skip
    total = sum(count for count, _ in compiled.values())
    found = sum(count for count, _ in loaded.values())
    held = min(_programs.alive(), total + found)
    return {
        "interpreted": sum(interpreted.values()),
        "compiled": total,
        "loaded": found,
        "ahead": _statistics.ahead,
        "seconds": sum(seconds for _, seconds in (*compiled.values(), *loaded.values())),
        "held": held,
        "dropped": total + found - held,
        "followed": _statistics.fused,
        "left": _statistics.left,
        "bound": _programs_at_once(),
        "kernels": _native_kernels(),
        "by_name": by_name,
    }


def explain(function: _Any = None, file: _Any = None) -> None:
    """Print the cause of each compilation of a compiled function.

    Without a function, print the sequences of eager calls of this thread that run as one program,
    and the lines at which they diverge.

    For the first program: its arguments and modes. For each other one: what differed from the most
    recent program, with the old and new values. For the last one: the modules' modes, globals,
    attributes and gradients that it assumes. A guarded value that differs at each call
    causes a compilation for each value; pass it as a Tensor instead.

    Args:
        function: The result of `compile`.
        file: The stream to print to, as in `print`; ``sys.stdout`` by default.

    Raises:
        TypeError: ``function`` is not a compiled function or module.

    >>> import flambeau
    >>> double = flambeau.compile(lambda x: x + x)
    >>> _ = double(flambeau.ones(2)), double(flambeau.ones(3))
    >>> flambeau.compiler.explain(double)
    <lambda>: 2 programs
    <BLANKLINE>
    program 1
      for calls in which
        x is a Tensor of float32[2]
    <BLANKLINE>
    program 2
      made because program 1 did not fit:
        the shape of x was [2], and is [3]
    """
    if function is None:
        text = _report(_here.stream.loops)
    else:
        text = _calls_of(function, "explain").explanation()
    print(text, file=file)


def lower(function: _Any, *args: _Any, **kwargs: _Any) -> _Any:
    """Lower the program of a call without running it.

    Parameters, state and arguments may be on the meta device, with shardings; the program is the
    one for tensors with these shardings. Its memory use per device and its communication can thus
    be analyzed without the devices.

    Args:
        function: The result of `compile`.
        args: The arguments of the call.
        kwargs: The keyword arguments of the call.

    Returns:
        A `jax.stages.Lowered`. Its ``compile()`` returns a `jax.stages.Compiled` with
        ``memory_analysis()`` in bytes for each device, ``cost_analysis()`` and ``as_text()``.

    Raises:
        TypeError: ``function`` is not a compiled function or module.
        CompileError: The function needs a tensor's value in Python.

    >>> import flambeau
    >>> double = flambeau.compile(lambda x: x * 2)
    >>> x = flambeau.empty(1024, device="meta")
    >>> flambeau.compiler.lower(double, x).compile().memory_analysis().output_size_in_bytes
    4096
    """
    from flambeau.compile.ahead import lower

    return lower(_calls_of(function, "lower").function, args, kwargs)


def _calls_of(function: _Any, asked: str) -> _CompiledFunction:
    calls = getattr(function, "_calls", function)
    if not isinstance(calls, _CompiledFunction):
        raise TypeError(
            f"{asked}() needs what flambeau.compile() returned, got {type(function).__name__}; "
            "compile the function first"
        )
    return calls


def is_compiling() -> bool:
    """Whether the caller is being traced, by `flambeau.compile` or `flambeau.export.export`.

    >>> import flambeau
    >>> flambeau.compiler.is_compiling()
    False
    >>> double = flambeau.compile(lambda x: x * 2 if flambeau.compiler.is_compiling() else x)
    >>> double(flambeau.ones(2))
    tensor([2., 2.])
    """
    return modes.trace is not None or modes.exporting


def is_dynamo_compiling() -> bool:
    """`is_compiling`, under an older name."""
    return is_compiling()


def is_exporting() -> bool:
    """Whether the caller is being traced by `flambeau.export.export`."""
    return modes.exporting


def disable(fn: _Any = None, recursive: bool = True, *, reason: str | None = None) -> _Any:
    """Return the decorated function unchanged.

    It runs eagerly unless a compiled function calls it. Inside a compiled function it is traced,
    since each compiled function is one program; the results are the same. With code that cannot
    be traced, the compiled function runs eagerly; call it between compiled functions.

    Args:
        fn: The function, class or module; without it, a decorator is returned.
        recursive: Accepted for compatibility.
        reason: Accepted for compatibility.

    >>> import flambeau
    >>> @flambeau.compiler.disable(reason="draws a picture")
    ... def show(x):
    ...     return x
    >>> show(3)
    3
    """
    return _itself if fn is None else fn


def allow_in_graph(fn: _Any) -> _Any:
    """Return the decorated function unchanged: all are allowed."""
    return fn


def assume_constant_result(fn: _Any) -> _Any:
    """Return the decorated function unchanged: its guards are checked at each call."""
    return fn


def nested_compile_region(fn: _Any = None, **options: _Any) -> _Any:
    """Return the decorated function unchanged: XLA compiles one program."""
    return _itself if fn is None else fn


def substitute_in_graph(original_fn: _Any, **options: _Any) -> _Any:
    """A decorator that leaves both functions unchanged: Python calls the original function."""
    return _itself


def cudagraph_mark_step_begin() -> None:
    """Accepted for compatibility: results of a program are never overwritten by the next call."""


def reset() -> None:
    """Do nothing: programs are never stale, and their number is bounded."""


class set_stance(_ContextDecorator):
    """Set whether compiled functions run and compile programs, in all threads.

    It applies permanently as a function call, to the block as a context manager, and to a
    function's calls as a decorator.

    Args:
        stance: ``"default"``; ``"force_eager"``: all functions run eagerly;
            ``"eager_on_recompile"``: a call without a matching program runs eagerly;
            ``"fail_on_recompile"``: such a call raises a RuntimeError. PyTorch's other stances
            equal the default here.
        skip_guard_eval_unsafe: Without effect: programs are never stale.
        force_backend: Without effect.

    Raises:
        RuntimeError: There is no such stance.
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False,
        force_backend: _Any = None,
    ) -> None:  # fmt: skip
        if stance not in _STANCES:
            raise RuntimeError(f"invalid stance {stance!r}; there are {', '.join(_STANCES)}")
        self.stance = stance
        self._before: str = _set_stance(stance)

    def __call__(self, function: _Any) -> _Any:
        """Run ``function`` under this stance at every call."""
        self.__exit__()
        return super().__call__(function)

    def clone(self) -> set_stance:
        """A copy of this context manager."""
        return set_stance(self.stance)

    def __enter__(self) -> None:
        """Enter the block; the stance is set already."""

    def __exit__(self, *exception: object) -> None:
        """Restore the previous stance."""
        _set_stance(self._before)


_STANCES = (
    "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile",
    "aot_eager_then_compile",
)  # fmt: skip


def list_backends(exclude_tags: _Any = ("debug", "experimental")) -> list[str]:
    """``[]``: XLA compiles, whatever ``backend=`` says."""
    return []


def _itself(fn: _Any) -> _Any:
    return fn
