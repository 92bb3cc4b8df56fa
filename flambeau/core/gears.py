"""How eager code is run: which calls are evaluated without compiling."""

from __future__ import annotations

import os
from typing import Any

#: How often a function is evaluated at one signature where ``interpret=True``.
USES = 64

# Microseconds of evaluation, as estimated, after which signatures may change their gear where no
# optimizer steps; twice as many the next time.
_PATIENCE = 1_000_000.0


class _Settings:
    """The settings of the process.

    Attributes:
        uses: How often a function is evaluated at one signature before it is compiled; 0 for never.
        deterministic: Whether equal calls must give equal bits, however often they come.
        moment: Counts the moments at which signatures may change their gear.
    """

    def __init__(self) -> None:
        self.uses: int = _from_environment()
        self.deterministic: bool = False
        self.moment: int = 0
        self._spent: float = 0.0
        self._patience: float = _PATIENCE

    def evaluated(self) -> int:
        """How often a function is evaluated at one signature, as of now."""
        return 0 if self.deterministic else self.uses

    def spend(self, work: float) -> None:
        """Note that a call was evaluated, which took so many microseconds as estimated."""
        self._spent += work
        if self._spent >= self._patience:
            self._patience *= 2
            self._spent = 0.0
            self.moment += 1

    def stepped(self) -> None:
        """Let signatures change their gear now, since an optimizer has changed all values."""
        if self._spent:
            self._patience, self._spent = _PATIENCE, 0.0
            self.moment += 1


def _from_environment() -> int:
    wanted = os.environ.get("FLAMBEAU_INTERPRET", "")
    return int(wanted) if wanted.isdecimal() else 0


#: The process's settings.
settings: _Settings = _Settings()


class gears:
    """Set how eager code is run, from now on or for a block, in all threads.

    With ``interpret=True``, an operator's first calls at new shapes are evaluated with NumPy on a
    CPU, which takes less time than compiling a program. A signature that comes again is compiled:
    after as many calls as compiling would have taken the time of, as estimated from shapes, and
    after a number of calls at most. That happens when an optimizer steps, and now and then where
    none does. Both gears agree up to rounding, and not always to the last bit; two runs of a script
    give the same bits.

    Args:
        interpret: How often a function is evaluated at one signature. ``False`` or 0: everything is
            compiled at once, as it is by default. ``True``: up to 64 times. The environment
            variable ``FLAMBEAU_INTERPRET`` sets the number for a process from its start.

    Raises:
        TypeError: ``interpret`` is neither a bool nor an integer.
        ValueError: ``interpret`` is negative.

    >>> import flambeau
    >>> with flambeau.compiler.gears(interpret=True):
    ...     _ = flambeau.ones(5).exp()
    """

    def __init__(self, *, interpret: bool | int) -> None:
        if not isinstance(interpret, int):
            raise TypeError(
                f"gears(): interpret must be a bool or an int, got {type(interpret).__name__}"
            )
        if interpret < 0:
            raise ValueError(f"gears(): interpret must not be negative, got {interpret}")
        self._before: int = settings.uses
        settings.uses = USES if interpret is True else int(interpret)

    def __enter__(self) -> None:
        """Keep what the constructor has set."""

    def __exit__(self, *exception: Any) -> None:
        """Set what was set before."""
        settings.uses = self._before
