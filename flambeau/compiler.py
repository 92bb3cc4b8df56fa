"""Questions about compilation, under the names of `torch.compiler`."""

from __future__ import annotations

from typing import Any as _Any

from flambeau._absent import Absent as _Absent
from flambeau.compile import compile
from flambeau.compile.function import CompiledFunction as _CompiledFunction
from flambeau.compile.function import set_stance as _set_stance
from flambeau.core import programs as _programs
from flambeau.core.finishing import between_steps
from flambeau.core.fusion.report import report as _report
from flambeau.core.fusion.stream import here as _here
from flambeau.core.gears import gears
from flambeau.core.limits import programs_at_once as _programs_at_once
from flambeau.core.modes import ContextDecorator as _ContextDecorator
from flambeau.core.modes import modes
from flambeau.core.native import native_kernels as _native_kernels
from flambeau.core.statistics import statistics as _statistics

__all__ = [
    "allow_in_graph", "assume_constant_result", "between_steps", "compile",
    "cudagraph_mark_step_begin", "disable", "explain", "gears", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "lower", "nested_compile_region",
    "reset", "set_stance", "stats", "substitute_in_graph",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)


def stats() -> dict[str, _Any]:
    """How many XLA programs this process has compiled and loaded, and the time that it took.

    Returns:
        A dictionary. ``interpreted`` counts calls that were evaluated without a program; see
        `gears`. ``compiled`` and ``loaded`` (from the disk) count programs, ``seconds`` is
        what both took together, ``ahead`` counts those of the loaded that a thread had read before
        they were asked for, ``held`` counts those in memory, which are at most ``bound``, and
        ``dropped`` those that made room for others or went with their function; operators that
        were only traced may count among those held in place of dropped ones. ``followed`` counts
        sequences of eager calls that ran as one program, ``left`` those that ended early and ran
        call by call. ``by_name`` has for each name of an operator (compiled functions are
        ``compiled_step``) how many programs were compiled and loaded, the seconds of each, and how
        many calls were evaluated.
        ``kernels`` names the native kernels that programs call where these are faster.

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
    """Print why a compiled function has the programs that it has.

    Without a function, print which sequences of eager calls of this thread run as one program, and
    at which lines they are left.

    For each program: the arguments and modes that it is for, and what it takes for granted of
    modules, globals, attributes and gradients. For each but the first: what had changed since the
    program that was used last, with the old and the new value. Whatever differs from call to call
    there costs a program for each value; pass it as a Tensor, or keep it in one.

    Args:
        function: What `compile` gave.
        file: Where to print, as in `print`; ``sys.stdout`` by default.

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
      for calls in which
        x is a Tensor of float32[3]
    """
    if function is None:
        text = _report(_here.stream.loops)
    else:
        text = _calls_of(function, "explain").explanation()
    print(text, file=file)


def lower(function: _Any, *args: _Any, **kwargs: _Any) -> _Any:
    """The program of a call, without running it, before or after XLA compiles it.

    Parameters, state and arguments may be on the meta device, and lie on a mesh there; the program
    is the one for tensors that lie so. So it can be asked how much memory a step takes on each
    device, and how its devices communicate, before there is a machine with that much memory.

    Args:
        function: What `compile` gave.
        args: The arguments of the call.
        kwargs: The arguments that it gives by name.

    Returns:
        A `jax.stages.Lowered`. Its ``compile()`` gives a `jax.stages.Compiled` with
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
    """Whether `flambeau.compile` is tracing the function that asks.

    >>> import flambeau
    >>> flambeau.compiler.is_compiling()
    False
    >>> double = flambeau.compile(lambda x: x * 2 if flambeau.compiler.is_compiling() else x)
    >>> double(flambeau.ones(2))
    tensor([2., 2.])
    """
    return modes.trace is not None


def is_dynamo_compiling() -> bool:
    """`is_compiling`, under an older name."""
    return is_compiling()


def is_exporting() -> bool:
    """``False``: programs are not exported."""
    return False


def disable(fn: _Any = None, recursive: bool = True, *, reason: str | None = None) -> _Any:
    """The function that it decorates, as it is.

    It runs eagerly wherever no compiled function calls it. Inside of one it becomes a part of the
    program, since there is one program for each; the results are the same. What cannot be a part of
    a program is a `CompileError` there; call it between compiled functions.

    Args:
        fn: The function, class or module; without it, this gives a decorator.
        recursive: Accepted for PyTorch's sake.
        reason: Accepted for PyTorch's sake.

    >>> import flambeau
    >>> @flambeau.compiler.disable(reason="draws a picture")
    ... def show(x):
    ...     return x
    >>> show(3)
    3
    """
    return _itself if fn is None else fn


def allow_in_graph(fn: _Any) -> _Any:
    """The function that it decorates, as it is: all are allowed."""
    return fn


def assume_constant_result(fn: _Any) -> _Any:
    """The decorated function, unchanged: values that it depends on are compared at each call."""
    return fn


def nested_compile_region(fn: _Any = None, **options: _Any) -> _Any:
    """The function that it decorates, as it is: XLA compiles one program."""
    return _itself if fn is None else fn


def substitute_in_graph(original_fn: _Any, **options: _Any) -> _Any:
    """A decorator that leaves both functions as they are: Python calls the original one."""
    return _itself


def cudagraph_mark_step_begin() -> None:
    """Accepted for PyTorch's sake: results of a program are never overwritten by the next call."""


def reset() -> None:
    """Accepted for PyTorch's sake: no program is ever stale, and few are kept."""


class set_stance(_ContextDecorator):
    """Say whether compiled functions use and make programs, in all threads.

    From now on if called as a function, for a ``with`` block, or for a function's calls as a
    decorator.

    Args:
        stance: ``"default"``; ``"force_eager"``: all run as they are; ``"eager_on_recompile"``:
            a call that no program fits runs as it is; ``"fail_on_recompile"``: it is a
            RuntimeError. PyTorch's other stances are the default here.
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
        """Run ``function`` with this stance at every call."""
        self.__exit__()
        return super().__call__(function)

    def clone(self) -> set_stance:
        """Another one."""
        return set_stance(self.stance)

    def __enter__(self) -> None:
        """Keep the stance."""

    def __exit__(self, *exception: object) -> None:
        """Set the stance from before."""
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
