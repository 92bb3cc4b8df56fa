"""Calls of functions in other processes, by the name of their module: programs import it."""

from flambeau._absent import Absent as _Absent

__all__ = ["is_available"]

__getattr__ = _Absent(__name__)


def is_available() -> bool:
    """Whether processes can call functions in one another: never."""
    return False
