"""How often Python's garbage collector runs.

The collector runs after some number of new objects, 700 or 2,000 by default. An operator of
flambeau leaves about ten objects (a tensor, its Cell, a node of the tape and its edges), where
PyTorch leaves one. So by default the collector would take a third of a step of many small
operators; see `docs/decisions/0017-garbage-collector.md`.
"""

from __future__ import annotations

import gc

_BY_DEFAULT = (700, 2_000)
_OBJECTS = 10_000


def adapt() -> None:
    """Run the collector after more objects, unless the program has chosen a number."""
    first, *others = gc.get_threshold()
    if first in _BY_DEFAULT:
        gc.set_threshold(_OBJECTS, *others)
