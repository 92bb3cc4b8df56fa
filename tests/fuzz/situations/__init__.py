"""A search for changes of the world that a compiled function does not follow.

A *situation* is a combination of where a value lives, how the code reaches it, and how it changes
between calls. Each is run twice, eagerly and compiled, in worlds of their own, and the results of
all calls must be equal.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from tests.fuzz.situations.caching import caching, optimizers_made_inside
from tests.fuzz.situations.callables import callables
from tests.fuzz.situations.chance import chance
from tests.fuzz.situations.crossing import crossed, systematic
from tests.fuzz.situations.documented import documented
from tests.fuzz.situations.modules import modules
from tests.fuzz.situations.names import names
from tests.fuzz.situations.protocols import protocols
from tests.fuzz.situations.restoring import restoring
from tests.fuzz.situations.running import SituationReport, run_all
from tests.fuzz.situations.situation import Situation
from tests.fuzz.situations.training import hooks, optimizers

__all__ = ["Situation", "SituationReport", "chosen", "every", "known", "run", "write_known"]

_KNOWN = Path(__file__).with_name("known.txt")


def known() -> set[str]:
    """The names of the situations that are known to fail."""
    return {*_KNOWN.read_text(encoding="utf-8").splitlines()}


def write_known(names: set[str]) -> None:
    """Say which situations are known to fail, in the order of `every`."""
    lines = [f"{each.name}\n" for each in every() if each.name in names]
    _KNOWN.write_text("".join(lines), encoding="utf-8")


@functools.cache
def every() -> tuple[Situation, ...]:
    """The situations with a name of their own, in order."""
    found = (
        *systematic(), *names(), *callables(), *protocols(),
        *modules(), *hooks(), *optimizers(), *chance(), *restoring(), *documented(),
        *caching(), *optimizers_made_inside(),
    )  # fmt: skip
    return (*{each.name: each for each in found}.values(),)


def run(seconds: float | None = None, seed: int = 0, limit: int | None = None) -> SituationReport:
    """Judge situations in an order that the seed decides, then random crossings.

    Args:
        seconds: When to stop; None goes on until all with a name, or ``limit``, are judged.
        seed: Decides the order, and the crossings.
        limit: How many to judge at most.
    """
    return run_all(chosen(seconds, seed, limit), seconds, seed, known())


def chosen(seconds: float | None, seed: int, limit: int | None) -> Iterator[Situation]:
    """The situations that `run` judges."""
    named = [*every()]
    random.Random(seed).shuffle(named)
    endless = seconds is not None or limit is not None
    return islice(chain(named, crossed(seed) if endless else ()), limit)
