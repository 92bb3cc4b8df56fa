"""Calls of functions in other processes, by the name of their module: programs import it."""

from flambeau._absent import Absent as _Absent

__all__: list[str] = []

__getattr__ = _Absent(__name__)
