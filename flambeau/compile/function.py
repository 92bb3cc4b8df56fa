"""`compile`: the public interface, and the choice of a program for each call."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, overload

from flambeau.compile.answers import FailedCheckError, Learning, OtherAnswersError
from flambeau.compile.errors import (
    CompileError,
    CountingError,
    NotYetMadeError,
    UnansweredError,
    warn,
)
from flambeau.compile.guarding import arguments, explaining
from flambeau.compile.guarding.changes import Changes
from flambeau.compile.guarding.explaining import Origin
from flambeau.compile.guarding.numbers import Numbers
from flambeau.compile.guarding.places import Outside
from flambeau.compile.guarding.situation import Situation
from flambeau.compile.kind import Kind, Miss
from flambeau.compile.program import Program
from flambeau.compile.reading.chance import is_iterator
from flambeau.compile.reading.printing import show_failed
from flambeau.compile.recent import UNKNOWN, Recent
from flambeau.compile.typing import Compiled, Compiling, M, P, R
from flambeau.core.devices import device
from flambeau.core.fusion.stream import boundary
from flambeau.core.support import dtype, world
from flambeau.core.support.modes import modes
from flambeau.core.support.tracebacks import trim
from flambeau.core.tape import checks

# Keep at most this many programs; drop the least recently used one.
MOST_PROGRAMS = 128
# Keep the knowledge of at most this many kinds of calls.
MOST_KINDS = 1024
# Remember at most this many places of numbers that have changed.
MOST_VARYING = 16_384
# At most this many calls in a row may run eagerly to create state that later calls use.
EAGER_CALLS = 2
# Give up after this many traces that need the value of a tensor. The first trace has no answers,
# the first eager call may learn those of a first step, and a trace shows that it needs counts.
UNANSWERED_TRACES = 4
# Warn after this many first calls of a kind in a row that need the value of a tensor.
UNANSWERED_KINDS = 8
# Give up after this many traces in a row that raise an error which the eager call does not raise.
FAILED_TRACES = 4
# Run eagerly after this many programs for the same arguments, if calls may run eagerly.
MOST_SITUATIONS = 8


# Threads that call at the same time share one program: they trace one after the other. A traced
# function may wait for a thread that traces, so each waits at most this long, in seconds.
_tracing = threading.RLock()
_LONGEST_WAIT = 60.0
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tracing._at_fork_reinit)  # type: ignore[attr-defined]


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    is_held = _tracing.acquire(timeout=_LONGEST_WAIT)
    try:
        yield
    finally:
        if is_held:
            _tracing.release()


#: Whether compiled functions run as they are; see `compiler.set_stance`.
stance: str = "default"


def _modes() -> tuple[Any, ...]:
    return (
        modes.trace, modes.grad_enabled, modes.inference, dtype._default,
        modes.device or device._global_default, modes.autocast, modes.multithreading,
        checks.now(),
    )  # fmt: skip


class CompiledFunction:
    """A function whose calls run as one XLA program each.

    Args:
        function: A function of Tensors, numbers, modules and containers of them.
        fullgraph: Whether a call that cannot become one program is an error; otherwise it runs
            eagerly.
        dynamic: Whether numbers among the arguments may be inputs of a program.
    """

    def __init__(
        self, function: Callable[..., Any], fullgraph: bool = False, dynamic: bool = True
    ) -> None:
        self.function = function
        self.fullgraph, self.dynamic = fullgraph, dynamic
        #: The knowledge of calls by their keys; the most recently used key is last.
        self.kinds: OrderedDict[Any, Kind] = OrderedDict()
        # The positions of numbers on whose values programs depend, by the arguments' structure.
        self._fixed: dict[Any, set[int]] = {}
        # Places outside at which numbers have changed between calls; and those of them on whose
        # values programs depend.
        self._varying: set[Outside] = set()
        self._fixed_outside: set[Outside] = set()
        self._changes = Changes()
        self._recent: Recent | None = None
        # The reason for which calls run eagerly whose arguments no program can take.
        self._refused: str = ""
        # The reason for which first calls of a kind run eagerly, and how many in a row have.
        self._unanswered, self._unanswered_kinds = "", 0
        self._compilations = 0
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for these arguments, tracing the function if there is none yet."""
        boundary()
        try:
            try:
                recent = self._recent
                if recent is not None and not kwargs:
                    result = recent.run(args)
                    if result is not UNKNOWN:
                        return result
                return self._called(args, kwargs)
            except FailedCheckError:
                # Eager code names the operator and the line.
                return self.function(*args, **kwargs)
        except Exception as error:
            trim(error)
            raise

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call that takes the slow path."""
        if modes.trace is not None or modes.functions or stance == "force_eager":
            return self.function(*args, **kwargs)
        if modes.level is not None:
            warn(
                f"{self._name!r} runs eagerly, since a dual level is open around it; open the "
                "level inside the compiled function"
            )
            return self.function(*args, **kwargs)
        leaves, structure = arguments.flatten(args, kwargs)
        if any(map(arguments.is_on_meta, leaves)):
            # There is nothing to compute, so a program would save nothing.
            return self.function(*args, **kwargs)
        try:
            key, numbers = self._key(leaves, structure)
        except TypeError as error:
            if self.fullgraph:
                raise
            if self._refused != str(error):
                self._refused = str(error)
                self._warn_of(error)
            return self.function(*args, **kwargs)
        count = self._compilations
        kind = self.kinds.setdefault(key, Kind())
        self.kinds.move_to_end(key)
        if len(self.kinds) > MOST_KINDS:
            self.kinds.popitem(last=False)
        missed: list[Miss] = []
        for i, program in enumerate([*kind.programs]):
            if not program.fits(leaves):
                continue
            if i:
                kind.programs.remove(program)
                kind.programs.insert(0, program)
            try:
                return self._run(program, args, kwargs, leaves)
            except OtherAnswersError as error:
                missed.append((program, error.change))
        if kind.reason:
            return self.function(*args, **kwargs)
        if missed and not kind.is_new:
            return self._learn(kind, missed, args, kwargs)
        if stance == "eager_on_recompile":
            return self.function(*args, **kwargs)
        if stance == "fail_on_recompile":
            raise RuntimeError(
                f"Detected recompile of {self._name!r} while set_stance('fail_on_recompile') is in "
                "force: no program fits this call; call it once before with such arguments"
            )
        with _one_at_a_time():
            is_made = self._compilations != count
            program = None if is_made else self._made(kind, key, leaves, numbers, missed)
        if is_made:
            # Another thread has made a program meanwhile.
            return self._called(args, kwargs)
        if program is None:
            return self._learn(kind, missed, args, kwargs)
        try:
            return self._run(program, args, kwargs, leaves)
        except OtherAnswersError as error:
            return self._learn(kind, [*missed, (program, error.change)], args, kwargs)

    def _key(self, leaves: list[Any], structure: Any) -> tuple[Any, Numbers]:
        """The key of a call, and the numbers among its arguments whose values are not in it."""
        fixed = self._fixed.get(structure, ())
        numbers = Numbers.among(leaves, fixed) if self.dynamic else Numbers.none()
        specs = arguments.signature(leaves, numbers.positions)
        return (structure, specs, _modes()), numbers

    def _made(
        self, kind: Kind, key: Any, leaves: list[Any], numbers: Numbers, missed: list[Miss]
    ) -> Program | None:
        """A new program, first in its list; ``None`` if the call runs eagerly."""
        origin, structure = self._origin(kind, key, leaves, missed), key[0]
        if self.dynamic and kind.programs:
            self._vary(kind.programs[0].guard.changed_numbers())
        numbers = numbers._replace(places=frozenset(self._varying - self._fixed_outside))
        program = self._compiled(kind, leaves, structure, numbers)
        self._fixed_outside |= numbers.read_outside
        if numbers.read:
            # From now on the key has their values.
            if len(self._fixed) > MOST_KINDS:
                self._fixed.clear()
            self._fixed.setdefault(structure, set()).update(numbers.read)
            self.kinds.pop(key, None)
            key = self._key(leaves, structure)[0]
            self.kinds[key] = kind
        if program is not None:
            program.origin = origin._replace(situation=Situation.of(self.function, key))
            self._compilations = origin.number
            kind.eager_calls = kind.failures = self._unanswered_kinds = 0
            kind.programs.insert(0, program)
            self._warn_if_many(kind, origin)
            self._drop_oldest()
        return program

    def _vary(self, places: set[Outside]) -> None:
        """Note the places of numbers that have changed."""
        if len(self._varying) > MOST_VARYING:
            # They may belong to objects that are gone.
            self._varying.clear()
            self._fixed_outside.clear()
        self._varying |= places

    def _run(self, program: Program, args: Any, kwargs: Any, leaves: list[Any]) -> Any:
        is_quick = not kwargs and not program.is_guess
        self._recent = Recent.of(program, args) if is_quick else None
        return program.run(leaves)

    def _learn(self, kind: Kind, missed: list[Miss], args: Any, kwargs: Any) -> Any:
        """Run eagerly, and keep the answers to questions about values for the next trace."""
        if kind.programs:
            kind.misses += 1
            if kind.misses == MOST_SITUATIONS:
                # Its answers have too often fitted no program.
                kind.programs = [each for each in kind.programs if not each.is_guess]
                error = "Python asks for values of tensors that vary from call to call"
                last = "".join(f": {change.line}" for _, change in missed[-1:])
                self._run_eagerly(kind, CompileError(error + last))
        if self.fullgraph or kind.reason:
            return self.function(*args, **kwargs)
        failure, kind.failure = kind.failure, None
        with Learning() as learning:
            result = self.function(*args, **kwargs)
        kind.learn(learning.answers, missed)
        if failure is not None:
            self._note_failure(kind, failure)
        return result

    def _note_failure(self, kind: Kind, failure: Exception) -> None:
        """Give up on calls whose trace fails again and again where the eager call does not."""
        kind.failures += 1
        if kind.failures == FAILED_TRACES:
            name, text = type(failure).__name__, str(failure).partition("\n")[0]
            self._run_eagerly(kind, CompileError(f"its trace ends with {name}: {text:.300}"))

    def __getattr__(self, name: str) -> Any:
        if name == "function":
            raise AttributeError(name)
        return getattr(self.function, name)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        count = self.program_count
        return f"<compiled function {self._name}: {count} program{'' if count == 1 else 's'}>"

    def _compiled(
        self, kind: Kind, leaves: list[Any], structure: Any, numbers: Numbers
    ) -> Program | None:
        """The program for a call; ``None`` if the call runs eagerly."""
        try:
            if any(map(is_iterator, leaves)):
                raise CompileError(
                    "an iterator is among the arguments, which a trace would use up; pass a list"
                )
            program = Program(
                self.function, leaves, structure, answers=kind.taken(), numbers=numbers
            )
            refusal = None if program.gradients is None else program.gradients.refusal
            # Any other error is one that a backward of the eager call would raise as well.
            if self.fullgraph or not isinstance(refusal, CompileError):
                return program
            raise CompileError(str(refusal))
        except UnansweredError as error:
            kind.counts = kind.counts or error.is_count
            kind.unanswered += 1
            if self.fullgraph or kind.unanswered == UNANSWERED_TRACES:
                self._run_eagerly(kind, error)
            elif kind.unanswered == 1:
                self._note_unanswered(error)
        except CompileError as error:
            counted = {*error.slots} - self._varying if isinstance(error, CountingError) else ()
            if self.dynamic and counted:
                # Once more, with the numbers that it changes as inputs.
                self._vary(counted)
                numbers = numbers._replace(
                    places=numbers.places | counted, counted=frozenset(counted)
                )
                return self._compiled(kind, leaves, structure, numbers)
            if isinstance(error, NotYetMadeError) and kind.eager_calls < EAGER_CALLS:
                kind.eager_calls += 1
            else:
                self._run_eagerly(kind, error)
        except Exception as error:
            if numbers.positions or numbers.places:
                # Perhaps because of the numbers: once more with their values.
                return self._compiled(kind, leaves, structure, numbers.give_up())
            # The function's own error: the eager call raises it again, with eager side effects.
            if self.fullgraph:
                show_failed()
                raise
            kind.failure = error
        return None

    def _note_unanswered(self, error: UnansweredError) -> None:
        """Warn if call after call is the first of its kind, and has to run eagerly."""
        self._unanswered_kinds += 1
        if self._unanswered_kinds == UNANSWERED_KINDS and not self._unanswered:
            self._unanswered = (
                f"each of the last {UNANSWERED_KINDS} calls had a new shape, or a new number that "
                f"Python reads, and needed the value of a tensor: {error}"
            )
            warn(f"{self._name!r} runs eagerly: {self._unanswered}")

    def _origin(self, kind: Kind, key: Any, leaves: list[Any], missed: list[Miss]) -> Origin:
        """The reason for which a call needs a program besides the one that was used last."""
        number, situation = self._compilations + 1, Situation.of(self.function, key)
        if kind.programs:
            last = kind.programs[0]
            changes = explaining.differences(last, leaves)
            changes += [change for program, change in missed if program is last]
            return Origin(number, situation, last.origin.number, tuple(changes))
        others = [e.programs[0].origin for e in reversed(self.kinds.values()) if e.programs]
        if not others:
            return Origin(number, situation)
        nearest = min(others, key=lambda each: situation.distance(each.situation))
        changes = tuple(situation.differences(nearest.situation))
        return Origin(number, situation, nearest.number, changes)

    def explanation(self) -> str:
        """An explanation of the programs; see `flambeau.compiler.explain`."""
        programs = [each for kind in self.kinds.values() for each in kind.programs]
        programs.sort(key=lambda each: each.origin.number)
        reasons = [self._refused, self._unanswered, *(kind.reason for kind in self.kinds.values())]
        return explaining.page(self._name, programs, [*filter(None, reasons)])

    def _run_eagerly(self, kind: Kind, error: CompileError) -> None:
        """Raise the error, or let this call and all others of its kind run eagerly."""
        if self.fullgraph:
            raise error
        if not kind.reason:
            kind.reason = str(error)
            self._warn_of(error)

    def _warn_of(self, error: Exception) -> None:
        warn(
            f"{self._name!r} runs eagerly for arguments like these, since it cannot become one "
            f"program: {error}. With fullgraph=True this is an error"
        )

    def _drop_oldest(self) -> None:
        """Drop the least recently used programs if there are too many."""
        while self.program_count > MOST_PROGRAMS:
            oldest = next(iter(self.kinds.values()))
            if oldest.programs:
                oldest.programs.pop()
            if not oldest.programs:
                self.kinds.popitem(last=False)

    def _warn_if_many(self, kind: Kind, origin: Origin) -> None:
        """Warn of a value that makes a program again and again, and of too many programs."""
        self._changes.add(origin.changes, self._name, origin.number)
        if not self.fullgraph and len(kind.programs) == MOST_SITUATIONS:
            kind.reason = (
                f"it has been compiled {MOST_SITUATIONS} times for the same arguments, the last "
                f"time since {'; '.join(origin.reasons)}. Keep what varies in a tensor"
            )
            warn(
                f"{self._name}: {kind.reason}. Other calls like these run eagerly; with "
                "fullgraph=True they would be compiled again"
            )

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def program_count(self) -> int:
        """The number of programs in memory."""
        return sum(len(kind.programs) for kind in self.kinds.values())


@overload
def compile(function: None = None, **options: Any) -> Compiling: ...
@overload
def compile(function: M, **options: Any) -> M: ...
@overload
def compile(function: Callable[P, R], **options: Any) -> Compiled[P, R]: ...
def compile(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Turn a function, such as a training step, or a module into one XLA program.

    The function is traced once per situation: the structure, shapes and dtypes of the arguments,
    the gradient mode, and the globals, attributes and hooks that it reads. In another situation
    another program runs, or the function is traced again, so the result is always the eager one.
    Parameters, buffers, gradients and optimizer state are read and written in place, and attributes
    that the function sets to tensors, or counts in, are set at each call. A call that changes other
    Python state, such as a list or a dictionary, draws random numbers of Python or NumPy, reads a
    clock or an iterator, or needs a tensor's value in Python cannot become a program: it runs
    eagerly, with one warning that names the line or what changes, and is fused where it repeats;
    see `compiler.gears`.

    Args:
        function: A function of Tensors, numbers and containers of them, or a module.
        options: PyTorch's. With ``fullgraph=True`` a call that cannot become one program is an
            error. With ``disable=True`` the function is returned as it is. With ``dynamic=False``
            each value of a number among the arguments is a program; otherwise numbers are inputs of
            the program, unless Python reads their values. ``mode``, ``backend`` and ``options`` are
            accepted and have no effect.

    Returns:
        A callable with the same arguments and results. For a module it is a module too: another
        handle, of a subclass of its class, with the same members and attributes.

    Raises:
        CompileError: When it is called, and ``fullgraph`` is true: it cannot become one program.

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
    dynamic = options.get("dynamic") is not False
    calls = CompiledFunction(function, options.get("fullgraph", False), dynamic)
    return with_calls(function, calls)


def set_stance(wanted: str) -> str:
    """Set `stance`, and give the one before."""
    global stance
    before, stance = stance, wanted
    # The fast path does not ask.
    world.bump()
    return before


@functools.singledispatch
def with_calls(function: Any, calls: CompiledFunction) -> Any:
    """The result of `compile`: ``calls`` for a function, a module for a module."""
    return calls
