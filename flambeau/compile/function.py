"""`compile`: the public face, and the choice of a program for each call."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.compile import arguments, explaining
from flambeau.compile.answers import Answer, Learning, OtherAnswersError, settled
from flambeau.compile.chance import is_iterator
from flambeau.compile.errors import CompileError, NotYetMadeError, UnansweredError, warn
from flambeau.compile.explaining import Origin, Situation
from flambeau.compile.program import Program
from flambeau.core import device, dtype, world
from flambeau.core.forms import form_of
from flambeau.core.fusion.stream import boundary
from flambeau.core.jax_private import ArrayImpl
from flambeau.core.modes import modes
from flambeau.core.tensor import Tensor

# Warn after this many programs: the function is probably compiled at every call.
MANY_PROGRAMS = 16

# Keep at most this many programs; drop the least recently used one.
MOST_PROGRAMS = 128

# At most this many calls in a row may run eagerly to create state that later calls use.
EAGER_CALLS = 2

# Give up after this many traces that need the value of a tensor. The first trace has no answers,
# the first eager call may learn those of a first step, and a trace shows that it needs counts.
UNANSWERED_TRACES = 4

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

#: The result of `_Recent.run` for a call that takes the slow path.
_UNKNOWN = object()


class _Recent:
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
    def of(program: Program, args: tuple[Any, ...]) -> _Recent | None:
        """The fast path for calls like this one; ``None`` if they are not simple enough."""
        if not program.is_simple:
            return None
        is_simple = all(map(_is_simple, args)) and _are_different(args)
        return _Recent(program, args) if is_simple else None

    def run(self, args: tuple[Any, ...]) -> Any:
        """The result for ``args``; `_UNKNOWN`, without any effect, if the slow path must decide.

        Arguments must be plain tensors without views and gradients. A change of the default dtype
        or device changes ``world.version``.
        """
        if (
            len(args) != self.count
            or vars(modes) != self.modes
            or self.version != world.version
            or not self.guard.holds()
        ):
            return _UNKNOWN
        count, written = self.count, self.written
        if count > 1 and (args[0] is args[1] if count == 2 else not _are_different(args)):
            return _UNKNOWN
        arrays = []
        for i, form, sharding in self.forms:
            each = args[i]
            if (
                type(each) is not Tensor
                or each._view is not None
                or each._requires_grad
                or each._grad is not None
            ):
                return _UNKNOWN
            cell = each._cell
            array = cell.array
            if type(array) is not ArrayImpl:
                return _UNKNOWN
            # Arrays from the same source mostly share one aval.
            if array.aval is not form and form_of(array.aval) is not form:
                return _UNKNOWN
            if sharding is not None and array.sharding != sharding:
                return _UNKNOWN
            if written and cell in written:
                return _UNKNOWN
            arrays.append(array)
        return self.program.run_on(args, arrays)


def _are_different(args: tuple[Any, ...]) -> bool:
    """Whether all arguments are different objects."""
    return len({*map(id, args)}) == len(args)


def _is_simple(leaf: Any) -> bool:
    """Whether an argument is a plain tensor without a view or gradient."""
    return (
        type(leaf) is Tensor
        and leaf._view is None
        and not leaf._requires_grad
        and leaf._grad is None
        and type(leaf._cell.array) is ArrayImpl
    )


def _modes() -> tuple[Any, ...]:
    return (
        modes.trace, modes.grad_enabled, modes.inference, dtype._default,
        modes.device or device._global_default, modes.autocast, modes.multithreading,
    )  # fmt: skip


class CompiledFunction:
    """A function whose calls run as one XLA program each.

    Args:
        function: A function of Tensors, numbers, modules and containers of them.
        fullgraph: Whether a call that cannot become one program is an error; otherwise it runs
            eagerly.
    """

    def __init__(self, function: Callable[..., Any], fullgraph: bool = False) -> None:
        self.function = function
        self.fullgraph = fullgraph
        #: The programs by the key of their calls: the most recently used key is last, the most
        #: recently used program first in its list. All dictionaries below have the same keys.
        self.programs: OrderedDict[Any, list[Program]] = OrderedDict()
        self._recent: _Recent | None = None
        self._eager_calls = 0
        # The reasons for which calls run eagerly.
        self._eager: dict[Any, str] = {}
        # The answers of the last eager call, those that a trace may take for granted, and the
        # number of traces for which they were not enough.
        self._last_answers: dict[Any, list[Answer]] = {}
        self._answers: dict[Any, list[Answer]] = {}
        self._unanswered: dict[Any, int] = {}
        # Keys for which a trace needs to know how many elements masks pick.
        self._counting: set[Any] = set()
        # The number of calls whose answers fitted no program.
        self._misses: dict[Any, int] = {}
        # Keys with answers that no trace has used yet.
        self._learned: set[Any] = set()
        self._compilations = 0
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for these arguments, tracing the function if there is none yet."""
        boundary()
        recent = self._recent
        if recent is not None and not kwargs:
            result = recent.run(args)
            if result is not _UNKNOWN:
                return result
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
            key = (structure, arguments.signature(leaves), _modes())
        except TypeError as error:
            self._refuse_arguments(error)
            return self.function(*args, **kwargs)
        count = self._compilations
        programs = self.programs.setdefault(key, [])
        self.programs.move_to_end(key)
        is_other = False
        for i, program in enumerate([*programs]):
            if not program.fits(leaves):
                continue
            if i:
                programs.remove(program)
                programs.insert(0, program)
            try:
                return self._run(program, args, kwargs, leaves)
            except OtherAnswersError:
                is_other = True
        if key in self._eager:
            return self.function(*args, **kwargs)
        if is_other and key not in self._learned:
            return self._learn(key, args, kwargs)
        if stance == "eager_on_recompile":
            return self.function(*args, **kwargs)
        if stance == "fail_on_recompile":
            raise RuntimeError(
                f"Detected recompile of {self._name!r} while set_stance('fail_on_recompile') is in "
                "force: no program fits this call; call it once before with such arguments"
            )
        with _one_at_a_time():
            is_made = self._compilations != count
            program = None if is_made else self._made(key, leaves, structure, programs)
        if is_made:
            # Another thread has made a program meanwhile.
            return self(*args, **kwargs)
        if program is None:
            return self._learn(key, args, kwargs)
        try:
            return self._run(program, args, kwargs, leaves)
        except OtherAnswersError:
            return self._learn(key, args, kwargs)

    def _made(
        self, key: Any, leaves: list[Any], structure: Any, programs: list[Program]
    ) -> Program | None:
        """A new program, first in its list; ``None`` if the call runs eagerly."""
        origin = self._origin(key, leaves)
        program = self._compiled(key, leaves, structure)
        if program is not None:
            program.origin = origin
            self._compilations = origin.number
            self._eager_calls = 0
            programs.insert(0, program)
            self._warn_if_many(key, len(programs), origin)
            self._drop_oldest()
        return program

    def _run(self, program: Program, args: Any, kwargs: Any, leaves: list[Any]) -> Any:
        is_quick = not kwargs and not program.is_guess
        self._recent = _Recent.of(program, args) if is_quick else None
        return program.run(leaves)

    def _learn(self, key: Any, args: Any, kwargs: Any) -> Any:
        """Run eagerly, and keep the answers to questions about values for the next trace."""
        if self.programs.get(key):
            self._give_up_guesses(key)
        if self.fullgraph or key in self._eager:
            return self.function(*args, **kwargs)
        with Learning() as learning:
            result = self.function(*args, **kwargs)
        answers = learning.answers
        self._answers[key] = [*settled(answers, self._last_answers.get(key, ()))]
        self._last_answers[key] = answers
        self._learned.add(key)
        return result

    def _give_up_guesses(self, key: Any) -> None:
        """Let calls run eagerly once their answers have too often fitted no program."""
        count = self._misses[key] = self._misses.get(key, 0) + 1
        if count == MOST_SITUATIONS:
            self.programs[key] = [each for each in self.programs[key] if not each.is_guess]
            error = "it asks for values of tensors in Python, which vary from call to call"
            self._run_eagerly(key, CompileError(error))

    def __getattr__(self, name: str) -> Any:
        if name == "function":
            raise AttributeError(name)
        return getattr(self.function, name)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _compiled(self, key: Any, leaves: list[Any], structure: Any) -> Program | None:
        """The program for a call; ``None`` if the call runs eagerly."""
        try:
            if any(map(is_iterator, leaves)):
                raise CompileError(
                    "an iterator is among the arguments, which a trace would use up; pass a list"
                )
            answers = self._answers.get(key, [])
            if key not in self._counting:
                answers = [each for each in answers if not each.is_count]
            self._learned.discard(key)
            program = Program(self.function, leaves, structure, answers=answers)
            refusal = None if program.gradients is None else program.gradients.refusal
            # Any other error is one that a backward of the eager call would raise as well.
            if self.fullgraph or not isinstance(refusal, CompileError):
                return program
            raise CompileError(str(refusal))
        except UnansweredError as error:
            if error.is_count:
                self._counting.add(key)
            count = self._unanswered[key] = self._unanswered.get(key, 0) + 1
            if self.fullgraph or count == UNANSWERED_TRACES:
                self._run_eagerly(key, error)
        except CompileError as error:
            self._run_eagerly(key, error)
        except Exception:
            # The function's own error: the eager call raises it again, with eager side effects.
            if self.fullgraph:
                raise
        return None

    def _origin(self, key: Any, leaves: list[Any]) -> Origin:
        """The reason for which a call needs a program besides the one that was used last."""
        number, situation = self._compilations + 1, Situation.of(self.function, key)
        same = self.programs[key]
        if same:
            reasons = explaining.differences(same[0], leaves)
            return Origin(number, situation, same[0].origin.number, tuple(reasons))
        others = [each[0].origin for each in reversed(self.programs.values()) if each]
        if not others:
            return Origin(number, situation)
        nearest = min(others, key=lambda each: situation.distance(each.situation))
        reasons = tuple(situation.differences(nearest.situation))
        return Origin(number, situation, nearest.number, reasons)

    def explanation(self) -> str:
        """An explanation of the programs; see `flambeau.compiler.explain`."""
        programs = [each for kind in self.programs.values() for each in kind]
        programs.sort(key=lambda each: each.origin.number)
        return explaining.page(self._name, programs, self._eager.values())

    def _refuse_arguments(self, error: TypeError) -> None:
        """Raise the error about arguments that no program can take, or let the call run eagerly."""
        if self.fullgraph:
            raise error
        self._run_eagerly(str(error), CompileError(str(error)))

    def _run_eagerly(self, key: Any, error: CompileError) -> None:
        """Raise the error, or let this call, or all calls with the same key, run eagerly."""
        if isinstance(error, NotYetMadeError) and self._eager_calls < EAGER_CALLS:
            self._eager_calls += 1
            return
        if self.fullgraph:
            raise error
        if key in self._eager:
            return
        if len(self._eager) == MOST_PROGRAMS:
            self._eager.clear()
        self._eager[key] = str(error)
        warn(
            f"{self._name!r} runs eagerly for arguments like these, since it cannot become one "
            f"program: {error}. With fullgraph=True this is an error"
        )

    def _drop_oldest(self) -> None:
        """Drop the least recently used programs if there are too many."""
        while self.program_count > MOST_PROGRAMS:
            oldest = next(iter(self.programs.values()))
            if oldest:
                oldest.pop()
            if not oldest:
                self.programs.popitem(last=False)

    def _warn_if_many(self, key: Any, count: int, origin: Origin) -> None:
        """Warn if there are many programs, and say what differs from call to call."""
        reasons = "; ".join(origin.reasons)
        if count == 1 and len(self.programs) == MANY_PROGRAMS + 1:
            warn(
                f"{self._name} has been compiled for {MANY_PROGRAMS} kinds of arguments, the last "
                f"time since {reasons}; each new shape, dtype and Python number is a new program. "
                "Pass numbers that vary as Tensors, and pad inputs to a few shapes"
            )
        often = (
            f"it has been compiled {count} times for the same arguments, the last time since "
            f"{reasons}. Keep what varies in a tensor"
        )
        if not self.fullgraph and count == MOST_SITUATIONS:
            self._eager[key] = often
            warn(
                f"{self._name}: {often}. Other calls like these run eagerly; with fullgraph=True "
                "they would be compiled again"
            )
        elif count == MANY_PROGRAMS + 1:
            warn(f"{self._name}: {often}")

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def program_count(self) -> int:
        """The number of programs in memory."""
        return sum(map(len, self.programs.values()))


def compile(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Turn a function, such as a training step, or a module into one XLA program.

    The function is traced once per situation: the structure, shapes and dtypes of the arguments,
    the gradient mode, and the training flag, hooks, submodules and attributes of each module that
    it enters. In another situation another program runs, or the function is traced again, so the
    result is always the eager one. Parameters, buffers, gradients and optimizer state are read and
    written in place, and tensors that the function stores in lists, dictionaries and attributes
    are there after each call. A call that changes other Python state, such as a counter, draws
    random numbers of Python or NumPy, reads a clock or an iterator, or needs a tensor's value in
    Python cannot become a program: it runs eagerly, with one warning that names the line, and is
    fused where it repeats; see `compiler.gears`.

    Args:
        function: A function of Tensors, numbers and containers of them, or a module.
        options: PyTorch's. With ``fullgraph=True`` a call that cannot become one program is an
            error. With ``disable=True`` the function is returned as it is. ``mode``, ``dynamic``,
            ``backend`` and ``options`` are accepted and have no effect.

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
    return with_calls(function, CompiledFunction(function, options.get("fullgraph", False)))


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
