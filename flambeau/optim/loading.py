"""Checking and converting an optimizer's state dict, before any change."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import SingleDeviceSharding

from flambeau.core.devices.donation import put
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.cell import abstract
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.upload import upload


class Loaded(NamedTuple):
    """A state dict expressed in the optimizer's own parameters.

    Attributes:
        state: The state by parameter.
        groups: The options of each group, with its parameters.
    """

    state: dict[Any, Any]
    groups: list[dict[str, Any]]


def check_and_convert(
    groups: list[Any],
    state_dict: dict[str, Any],
    expected_shapes: Callable[[Tensor, dict[str, Any]], dict[str, tuple[int, ...]]],
) -> Loaded:
    """The groups and the state after loading ``state_dict`` into ``groups``.

    Args:
        groups: The optimizer's groups.
        state_dict: The state to load, which is not changed.
        expected_shapes: Gives, for a parameter and its group's options, the shapes of the entries
            of its state.

    Raises:
        ValueError: The number of groups, of parameters in a group, or a shape differs; a state
            lacks an entry, or belongs to a parameter that no group has.
        TypeError: ``state_dict``, or the state of a parameter, is not a dict.
    """
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"a state dict must be a dict, got {type(state_dict).__name__}")
    saved = [_plain(group) for group in state_dict["param_groups"]]
    if len(saved) != len(groups):
        raise ValueError(
            f"the loaded state dict has {len(saved)} parameter groups, the optimizer {len(groups)}"
        )
    new_groups, owners = [], {}
    for i, (group, options) in enumerate(zip(groups, saved, strict=True)):
        params, numbers = group["params"], options["params"]
        if len(params) != len(numbers):
            raise ValueError(
                f"parameter group {i} of the loaded state dict has {len(numbers)} parameters, "
                f"the optimizer's has {len(params)}"
            )
        numbers = _in_own_order(numbers, options, group, i)
        if "param_names" in group:
            options.setdefault("param_names", group["param_names"])
        options["params"] = list(params)
        new_groups.append(options)
        owners.update(
            (number, (param, options)) for number, param in zip(numbers, params, strict=True)
        )
    state = {}
    for key, entries in state_dict["state"].items():
        if key not in owners:
            if type(key) is int:
                raise ValueError(
                    f"the loaded state dict has a state of parameter {key}, which none of its "
                    "groups has"
                )
            state[key] = entries
            continue
        param, options = owners[key]
        if not isinstance(entries, Mapping):
            raise TypeError(
                f"the loaded state of parameter {key} must be a dict, got {type(entries).__name__}"
            )
        shapes = expected_shapes(param, dict(options))
        absent = [name for name in shapes if name not in entries]
        if entries and absent:
            raise ValueError(
                f"the loaded state of parameter {key} lacks {absent[0]!r} and has "
                f"{', '.join(map(repr, entries))}: it is another optimizer's, or incomplete"
            )
        state[param] = _convert(entries, param, key, shapes)
    return Loaded(state, new_groups)


def _in_own_order(numbers: list[Any], options: Any, group: Any, position: int) -> list[Any]:
    """The numbers of the saved parameters with the optimizer's names, in the optimizer's order."""
    saved, own = options.get("param_names"), group.get("param_names")
    if not saved or not own or {*saved}.isdisjoint(own):
        return numbers  # Without common names, they match by order.
    by_name = dict(zip(saved, numbers, strict=True))
    if {*by_name} != {*own} or len(by_name) != len(own):
        new, old = sorted({*own}.difference(saved)), sorted({*saved}.difference(own))
        raise ValueError(
            f"parameter group {position}: only the optimizer has {new}, only the loaded state "
            f"dict {old}, and parameters with names are matched by name; rename them in its "
            "'param_names', or delete that entry to match by order"
        )
    options["param_names"] = list(own)
    return [by_name[name] for name in own]


def _plain(group: dict[str, Any]) -> dict[str, Any]:
    """A group's options, copied, with tensors of other libraries converted."""
    return {
        name: _as_tensor(value, None) if is_foreign(value) else copy.deepcopy(value)
        for name, value in group.items()
    }


def is_foreign(value: Any) -> bool:
    """Whether ``value`` is an array, or another library's tensor."""
    if isinstance(value, np.ndarray | jax.Array):
        return True
    return not isinstance(value, Tensor) and hasattr(value, "__dlpack__")


def _convert(
    value: Any, param: Tensor, number: Any, shapes: dict[str, tuple[int, ...]], name: str = ""
) -> Any:
    if isinstance(value, Tensor) or is_foreign(value):
        if name in shapes and tuple(value.shape) != tuple(shapes[name]):
            raise ValueError(
                f"state {name!r} of parameter {number} has shape {list(value.shape)} in the loaded "
                f"state dict, but {list(shapes[name])} is needed for a parameter of shape "
                f"{list(param.shape)}"
            )
        # Steps are counted in their own precision; all other entries follow the parameter.
        follows = name != "step" and param.is_floating_point()
        return _as_tensor(value, param, param.dtype if follows else None)
    if isinstance(value, dict):
        return {
            key: _convert(each, param, number, shapes, key if not name else "")
            for key, each in value.items()
        }
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return type(value)(_convert(each, param, number, {}) for each in value)  # type: ignore[call-arg]
    return value


def _as_tensor(value: Any, param: Tensor | None, to: Any = None) -> Tensor:
    """``value`` as a new tensor of dtype ``to`` on the device of ``param``."""
    array = value._read() if isinstance(value, Tensor) else _as_array(value)
    if to is None:
        to = dtypes.from_numpy_dtype(array.dtype)
    place = None if param is None else param._cell.array
    if isinstance(place, jax.ShapeDtypeStruct) or isinstance(array, jax.ShapeDtypeStruct):
        return Tensor._wrap(abstract(tuple(array.shape), to.numpy))
    if array.dtype != to.numpy:
        array = array.astype(to.numpy)
    return Tensor._wrap(put_beside(array, place))


def _as_array(value: Any) -> Any:
    """Another library's tensor as an array."""
    if isinstance(value, np.ndarray | jax.Array):
        return value
    value = value.detach() if hasattr(value, "detach") else value
    try:
        return np.asarray(value).copy()
    except TypeError:
        # NumPy has no bfloat16.
        return jax.dlpack.from_dlpack(value).copy()


def put_beside(array: Any, param: Any) -> Any:
    """``array``, NumPy's or JAX's, on the devices of the array ``param``."""
    if not isinstance(param, jax.Array) or isinstance(param, Tracer):
        return jax.numpy.asarray(array)
    if not param.committed:
        return jax.numpy.asarray(array)
    sharding = param.sharding
    if isinstance(array, np.ndarray) and isinstance(sharding, SingleDeviceSharding):
        (where,) = sharding.device_set
        if sharding == SingleDeviceSharding(where):  # In the device's default memory.
            return upload(array, where)
    if param.shape != array.shape and isinstance(sharding, jax.sharding.NamedSharding):
        sharding = jax.sharding.NamedSharding(sharding.mesh, jax.sharding.PartitionSpec())
    elif param.shape != array.shape and len(sharding.device_set) > 1:
        return jax.numpy.asarray(array)
    return put(array, sharding)
