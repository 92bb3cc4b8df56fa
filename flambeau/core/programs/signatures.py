"""The argument types of a call, as a program depends on them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import jax
import numpy as np
from jax.sharding import NamedSharding, SingleDeviceSharding

from flambeau.core.devices import meshes
from flambeau.core.support.jax_private import ArrayImpl
from flambeau.core.types import JaxDevice, Leaf, PyTreeDef

#: The device that a program runs on, a mesh's devices in order, or ``None`` if JAX must decide.
Place: TypeAlias = JaxDevice | tuple[JaxDevice, ...] | None


def place_of(leaves: Sequence[Leaf]) -> Place:
    """The device that a program for these runs on, or a mesh's devices in order, as a tuple.

    ``None`` if JAX must decide.
    """
    found = None
    for each in leaves:
        if type(each) is ArrayImpl:
            kind = type(each.sharding)
            if kind is NamedSharding and each.is_fully_addressable:
                meshes.note_use()
                place = meshes.devices_of(each)
            elif kind is SingleDeviceSharding:
                (place,) = each.sharding.device_set
            else:
                return None
            if each.committed:
                if found not in (None, place):
                    return None
                found = place
        elif not isinstance(each, np.ndarray | np.generic | bool | int | float | complex):
            return None
    if found is not None:
        return found
    default = getattr(jax.config, "jax_default_device", None)
    return default if isinstance(default, jax.Device) else jax.local_devices()[0]


def facts_of(leaf: Leaf) -> Hashable:
    """A cheap key that distinguishes arguments that need different programs."""
    return (leaf.aval, leaf.sharding, leaf.committed) if type(leaf) is ArrayImpl else _text(leaf)


def _text(leaf: Leaf) -> str:
    """The properties of an argument that a program depends on, as text."""
    if type(leaf) is ArrayImpl:
        aval, sharding = leaf.aval, leaf.sharding
        spread = type(sharding) is NamedSharding
        lies = meshes.text_of(sharding) if spread else sharding.memory_kind
        weak = "weak " if aval.weak_type else ""
        layout = "" if leaf.ndim < 2 else leaf.format.layout
        return f"{weak}{aval.dtype}{list(aval.shape)} {lies} {leaf.committed} {layout}"
    if isinstance(leaf, np.ndarray | np.generic):
        return f"numpy {leaf.dtype}{list(leaf.shape)}"
    return type(leaf).__name__


def is_plain(tree: PyTreeDef) -> bool:
    """Whether arguments are nested only in tuples, lists and dictionaries (complete as text)."""
    kind = tree.node_data()
    if kind is not None and kind[0] not in (tuple, list, dict, type(None)):
        return False
    return all(map(is_plain, tree.children()))


def text_of(leaves: Sequence[Leaf], tree: PyTreeDef, place: Place) -> str:
    """The types of arguments, their structure and their devices as text."""
    return f"{tree} {','.join(map(_text, leaves))} on {place!r}"
