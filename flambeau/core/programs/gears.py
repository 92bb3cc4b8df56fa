"""How eager calls run: interpreted, compiled or fused, chosen by counts and shapes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

#: How often a function is evaluated at one signature where ``interpret=True``.
USES = 64

#: After this many repetitions at most a sequence of calls runs as one program with ``fuse=True``.
REPETITIONS = 2000

# A sequence is recorded after this many repetitions.
_RECORDED = 24

# If it is fused early, a sequence is recorded this many repetitions before.
_AHEAD = 16

# In microseconds: the time to compile a program, and more for each result; then the time that the
# program saves for each call, and for each byte of the results.
_COMPILING = 300_000.0
_COMPILING_RESULT = 10_000.0
_SAVED = 40.0
_SAVED_BYTE = 5e-5

# Estimated microseconds of evaluation after which signatures may change their gear if no optimizer
# steps; doubled each time.
_PATIENCE = 250_000.0


#: Computes the deferred calls of this thread; set by `fusion.stream`.
finish: Callable[[], None] = lambda: None  # noqa: E731


class _Settings:
    """The settings of the process.

    Attributes:
        uses: How often a function is evaluated at one signature before it is compiled; 0 for never.
        fuse: The maximum number of repetitions before a sequence of calls runs as one program; 0
            for never.
        deterministic: Whether equal calls must give equal bits, however often they are made.
        held: The number of open blocks of `held`.
        moment: Counts the times at which signatures may change their gear.
    """

    def __init__(self) -> None:
        self.uses: int = _from_environment("FLAMBEAU_INTERPRET", USES)
        self.fuse: int = _from_environment("FLAMBEAU_FUSE", REPETITIONS)
        self.deterministic: bool = False
        self.held: int = 0
        self.moment: int = 0
        self._spent: float = 0.0
        self._patience: float = _PATIENCE

    def evaluated(self) -> int:
        """How often a function is evaluated at one signature, under the present settings."""
        return 0 if self.deterministic else self.uses

    def is_fused(self) -> bool:
        """Whether sequences of calls are fused, under the present settings."""
        return bool(self.fuse) and not self.deterministic and not self.held

    @property
    def recorded(self) -> int:
        """The number of repetitions before a sequence is recorded."""
        return min(_RECORDED, max(1, self.fuse - _AHEAD))

    def repetitions(self, calls: int, results: int, size: int) -> int:
        """The number of repetitions before a sequence runs as one program.

        Eager calls have then cost as much as compiling would, by estimate.

        Args:
            calls: The number of its calls.
            results: The number of their results.
            size: The bytes of these.
        """
        cost = _COMPILING + results * _COMPILING_RESULT
        return max(1, min(self.fuse, int(cost / (calls * _SAVED + size * _SAVED_BYTE))))

    def compiled(self, repetitions: int) -> int:
        """The number of repetitions before a sequence is compiled; it runs after `repetitions`.

        It is compiled on another thread in between.
        """
        return max(1, 3 * repetitions // 4)

    def spend(self, work: float) -> None:
        """Note that a call was evaluated, with its estimated time in microseconds."""
        self._spent += work
        if self._spent >= self._patience and not self.held:
            self._patience *= 2
            self._spent = 0.0
            self.moment += 1

    def stepped(self) -> None:
        """Re-evaluate the gears of all signatures, since an optimizer has changed all values."""
        if self._spent and not self.held:
            self._patience, self._spent = _PATIENCE, 0.0
            self.moment += 1


def _from_environment(name: str, otherwise: int) -> int:
    wanted = os.environ.get(name, "")
    return int(wanted) if wanted.isdecimal() else otherwise


#: The process's settings.
settings: _Settings = _Settings()


@contextlib.contextmanager
def held() -> Iterator[None]:
    """A block in which no call changes its gear, so equal calls give equal bits."""
    settings.held += 1
    try:
        finish()
        yield
    finally:
        settings.held -= 1


class gears:
    """Set how eager code is run, from now on or for a block, in all threads.

    Unless ``interpret=False``, an operator's first calls at new shapes are evaluated with NumPy on
    a CPU, which takes less time than compiling a program. A signature that is called again is
    compiled once its evaluations have cost as much as compiling would, by an estimate from shapes,
    or after a fixed number of calls. Signatures are compiled when an optimizer steps, and from time
    to time if none does. Unless ``fuse=False``, a sequence of calls that has been repeated some
    hundred or thousand times, such as a training step, runs as one program from then on: the larger
    the estimated saving, the sooner. `flambeau.compiler.explain` lists the sequences. All gears
    agree up to rounding, not always to the last bit; two runs of a script give the same bits.

    Args:
        interpret: How often a function is evaluated at one signature. ``False`` or 0: everything is
            compiled at once. ``True``: up to 64 times, the default. The environment variable
            ``FLAMBEAU_INTERPRET`` sets the number for a process from its start.
        fuse: The maximum number of repetitions before a sequence of calls runs as one program.
            ``False`` or 0: never. ``True``: 2000, the default. The environment variable is
            ``FLAMBEAU_FUSE``.

    Raises:
        TypeError: An argument is neither a bool nor an integer.
        ValueError: An argument is negative.

    >>> import flambeau
    >>> with flambeau.compiler.gears(interpret=False, fuse=False):
    ...     _ = flambeau.ones(5).exp()
    """

    def __init__(
        self, *, interpret: bool | int | None = None, fuse: bool | int | None = None
    ) -> None:
        uses = _number("interpret", interpret, settings.uses, USES)
        repetitions = _number("fuse", fuse, settings.fuse, REPETITIONS)
        self._before: tuple[int, int] = settings.uses, settings.fuse
        settings.uses, settings.fuse = uses, repetitions
        finish()

    def __enter__(self) -> None:
        """Keep the settings of the constructor."""

    def __exit__(self, *exception: object) -> None:
        """Restore the previous settings."""
        settings.uses, settings.fuse = self._before
        finish()


def _number(name: str, given: bool | int | None, now: int, otherwise: int) -> int:
    if given is None:
        return now
    if not isinstance(given, int):
        raise TypeError(f"gears(): {name} must be a bool or an int, got {type(given).__name__}")
    if given < 0:
        raise ValueError(f"gears(): {name} must not be negative, got {given}")
    return otherwise if given is True else int(given)
