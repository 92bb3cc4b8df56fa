"""Modules, optimizers and other objects at the first level of a state dict."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from flambeau.core.meshes import placed
from flambeau.core.tensor import Tensor
from flambeau.distributed.checkpoint.flattening import flattened
from flambeau.distributed.checkpoint.reading import Checkpoint, sharding_of

__all__ = ["is_stateful", "with_saved_state", "with_state_dicts"]


def is_stateful(value: Any) -> bool:
    """Whether an entry of a state dict has a ``state_dict`` itself."""
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def with_state_dicts(state_dict: MutableMapping[str, Any]) -> dict[str, Any]:
    """The state dict with the state of each object in the object's place.

    Raises:
        TypeError: ``state_dict`` is no dictionary.
    """
    if not isinstance(state_dict, MutableMapping):
        raise TypeError(
            f"a state dict is a dictionary, but got a {type(state_dict).__name__}; for a module, "
            "give its state_dict(), or {'model': module}"
        )
    return {
        key: each.state_dict() if is_stateful(each) else each for key, each in state_dict.items()
    }


def with_saved_state(owner: Any, name: str, state: Any, saved: Checkpoint) -> Any:
    """An optimizer's state dict with places for the checkpoint's state of its parameters.

    Before its first step an optimizer has no state of its own to be loaded into. The places are
    tensors on the meta device, which are to lie as the parameters do.

    Args:
        owner: The optimizer; of anything else the state dict stays as it is.
        name: The optimizer's name in the checkpoint.
        state: Its state dict.
        saved: The checkpoint.
    """
    groups = getattr(owner, "param_groups", None)
    if groups is None or not isinstance(state, dict) or "state" not in state:
        return state
    params = [each for group in groups for each in group["params"]]
    present = flattened(state)
    entries: dict[Any, Any] = {key: dict(each) for key, each in state["state"].items()}
    prefix = f"{name}.state."
    for full in [*saved.tensor_names, *saved.values]:
        number, _, entry = full.removeprefix(prefix).partition(".")
        is_new = full.startswith(prefix) and f"state.{number}.{entry}" not in present
        if not is_new or not number.isdecimal() or int(number) >= len(params) or not entry:
            continue
        into = entries.setdefault(int(number), {})
        into[entry] = _place_for(full, params[int(number)], saved)
    return {**state, "state": entries}


def _place_for(name: str, param: Tensor, saved: Checkpoint) -> Any:
    if name in saved.values:
        return None
    shape, sharding = saved.shape_of(name), sharding_of(param)
    if shape != tuple(param.shape) and isinstance(sharding, NamedSharding):
        sharding = NamedSharding(sharding.mesh, PartitionSpec())
    return Tensor._wrap(placed(jax.ShapeDtypeStruct(shape, saved.dtype_of(name)), sharding))
