"""Loading into a state dict: all checks first, then each tensor is read on its own devices."""

from __future__ import annotations

import difflib
from collections.abc import MutableMapping
from typing import Any

from flambeau.core.support import world
from flambeau.core.support.modes import no_grad
from flambeau.core.values.cell import is_abstract
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.checkpoint.flattening import Entry, flattened
from flambeau.distributed.checkpoint.reading import Checkpoint, sharding_of

__all__ = ["fill"]

_MOST_NAMED = 20


def fill(state_dict: MutableMapping[Any, Any], saved: Checkpoint) -> None:
    """Load the entries listed in a state dict.

    Raises:
        CheckpointError: The checkpoint lacks an entry, has an entry for which a dictionary of the
            state dict has no place, a tensor of another shape, or a value where the state dict has
            a tensor. Nothing is changed then.
    """
    places = flattened(state_dict)
    nested = [f"{key}." for key, each in state_dict.items() if isinstance(each, MutableMapping)]
    _check(places, tuple(nested), saved)
    for name, place in places.items():
        if isinstance(place.value, Tensor):
            _fill_tensor(place, name, saved)
        elif name in saved.values:
            _fill_value(place, saved.values[name])


def _fill_tensor(place: Entry, name: str, saved: Checkpoint) -> None:
    tensor = place.value
    loaded = saved.tensor(name, sharding_of(tensor), tensor.dtype.numpy)
    if is_abstract(tensor._cell.array):
        # Tensors that share the Cell, such as tied parameters, get the elements too.
        tensor._cell.write(loaded._read())
        world.bump()
        return
    with no_grad():
        tensor.detach().copy_(loaded)


def _fill_value(place: Entry, value: Any) -> None:
    place.container[place.key] = value


def _check(places: dict[str, Entry], nested: tuple[str, ...], saved: Checkpoint) -> None:
    tensors = {*saved.tensor_names}
    missing, problems = [], []
    for name, place in places.items():
        wants_tensor = isinstance(place.value, Tensor)
        if wants_tensor and name in tensors:
            if place.value.is_meta and place.value._view is not None:
                problems.append(f"{name} is a view on the meta device, which cannot be filled")
            shape = saved.shape_of(name)
            if shape != tuple(place.value.shape):
                problems.append(
                    f"Size mismatch between saved {_text(shape)} and current: "
                    f"{_text(tuple(place.value.shape))} for {name}"
                )
        elif wants_tensor and name in saved.values:
            problems.append(
                f"{name} is no tensor in the checkpoint, but {saved.values[name]!r:.60}"
            )
        elif not wants_tensor and name in tensors:
            problems.append(f"{name} is a tensor in the checkpoint, not a value")
        elif name not in saved.values and not _is_empty(place.value):
            missing.append(name)
    names = [*saved.tensor_names, *saved.values]
    problems += _about_missing(missing, places, names)
    problems += [
        f"Unexpected key in checkpoint state_dict: {name}"
        for name in names
        if name.startswith(nested) and name not in places and not _is_empty(saved.values.get(name))
    ]
    if problems:
        more = len(problems) - _MOST_NAMED
        lines = problems[:_MOST_NAMED] + ([f"and {more} more"] if more > 0 else [])
        raise saved.error("it does not fit the state dict:\n  " + "\n  ".join(lines))


def _about_missing(missing: list[str], places: Any, saved_names: list[str]) -> list[str]:
    lines = []
    for name in missing:
        near = (
            difflib.get_close_matches(name, saved_names, n=1, cutoff=0.6) if len(lines) < 20 else []
        )
        hint = f"; did you mean {near[0]!r}?" if near else ""
        lines.append(f"Missing key in checkpoint state_dict: {name}{hint}")
    left = [name for name in saved_names if name not in places]
    if missing and left:
        some = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
        lines.insert(0, f"it has {some}, for which the state dict has no place")
    return lines


def _is_empty(value: Any) -> bool:
    return isinstance(value, MutableMapping) and not value


def _text(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
