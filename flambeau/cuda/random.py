"""Random number generators of NVIDIA GPUs."""

from __future__ import annotations

from typing import Any

from flambeau.core.devices.device import device as _device
from flambeau.core.values.tensor import Tensor
from flambeau.cuda.devices import device_count, jax_device, place_of
from flambeau.random.generator import generator_for

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
]  # fmt: skip


def _generators() -> list[Any]:
    return [generator_for(_device("cuda", index)) for index in range(device_count())]


def manual_seed(seed: int) -> None:
    """Seed the default generator of the first GPU, if there is one.

    `flambeau.manual_seed` seeds the generators of all devices.
    """
    for each in _generators()[:1]:
        each.manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the default generators of all GPUs."""
    for each in _generators():
        each.manual_seed(int(seed))


def seed() -> None:
    """Seed the default generator of the first GPU with a random number."""
    for each in _generators()[:1]:
        each.seed()


def seed_all() -> None:
    """Seed the default generators of all GPUs with random numbers."""
    for each in _generators():
        each.seed()


def initial_seed() -> int:
    """The most recent seed of the first GPU's generator."""
    return generator_for(place_of(None)).initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a GPU's default generator; see `Generator.get_state`."""
    jax_device(device)
    return generator_for(place_of(device)).get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of all GPUs' default generators."""
    return [each.get_state() for each in _generators()]


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Restore the state of a GPU's default generator."""
    jax_device(device)
    generator_for(place_of(device)).set_state(new_state)


def set_rng_state_all(new_states: Any) -> None:
    """Restore the states of all GPUs' default generators."""
    for each, state in zip(_generators(), new_states, strict=True):
        each.set_state(state)
