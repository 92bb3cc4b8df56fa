"""Compiled programs on disk, as XLA's executables."""

from __future__ import annotations

import functools
import pickle
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxlib import lapack

from flambeau.core.programs.read_ahead import ReadAhead, read_ahead
from flambeau.core.programs.signatures import Place
from flambeau.core.programs.store import Store
from flambeau.core.support.statistics import statistics
from flambeau.core.types import JaxDevice


class Loaded(NamedTuple):
    """A program in memory.

    Attributes:
        program: The program.
        need: The sizes in bytes of the blocks of memory that a run needs.
    """

    program: jax.stages.Compiled
    need: tuple[int, ...]


def known(kept: Store, key: str, place: Place) -> Loaded | None:
    """The program stored under ``key``: loaded ahead, or loaded now."""
    ahead = ahead_of(kept)
    if ahead is not None and place is _first_device():
        found = ahead.take(key)
        if found is not None:
            statistics.ahead += 1
            return found
    return _load(kept, key, place)


_readers: dict[Store, ReadAhead | None] = {}


def ahead_of(kept: Store) -> ReadAhead | None:
    """The loader of the programs of this script's last run, shared by all threads."""
    if kept not in _readers:
        reader = read_ahead(kept, lambda key: _load(kept, key, _first_device()))
        if _readers.setdefault(kept, reader) is reader and reader is not None:
            reader.start()
    return _readers[kept]


@functools.cache
def _first_device() -> JaxDevice:
    return jax.local_devices()[0]


def _load(kept: Store, key: str, place: Place) -> Loaded | None:
    """The program stored under ``key``, for the device that it was compiled for."""
    program = kept.get(key)
    if program is None:
        return None
    from jax.experimental.serialize_executable import deserialize_and_load

    devices: list[Any] = [*place] if isinstance(place, tuple) else [place]
    try:
        if b"lapack_" in program:
            # JAX registers LAPACK when it traces a call; a loaded program would crash without it.
            lapack.prepare_lapack_call("getrf", np.float32)
        need, *parts = pickle.loads(program)
        return Loaded(
            deserialize_and_load(*parts, backend=devices[0].client, execution_devices=devices),
            need,
        )
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it can be compiled again.
        kept.discard(key)
        return None


def serialized(found: Loaded) -> bytes | None:
    """The bytes of a program; ``None`` if it cannot be serialized."""
    from jax.experimental.serialize_executable import serialize

    try:
        return pickle.dumps((found.need, *serialize(found.program)))
    except Exception:  # noqa: BLE001 - JAX has many for it: callbacks, constants, results that are functions.
        return None
