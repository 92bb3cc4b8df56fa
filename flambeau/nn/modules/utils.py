"""Helpers of layers for sizes, and for the prefixes of a saved state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from flambeau.nn.common_types import Kwargs, StateDict

__all__ = ["consume_prefix_in_state_dict_if_present"]

T = TypeVar("T")
#: Takes one value for all dimensions, or one for each; returns a tuple of one for each.
PerDimension: TypeAlias = Callable[[T | Iterable[T]], tuple[T, ...]]
_FACTORY_ARGUMENTS = ("device", "dtype", "memory_format")


def _ntuple(count: int, name: str = "parse") -> PerDimension[T]:
    """A function that returns a size for each of ``count`` dimensions, as a tuple.

    The function takes one size for all dimensions, or a sequence of sizes, which it converts to a
    tuple.

    Args:
        count: The number of dimensions.
        name: The function's name.
    """

    def parse(value: T | Iterable[T]) -> tuple[T, ...]:
        return tuple(value) if isinstance(value, Iterable) else (value,) * count

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(sizes: Iterable[int], times: int) -> tuple[int, ...]:
    """The padding of each dimension as `pad` expects it: last dimension first, once per side."""
    return tuple([size for size in reversed(tuple(sizes)) for _ in range(times)])


def consume_prefix_in_state_dict_if_present(state_dict: StateDict, prefix: str) -> None:
    """Remove ``prefix`` from the keys that begin with it, in place, also in the metadata.

    Args:
        state_dict: A saved state, for example one of a model that was wrapped in another module.
        prefix: Such as ``"module."``.

    >>> from flambeau.nn.modules.utils import consume_prefix_in_state_dict_if_present
    >>> state = {"module.weight": 1}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'weight': 1}
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        # The entry of a module itself is its path, without a dot at the end.
        own = prefix.replace(".", "")
        for key in [key for key in metadata if key and (key == own or key.startswith(prefix))]:
            metadata[key[len(prefix) :]] = metadata.pop(key)


def factory_kwargs(kwargs: Kwargs | None) -> Kwargs:
    """The keyword arguments of a layer that its tensors' constructors take.

    Args:
        kwargs: ``device``, ``dtype`` and ``memory_format``, each directly or in a dictionary under
            ``"factory_kwargs"``.

    Raises:
        TypeError: There is another argument, or one is given twice.

    >>> from flambeau.nn import factory_kwargs
    >>> factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": None}})
    {'dtype': None, 'device': 'cpu'}
    """
    given = dict(kwargs or {})
    found = dict(given.pop("factory_kwargs", {}))
    for name in given:
        if name not in _FACTORY_ARGUMENTS:
            raise TypeError(f"factory_kwargs(): unknown arguments {sorted(given)}")
        if name in found:
            raise TypeError(f"factory_kwargs(): '{name}' is given twice")
    return {**found, **given}
