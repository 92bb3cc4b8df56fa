"""State dicts of optimizers, with the entries of the checkpoint.

Before its first step an optimizer has no state to load into, and later its entries may differ from
the saved ones: for a parameter without a gradient so far, or a history of another length. So the
``"state"`` of an optimizer's state dict takes the names of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import ExitStack
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from flambeau.core.devices.meshes import placed
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.checkpoint.flattening import flattened
from flambeau.distributed.checkpoint.reading import Checkpoint, sharding_of

__all__ = ["open_optimizers"]


def open_optimizers(
    states: MutableMapping[Any, Any], owners: Mapping[Any, Any], saved: Checkpoint
) -> ExitStack:
    """Give every optimizer's state dict the entries that the checkpoint has for it, in place.

    Entries that are tensors are kept, to be filled; new ones are tensors on the meta device with
    the shardings of the parameters.

    Args:
        states: The state dict, with each object replaced by its state.
        owners: The original state dict. An optimizer among its values knows its parameters.
        saved: The checkpoint.

    Returns:
        A stack whose ``close()`` undoes the changes.
    """
    undoing = ExitStack()
    try:
        for key, state in states.items():
            groups = getattr(owners.get(key), "param_groups", None) or ()
            params = [each for group in groups for each in group["params"]]
            for name, found in _optimizers(state, f"{key}."):
                undoing.callback(_put_back, found, dict(found))
                _open(found, name, params if found is state else [], saved)
    except BaseException:
        undoing.close()
        raise
    return undoing


def _put_back(container: Any, content: Any) -> None:
    container.clear()
    container.update(content)


def _optimizers(state: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """The state dicts of optimizers in nested dictionaries, with the prefix of their names."""
    if not isinstance(state, MutableMapping):
        return
    groups = state.get("param_groups")
    if (
        isinstance(state.get("state"), Mapping)
        and isinstance(groups, list)
        and all(isinstance(each, Mapping) and "params" in each for each in groups)
    ):
        yield prefix, state
        return
    for key, each in list(state.items()):
        yield from _optimizers(each, f"{prefix}{key}.")


def _open(found: Any, prefix: str, params: list[Tensor], saved: Checkpoint) -> None:
    places = {f"{prefix}{name}": entry.value for name, entry in flattened(found).items()}
    keys = {str(key): key for group in found["param_groups"] for key in group["params"]}
    keys |= {str(key): key for key in found["state"]}
    state: dict[Any, Any] = {}
    groups: dict[str, Any] = {}
    names = [each for each in [*saved.tensor_names, *saved.values] if each.startswith(prefix)]
    for name in names:
        kind, _, rest = name.removeprefix(prefix).partition(".")
        if kind == "param_groups" and rest:
            _put(groups, rest.split("."), _place(name, places, None, saved))
        elif kind == "state" and rest:
            key, path = _split(rest, keys)
            if key is None:
                raise saved.error(
                    f"it has {name!r}, a state of none of the optimizer's parameters: give the "
                    "optimizer the parameters of the saved one"
                )
            param = params[int(key)] if key.isdecimal() and int(key) < len(params) else None
            entries = state.setdefault(keys[key], {})
            if path:
                _put(entries, path, _place(name, places, param, saved))
    if not names:  # The report of missing entries then lists all entries of the optimizer.
        return
    for key, entries in state.items():
        own = found["state"].get(key)
        if entries and isinstance(own, Mapping):
            # An entry that the checkpoint lacks is kept, to be reported.
            entries.update({name: each for name, each in own.items() if name not in entries})
    found["state"] = {key: _with_lists(entries) for key, entries in state.items()}
    found["param_groups"] = _with_lists(groups) if groups else []


def _split(name: str, keys: Mapping[str, Any]) -> tuple[str | None, list[str]]:
    """The parameter, whose name may have dots, and the path in its state."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        key = ".".join(parts[:count])
        if key in keys:
            return key, parts[count:]
    return None, parts


def _put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for each in path[:-1]:
        tree = tree.setdefault(each, {})
    tree[path[-1]] = value


def _with_lists(tree: Any) -> Any:
    """Dictionaries converted back to lists where they were lists."""
    if not isinstance(tree, dict):
        return tree
    found = {key: _with_lists(each) for key, each in tree.items()}
    numbers = [str(i) for i in range(len(found))]
    return [found[each] for each in numbers] if found and {*found} == {*numbers} else found


def _place(name: str, places: Mapping[str, Any], param: Tensor | None, saved: Checkpoint) -> Any:
    """A tensor to be filled, or ``None`` for a value."""
    if name in saved.values:
        return None
    if isinstance(places.get(name), Tensor):
        return places[name]
    shape = saved.shape_of(name)
    sharding: Any = SingleDeviceSharding(jax.local_devices(backend="cpu")[0])
    if param is not None:
        sharding = sharding_of(param)
        if shape != tuple(param.shape) and isinstance(sharding, NamedSharding):
            sharding = NamedSharding(sharding.mesh, PartitionSpec())
    return Tensor._wrap(placed(jax.ShapeDtypeStruct(shape, saved.dtype_of(name)), sharding))
