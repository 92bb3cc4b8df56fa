"""The state of the random number generators that draws take when none is named."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from flambeau.core.device import device
from flambeau.core.settings import setting
from flambeau.core.tensor import Tensor
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
    """Start the default generators of all devices again from ``seed``.

    On the CPU, outside compiled functions, the numbers that follow are those that PyTorch gives
    after the same seed. Compiled functions draw other numbers, which repeat under a seed as well.

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
    """Start the default generators of all devices again from a random seed, and return it."""
    chosen = default_generator.seed()
    seed_all(chosen)
    return chosen


@setting
def initial_seed() -> int:
    """The seed that the CPU's default generator was last given."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the CPU's default generator, in a compiled function of its device's.

    See `Generator.get_state`.
    """
    return default_generators()[0].get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Let the generator that `get_rng_state` reads continue from a state.

    See `Generator.set_state`.
    """
    default_generators()[0].set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Iterable[Any] | None = None, enabled: bool = True) -> Iterator[None]:
    """Put the default generators back, on exit, to where they are now.

    Args:
        devices: Devices whose generators to put back beside the CPU's; by default all.
        enabled: ``False`` makes the block do nothing.

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
