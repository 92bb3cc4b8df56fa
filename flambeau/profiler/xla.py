"""The operations inside XLA's programs, as `jax.profiler` records them."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
from jax.profiler import ProfileData


@dataclasses.dataclass
class Operation:
    """An operation of a program, such as a fusion.

    Attributes:
        program: The program's name in XLA.
        name: The operation's name in XLA.
        calls: How often it ran.
        time: Its time in microseconds.
    """

    program: str
    name: str
    calls: int = 0
    time: float = 0.0


@contextlib.contextmanager
def recorded() -> Iterator[list[Operation]]:
    """A block whose operations are in the list afterwards, by falling time.

    Raises:
        RuntimeError: Another trace of `jax.profiler` is running.
    """
    found: list[Operation] = []
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            yield found
        for file in Path(folder).rglob("*.xplane.pb"):
            found += _operations(ProfileData.from_file(str(file)))


def _operations(data: Any) -> list[Operation]:
    found: dict[tuple[str, str], Operation] = {}
    for plane in data.planes:
        for line in plane.lines:
            for event in line.events:
                facts = dict(event.stats)
                if "hlo_op" not in facts:
                    continue
                key = str(facts.get("hlo_module", "")), str(facts["hlo_op"])
                operation = found.setdefault(key, Operation(*key))
                operation.calls += 1
                operation.time += event.duration_ns / 1000
    return sorted(found.values(), key=lambda each: -each.time)
