"""Tensors from data: Python numbers and lists, NumPy and JAX arrays, other tensors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.devices.device import CPU, as_device, device, get_default_device
from flambeau.core.devices.meshes import settled
from flambeau.core.operators.op import function
from flambeau.core.operators.overrides import asks
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.modes import modes
from flambeau.core.support.tracebacks import trim
from flambeau.core.support.warning import warn
from flambeau.core.values import plan
from flambeau.core.values.convert import copied, place, to_numpy
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.upload import upload
from flambeau.ops.common.dims import is_open
from flambeau.ops.factories.factory import checked_dtype, wrap_new

__all__ = [
    "as_tensor",
    "asarray",
    "from_dlpack",
    "from_jax",
    "from_numpy",
    "scalar_tensor",
    "tensor",
]


@asks
def tensor(
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """A new leaf tensor with a copy of ``data``.

    Args:
        data: A number, nested lists or tuples of numbers, a NumPy or JAX array, or a tensor.
        dtype: The element type; by default that of arrays and tensors, int64 for Python integers,
            bool for bools, and the default dtype for floats.
        device: The device of the tensor; by default `get_default_device`, or the device of
            ``data``.
        requires_grad: Whether `backward` accumulates gradients for it.
        pin_memory: Accepted for compatibility; JAX decides how it moves memory.

    Raises:
        ValueError: A nested sequence is ragged.
        TypeError: ``data`` contains a value that is not a number.
        RuntimeError: The dtype cannot hold a value, or cannot require gradients.

    >>> import flambeau
    >>> flambeau.tensor([[1, 2], [3, 4]]).dtype
    flambeau.int64
    """
    dtype = checked_dtype("tensor", dtype)
    if isinstance(data, Tensor):
        warn(
            "tensor() copies a tensor outside the tape; source.detach().clone() says so better",
        )
    try:
        return wrap_new("tensor", _copied(data, dtype, device), requires_grad)
    except Exception as error:
        trim(error)
        raise


def _copied(data: Any, dtype: Any, where: Any) -> Any:
    """A new array with the elements of ``data``."""
    if isinstance(data, Tensor):
        # The array itself never changes, so a new Cell is a copy.
        source = data.detach()
        source = source if dtype is None else source.to(dtype)
        where = _device_around() if where is None else where
        return (source if where is None else source.to(where))._read()
    if is_open(data):
        data = jnp.asarray(data)
    if isinstance(data, jax.Array):
        array = _supported(data)
        array = array if dtype is None else array.astype(dtype.numpy)
        return array if where is None else place(array, as_device(where))
    array = to_numpy(data, dtype)
    may_be_shared = array.base is not None or not array.flags.owndata
    if isinstance(data, np.ndarray) or may_be_shared or array.dtype.kind == "b":
        array = copied(array)
    return _on_device(array, as_device(where))


def _device_around() -> device | None:
    """The default device, if one is set: tensors from elsewhere are moved to it."""
    where = get_default_device()
    return None if where == CPU and modes.device is None else where


def _on_device(array: np.ndarray, where: device) -> Any:
    """A NumPy array without other references, on a device."""
    if where.type == "meta":
        return plan.constant(array)
    if modes.trace is not None:
        return jnp.asarray(array)
    return upload(array, where.jax_device)


def _supported(array: jax.Array) -> jax.Array:
    """``array`` itself, unless its type is weak; an error for dtypes that no tensor has."""
    found = dtypes.from_numpy_dtype(array.dtype)
    return settled(array.astype(found.numpy) if array.weak_type else array)


@asks
def scalar_tensor(
    s: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A 0-d tensor of one number, with the default dtype unless given."""
    dtype = checked_dtype("scalar_tensor", dtype, layout)
    dtype = dtypes.get_default_dtype() if dtype is None else dtype
    if not isinstance(s, int | float | complex | np.generic):
        raise TypeError(f"scalar_tensor(): s must be a number, got {type(s).__name__}: {s!r:.80}")
    return wrap_new("scalar_tensor", _copied(s, dtype, device), requires_grad)


@asks
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """``data`` as a tensor: itself, if it is a tensor of this dtype on this device.

    A tensor that must be converted keeps its history. Unlike PyTorch, a NumPy array is copied:
    tensors never share memory that other code can write to.
    """
    dtype = checked_dtype("as_tensor", dtype)
    if isinstance(data, Tensor):
        device = _device_around() if device is None else device
        data = data if device is None else data.to(device=device)
        return data if dtype is None else data.to(dtype)
    return wrap_new("as_tensor", _copied(data, dtype, device))


@asks
def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Any:
    """``obj`` as a tensor: numbers, sequences, arrays, tensors, anything with ``__dlpack__``.

    Args:
        obj: The data.
        dtype: The element type; by default that of the data.
        device: The device; by default that of the data.
        copy: ``True`` to copy always; ``False`` to fail rather than copy; ``None`` to copy only if
            necessary. Only the elements of tensors and JAX arrays can be shared.
        requires_grad: ``True`` to require gradients, ``False`` for a result off the tape; by
            default a tensor keeps its flag and its history.

    Raises:
        ValueError: ``copy=False``, but the elements cannot be shared.
    """
    dtype = checked_dtype("asarray", dtype)
    if isinstance(obj, Tensor):
        result = as_tensor(obj, dtype, device)
        if result is not obj and copy is False:
            raise ValueError("asarray(): this dtype or device needs a copy, and copy=False")
        result = obj.clone() if result is obj and copy else result
        if requires_grad is None or requires_grad == result.requires_grad:
            return result
        return result.requires_grad_(True) if requires_grad else result.detach()
    if copy is False and not isinstance(obj, jax.Array):
        raise ValueError(
            f"asarray(): the elements of {type(obj).__name__} cannot be shared, and copy=False"
        )
    is_array = isinstance(obj, np.ndarray | np.generic | jax.Array)
    if not is_array and hasattr(obj, "__dlpack__"):
        obj = from_dlpack(obj)._read()
    return wrap_new("asarray", _copied(obj, dtype, device), bool(requires_grad))


@asks
def from_numpy(ndarray: Any) -> Any:
    """A CPU tensor with the elements and dtype of a NumPy array.

    Unlike PyTorch, the elements are copied: later writes to one do not change the other.

    Raises:
        TypeError: ``ndarray`` is not a NumPy array, or no tensor has its dtype.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy() takes a NumPy array, got {type(ndarray).__name__}")
    dtypes.from_numpy_dtype(ndarray.dtype)
    return wrap_new("from_numpy", _copied(ndarray, None, "cpu"))


def from_jax(array: jax.Array) -> Any:
    """A tensor that holds this `jax.Array` without a copy.

    `Tensor.jax` returns it. An array on a mesh with Explicit axes gets the same sharding on the
    mesh with Auto axes, where XLA decides the sharding of operators' results.

    Raises:
        TypeError: ``array`` is not a JAX array, or no tensor has its dtype.

    >>> import flambeau, jax
    >>> array = jax.numpy.arange(3.0)
    >>> flambeau.from_jax(array).jax() is array
    True
    """
    if not isinstance(array, jax.Array):
        raise TypeError(f"from_jax() takes a jax.Array, got {type(array).__name__}")
    return wrap_new("from_jax", _supported(array))


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor with the elements of another library's tensor, through the DLPack protocol.

    Unlike PyTorch, elements that their owner may write to are copied; the elements of JAX arrays
    and of tensors never change and are shared.

    Args:
        ext_tensor: Anything with ``__dlpack__`` and ``__dlpack_device__``, or an unconsumed DLPack
            capsule.
        device: The device; by default that of ``ext_tensor``.
        copy: ``False`` to fail rather than copy.

    Raises:
        RuntimeError: ``ext_tensor`` does not support the protocol, or was consumed already.
        ValueError: ``copy=False``, but its owner could write to the elements.
    """
    if type(ext_tensor).__name__ == "PyCapsule":
        # Imported on use: few programs have capsules.
        from flambeau.ops.factories.capsules import Exporter

        ext_tensor = Exporter(ext_tensor)
    if not hasattr(ext_tensor, "__dlpack__"):
        raise RuntimeError(f"from_dlpack(): {type(ext_tensor).__name__} has no __dlpack__ method")
    if isinstance(ext_tensor, Tensor | jax.Array):
        array = ext_tensor.jax() if isinstance(ext_tensor, Tensor) else ext_tensor
    elif copy is False:
        raise ValueError(
            f"from_dlpack(): a {type(ext_tensor).__name__} may be written to, so its elements "
            "must be copied, and copy=False"
        )
    else:
        shared = jax.dlpack.from_dlpack(ext_tensor)
        # See `copied`, of bools whose bytes are other than 0 and 1.
        is_bool = shared.dtype == np.bool_
        array = shared.view(np.uint8) != 0 if is_bool else jnp.array(shared, copy=True)
    return wrap_new("from_dlpack", _copied(array, None, device))


@function(method=True)
def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A new leaf tensor with a copy of ``data``, with this tensor's dtype and device."""
    dtype = checked_dtype("new_tensor", dtype, layout)
    if isinstance(data, Tensor):
        warn(
            "new_tensor() copies a tensor outside the tape; source.detach().clone() says so better",
        )
    dtype = self.dtype if dtype is None else dtype
    where = self.device if device is None else device
    return wrap_new("new_tensor", _copied(data, dtype, where), requires_grad)
