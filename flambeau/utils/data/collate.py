"""Batches from samples: elements at the same position are stacked into tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from flambeau.core.devices.device import CPU, as_device
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.modes import modes
from flambeau.core.values.steps import Slice
from flambeau.core.values.tensor import PLAIN_TYPES, Tensor
from flambeau.core.values.upload import upload
from flambeau.ops.factories.factory import wrap_new
from flambeau.ops.factories.from_data import as_tensor, tensor
from flambeau.ops.shapes.shape import stack
from flambeau.utils._pytree import tree_map
from flambeau.utils.data.dataset import Subset, TensorDataset

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]


def default_collate(batch: Any) -> Any:
    """The default batch that a `DataLoader` creates from a list of samples.

    The result, by the kind of the samples:

    - tensors, and NumPy arrays: one tensor, with the samples along a new first dimension;
    - NumPy numbers, integers, bools: a 1-d tensor; floats: a 1-d tensor in float64;
    - strings and bytes: the list of them;
    - mappings, named tuples, sequences: one of the same type (for tuples a list), with the result
      of this function for each key or position.

    Raises:
        RuntimeError: Tensors differ in shape, or sequences in length.
        TypeError: Samples have another type.

    >>> from flambeau.utils.data import default_collate
    >>> default_collate([{"x": 1, "name": "a"}, {"x": 2, "name": "b"}])
    {'x': tensor([1, 2]), 'name': ['a', 'b']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """A batch of samples, collated by a function for each type.

    Args:
        batch: The samples.
        collate_fn_map: By type, or tuple of types, functions that take the samples and, by keyword,
            this dictionary. The first function that matches the first sample is called. Mappings,
            named tuples and sequences without a match are collated recursively; see
            `default_collate`.

    Raises:
        RuntimeError: Sequences differ in length.
        TypeError: No function matches.
    """
    first = batch[0]
    function = _function_for(first, collate_fn_map or {})
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)

    def inner(samples: Any) -> Any:
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _like_mapping(first, {key: inner([each[key] for each in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(inner(samples) for samples in zip(*batch, strict=False)))
    if isinstance(first, Sequence):
        lengths = {len(each) for each in batch}
        if len(lengths) > 1:
            raise RuntimeError(
                f"samples of a batch must have equal lengths, got {sorted(lengths)}; "
                "pad them, or pass a collate_fn of your own"
            )
        return _like_sequence(first, [inner(samples) for samples in zip(*batch, strict=True)])
    raise _unknown(type(first))


def default_convert(data: Any) -> Any:
    """``data`` with NumPy arrays and numbers converted to tensors, and other values unchanged.

    A `DataLoader` without batches applies it to each sample.

    >>> from flambeau.utils.data import default_convert
    >>> import numpy
    >>> default_convert({"x": numpy.arange(2), "name": "a"})
    {'x': tensor([0, 1]), 'name': 'a'}
    """
    if isinstance(data, Tensor | str | bytes):
        return data
    if type(data).__module__ == "numpy" and isinstance(data, np.ndarray | np.generic):
        return data if data.dtype.kind in "SaUO" else as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, Sequence):
        return _like_sequence(data, [default_convert(each) for each in data])
    return data


def rows_of(dataset: Any, indices: Any) -> list[Tensor] | None:
    """The `default_collate` of the samples at ``indices``, without reading single samples.

    Possible for a `TensorDataset` and its subsets, unless a subclass overrides reading.
    """
    if not (isinstance(indices, list) and indices):
        return None
    own = type(dataset)
    if isinstance(dataset, Subset):
        if own.__getitems__ is not Subset.__getitems__:
            return None
        return rows_of(dataset.dataset, [dataset.indices[i] for i in indices])
    if (
        not isinstance(dataset, TensorDataset)
        or own.__getitem__ is not TensorDataset.__getitem__
        or hasattr(dataset, "__getitems__")
        or not all(type(each) in PLAIN_TYPES for each in dataset.tensors)
        # Bools, slices and tensors are not row numbers.
        or not all(type(i) is int or isinstance(i, np.integer) for i in indices)
    ):
        return None
    rows = []
    for each in dataset.tensors:
        arrays = on_host([each])
        rows.append(each[indices] if arrays is None else adopt(arrays[0][indices], "cpu"))
    return rows


def _function_for(first: Any, functions: dict[Any, Callable[..., Any]]) -> Any:
    if type(first) in functions:
        return functions[type(first)]
    for kind, function in functions.items():
        if isinstance(first, kind):
            return function
    return None


def _like_mapping(model: Any, content: dict[Any, Any]) -> Any:
    """``content`` as a mapping of the type of ``model``, or a dictionary if that is impossible."""
    try:
        if isinstance(model, MutableMapping):
            # For example a `defaultdict`, which holds more than its entries.
            result = copy.copy(model)
            result.update(content)
            return result
        return type(model)(content)
    except TypeError:
        return content


def _like_sequence(model: Any, content: list[Any]) -> Any:
    """``content`` as a sequence of the type of ``model``; a list for tuples, as in PyTorch."""
    if type(model) is list or isinstance(model, tuple):
        return content
    try:
        if isinstance(model, MutableSequence):
            result = copy.copy(model)
            for i, each in enumerate(content):
                result[i] = each
            return result
        return type(model)(content)
    except TypeError:
        return content


def _collate_tensors(batch: Any, *, collate_fn_map: Any = None) -> Any:
    arrays = on_host(batch)
    if arrays is None or not _are_alike(arrays):
        return stack(tuple(batch), 0)
    # In NumPy, since XLA would compile a program for each number of samples.
    return adopt(np.stack(arrays), "cpu")


def _collate_arrays(batch: Any, *, collate_fn_map: Any = None) -> Any:
    first = batch[0]
    if first.dtype.kind in "SaUO":
        raise _unknown(first.dtype)
    if all(isinstance(each, np.ndarray) for each in batch) and _are_alike(batch):
        return adopt(np.stack(batch))
    return collate([as_tensor(each) for each in batch], collate_fn_map=collate_fn_map)


def _collate_numbers(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return tensor(batch)


def _collate_floats(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return tensor(batch, dtype=dtypes.float64)


def _collate_strings(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return batch


#: The collate functions of `default_collate` by type. Other types may be added.
default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: _collate_tensors,
    np.ndarray: _collate_arrays,
    (np.bool_, np.number, np.object_): _collate_numbers,
    float: _collate_floats,
    int: _collate_numbers,
    str: _collate_strings,
    bytes: _collate_strings,
}


def _unknown(kind: Any) -> TypeError:
    return TypeError(
        "default_collate() takes tensors, NumPy arrays, numbers, strings, and mappings or "
        f"sequences of them, found {kind}; pass a collate_fn of your own"
    )


# Between tensors and NumPy


def on_host(batch: Any) -> list[np.ndarray] | None:
    """The elements of tensors, if they are available and no gradients are needed."""
    if modes.inside is not None:
        return None
    bases: dict[Any, np.ndarray] = {}
    arrays = []
    for each in batch:
        if type(each) not in PLAIN_TYPES or each.requires_grad:
            return None
        base = bases.get(each._cell)
        if base is None:
            if each.device != CPU:
                return None
            base = bases[each._cell] = np.asarray(each._cell.array)
        arrays.append(_part(each, base))
    return arrays


def _part(each: Tensor, base: np.ndarray) -> np.ndarray:
    """The elements of a tensor within its base; for a row such as ``x[3]``, without XLA."""
    view = each._view
    if view is None:
        return base
    if len(view.steps) != 1 or not isinstance(view.steps[0], Slice):
        return each.numpy()
    index: list[Any] = [slice(None)] * base.ndim
    for cut, start in zip(view.steps[0].cuts, view.starts.tolist(), strict=True):
        index[cut.dim] = start if cut.squeeze else slice(start, start + cut.span, cut.stride)
    return base[tuple(index)]


def _are_alike(arrays: Any) -> bool:
    first = arrays[0]
    shape, dtype = first.shape, first.dtype
    return all(each.shape == shape and each.dtype == dtype for each in arrays)


def adopt(array: np.ndarray, device: Any = None) -> Tensor:
    """A tensor of an array that has no other references."""
    dtypes.from_numpy_dtype(array.dtype)
    place = as_device(device)
    if place.type == "meta" or modes.trace is not None or not array.dtype.isnative:
        return as_tensor(array, device=place)
    return wrap_new("as_tensor", upload(array, place.jax_device))


def _pin_memory(data: Any, device: Any = None) -> Any:
    """A batch whose tensors are in pinned memory.

    Args:
        data: Tensors in containers, or an object with a method ``pin_memory``.
        device: Accepted for compatibility.
    """
    return tree_map(lambda each: each.pin_memory() if hasattr(each, "pin_memory") else each, data)
