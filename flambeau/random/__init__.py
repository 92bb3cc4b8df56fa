"""The default random number generators and their states.

Promise: for the same seed, PyTorch's numbers on the CPU outside of compiled functions. May import
`core`.

- `generator.py`: a generator has two streams: PyTorch's MT19937 (`mersenne.py`, `draws`), and a key
  of JAX's in a Cell, for compiled functions and other devices (`keyed.py`). A program reads and
  writes the Cell, so each call draws other numbers.
- `drawing.py`: inside a function that JAX transforms, a generator would be a constant. A draw there
  takes a key from `key_scope`, or fails.
- `replay.py`: on the meta device nothing is drawn and no generator advances. Each generator lists
  its pending draws, so a later draw takes the numbers that it would have had.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from flambeau.core.devices.device import device
from flambeau.core.support.settings import setting
from flambeau.core.values.tensor import Tensor
from flambeau.random.drawing import key_scope
from flambeau.random.generator import (
    Generator,
    default_generator,
    default_generators,
    generator_for,
    seed_all,
)

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "key_scope",
    "manual_seed",
    "seed",
    "set_rng_state",
]


def manual_seed(seed: int) -> Generator:
    """Seed the default generators of all devices.

    On the CPU, outside compiled functions, the random numbers equal PyTorch's for the same seed.
    Compiled functions draw other numbers, which are reproducible too.

    Args:
        seed: From -2**63 to 2**64 - 1; a negative one means ``seed + 2**64``.

    Returns:
        The default generator of the CPU.

    Raises:
        ValueError: The seed does not fit in 64 bits.

    >>> import flambeau
    >>> _ = flambeau.manual_seed(0)
    >>> flambeau.rand(3)
    tensor([0.4963, 0.7682, 0.0885])
    """
    seed_all(int(seed))
    return default_generator


def seed() -> int:
    """Seed the default generators of all devices with a random number, and return it."""
    chosen = default_generator.seed()
    seed_all(chosen)
    return chosen


@setting
def initial_seed() -> int:
    """The most recent seed of the CPU's default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the CPU's default generator, or of the device's in a compiled function.

    See `Generator.get_state`.
    """
    return default_generators()[0].get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Restore the state of the generator that `get_rng_state` reads.

    See `Generator.set_state`.
    """
    default_generators()[0].set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Iterable[Any] | None = None, enabled: bool = True) -> Iterator[None]:
    """A context manager that restores the states of the default generators on exit.

    Args:
        devices: The devices whose generators are restored besides the CPU's; by default all.
        enabled: ``False`` disables it.

    >>> import flambeau
    >>> with flambeau.random.fork_rng():
    ...     first = flambeau.rand(())
    >>> bool(first == flambeau.rand(()))
    True
    """
    if not enabled:
        yield
        return
    if devices is None:
        generators = default_generators()
    else:
        others = (each if isinstance(each, device) else device(each) for each in devices)
        generators = (default_generators()[0], *(generator_for(each) for each in others))
    saved = [(each, each.save()) for each in generators]
    try:
        yield
    finally:
        for each, state in saved:
            each.restore(state)
