"""Python data, NumPy arrays and other libraries' tensors as arrays on a device."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from flambeau.core.devices.device import as_device, device
from flambeau.core.devices.donation import put
from flambeau.core.kernels.promotion import promote_types
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.dtype import dtype
from flambeau.core.types import Args, Contents, DeviceLike, Kwargs, Leaf, Tree
from flambeau.core.values import plan
from flambeau.core.values.attributes import handle_on
from flambeau.core.values.cell import Cell, abstract, is_abstract
from flambeau.core.values.tensor import Size, Tensor, method


def place(array: Contents, where: device) -> Contents:
    """``array`` on a device: a JAX array, or on meta its shape and dtype."""
    if where.type == "meta":
        return array if is_abstract(array) else plan.constant(array)
    if is_abstract(array):
        raise NotImplementedError(
            f"a tensor on the meta device has no elements to copy to '{where}'; "
            "use to_empty() on its module, or empty_like() and fill it"
        )
    target = where.jax_device
    # A program runs on one device.
    return array if isinstance(array, Tracer) else put(array, target)


def to_numpy(data: Any, to: dtype | None = None) -> np.ndarray:
    """Python numbers, nested sequences, arrays or tensors as a NumPy array of PyTorch's dtype.

    Args:
        data: Data as for `flambeau.tensor`.
        to: The dtype wanted; by default the one that PyTorch infers: the dtype of arrays, of
            NumPy's scalars and of tensors, int64 for Python integers, the default dtype for Python
            floats, and of several kinds what they promote to.

    Raises:
        ValueError: A nested sequence is ragged, or holds strings or a tensor with several elements.
        TypeError: ``data`` is a string, or contains a sequence in place of a number.
        RuntimeError: A value is out of the dtype's range, or ``data`` is no data at all.
    """
    found: set[dtype] = set()
    if _is_sequence(data):
        array = _from_sequence(data, found)
    else:
        array = _from_one(data)
        _plain_element(data, array.ndim, found)
    if to is None:
        to = functools.reduce(promote_types, found) if found else dtypes.get_default_dtype()
    # NumPy's own arrays are cast as NumPy casts them.
    if to.category == dtypes.INTEGER and not hasattr(data, "__array__"):
        _check_reals(array, to)
    return _cast(array, to)


def _check_reals(array: np.ndarray, to: dtype) -> None:
    """Check that an integer dtype can hold Python's floats, without their fractions."""
    if array.dtype.kind != "f" or not array.size:
        return
    bits = 8 * to.itemsize - to.is_signed
    lowest = -(2.0**bits) if to.is_signed else 1 - 2.0**bits
    whole = np.trunc(array)
    fits = (whole >= lowest) & (whole < 2.0**bits)
    if not fits.all():
        value = array[~fits].flat[0]
        raise RuntimeError(f"value {value} cannot be converted to {to} without overflow")


#: The dtype of Python's own numbers.
_PYTHONS: dict[type, Callable[[], dtype]] = {
    bool: lambda: dtypes.bool,
    int: lambda: dtypes.int64,
    float: dtypes.get_default_dtype,
    complex: lambda: dtypes.get_default_dtype().to_complex(),
}


_NUMBERS = (*_PYTHONS, np.number, np.bool_, np.ndarray, jax.Array)


def _is_sequence(data: object) -> bool:
    """Whether ``data`` is read as a sequence: a list, a deque, an `array.array`, a range."""
    if isinstance(data, list | tuple | range):
        return True
    kind = type(data)
    if isinstance(data, str | bytes | Mapping) or hasattr(kind, "__array__"):
        return False
    return hasattr(kind, "__len__") and hasattr(kind, "__getitem__")


def _from_one(data: Any) -> np.ndarray:
    if isinstance(data, Tensor):
        return data.detach()._host_array()
    if isinstance(data, bool | int | float | complex):
        return np.asarray(data)
    if hasattr(data, "__array__"):
        array = np.asarray(data)
        # PyTorch has no byte orders: foreign ones are converted.
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    raise _no_numbers(data)


def _no_numbers(data: object) -> Exception:
    if isinstance(data, str | bytes):
        return TypeError(f"new(): invalid data type '{type(data).__name__}': {data!r:.80}")
    return RuntimeError(
        f"Could not infer dtype of {type(data).__name__}: {data!r:.80} is neither a number, nor an "
        "array, nor a sequence of them"
    )


def _from_sequence(data: Any, found: set[dtype]) -> np.ndarray:
    """A sequence as NumPy; adds the dtypes of its elements to ``found``."""
    sizes, first = _sizes(data)
    if isinstance(first, str):
        raise ValueError(f"too many dimensions 'str': {first!r:.80} is not a number")
    plain = _plain(data, len(sizes), found)
    try:
        array = np.asarray(plain) if len(plain) else np.asarray(plain, np.float64)
    except ValueError:
        _refuse_ragged(plain, sizes, 0)
        raise
    if array.dtype.kind in "SUMm" or (array.dtype.kind == "O" and not _all_integers(array)):
        raise _no_numbers(next(each for each in _leaves(plain) if not isinstance(each, _NUMBERS)))
    return array


def _leaves(data: Iterable[Any]) -> Iterator[object]:
    for each in data:
        if isinstance(each, list | tuple | range):
            yield from _leaves(each)
        else:
            yield each


def _sizes(data: Any) -> tuple[list[int], Any]:
    """The lengths of the first sequence at each nesting depth, and the first element."""
    sizes = []
    while _is_sequence(data):
        sizes.append(len(data))
        if not sizes[-1]:
            break
        data = data[0]
    if isinstance(data, np.ndarray | jax.Array):
        sizes += data.shape
    return sizes, data


def _plain(data: Any, ndim: int, found: set[dtype]) -> Tree:
    """A sequence in which tensors and their sequences are replaced by NumPy's and Python's values.

    Args:
        data: The sequence; a sequence of numbers alone is returned unchanged, or as a list.
        ndim: The nesting depth from here on.
        found: Takes the dtypes of the elements.
    """
    if not isinstance(data, list | tuple | range):
        data = list(data)
    others = False
    for kind in {int} if isinstance(data, range) else set(map(type, data)):
        if kind in _PYTHONS:
            found.add(_PYTHONS[kind]())
        elif issubclass(kind, np.generic):
            found.add(dtypes.from_numpy_dtype(np.dtype(kind)))
        else:
            others = True
    return [_plain_element(each, ndim - 1, found) for each in data] if others else data


def _plain_element(element: Leaf, ndim: int, found: set[dtype]) -> Tree:
    if type(element) in _PYTHONS or isinstance(element, np.generic):
        return _plain([element], 1, found)[0]
    if isinstance(element, Tensor):
        found.add(element.dtype)
        array = element.detach()._host_array()
        if ndim:
            return array
        if array.size != 1:
            raise ValueError(
                "only one element tensors can be converted to Python scalars: one among the data "
                f"has the shape {tuple(array.shape)}; flambeau.stack joins tensors"
            )
        return array.reshape(())[()]
    if _is_sequence(element):
        if not ndim:
            raise TypeError(f"must be real number, not {type(element).__name__}: {element!r:.80}")
        return _plain(element, ndim, found)
    for kind, default in _PYTHONS.items():
        if isinstance(element, kind):
            found.add(default())
            return element
    if hasattr(element, "__array__"):
        array = element if isinstance(element, np.ndarray | jax.Array) else np.asarray(element)
        # In the native byte order, which all tensors have.
        found.add(dtypes.from_numpy_dtype(array.dtype.newbyteorder("=")))
    return element


def _refuse_ragged(data: Any, sizes: list[int], dim: int) -> None:
    """Raise an error that names the sequence in ``data`` with a different length."""
    if dim == len(sizes):
        return
    if not hasattr(data, "__len__"):
        raise TypeError(f"not a sequence: {data!r:.80}, where others have length {sizes[dim]}")
    if len(data) != sizes[dim]:
        raise ValueError(f"expected sequence of length {sizes[dim]} at dim {dim} (got {len(data)})")
    for each in data:
        _refuse_ragged(each, sizes, dim + 1)


def _all_integers(array: np.ndarray) -> bool:
    """Whether an array of objects holds only integers, such as integers of more than 64 bits."""
    return all(isinstance(each, int) for each in array.flat)


_LARGEST = np.iinfo(np.int64).max


def _cast(array: np.ndarray, to: dtype) -> np.ndarray:
    if array.dtype == to.numpy:
        return array
    if array.dtype.kind == "c" and not to.is_complex:
        raise TypeError(f"complex values cannot be converted to {to} without losing a part")
    if to.category == dtypes.INTEGER and array.dtype.kind in "iuO" and array.size:
        limits = np.iinfo(to.numpy)
        # As in PyTorch, small negative numbers wrap around in unsigned types.
        lowest = limits.min if to.is_signed else -int(limits.max)
        if array.min() < lowest or array.max() > limits.max:
            beyond = array.max() > _LARGEST or array.min() < -_LARGEST - 1
            error = ValueError if beyond else RuntimeError
            raise error(f"value cannot be converted to {to} without overflow")
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(to.numpy)


def make(array: np.ndarray, where: DeviceLike = None) -> Tensor:
    """A new tensor with the elements of a NumPy array, which is copied."""
    where = as_device(where)
    if where.type == "meta":
        return Tensor._wrap(plan.constant(copied(array)))
    # JAX may share memory with a NumPy array on the CPU; the caller may write to theirs later.
    return Tensor._wrap(place(copied(array), where))


def copied(array: np.ndarray) -> np.ndarray:
    """A copy of a NumPy array, the last dimension running fastest.

    The bytes of bools become 0 and 1: NumPy allows others, such as in a view of integers, and XLA
    computes with them as if they were numbers.
    """
    if array.dtype.kind == "b":
        return np.asarray(array.view(np.uint8) != 0, order="C")
    return np.array(array, order="C")


def legacy_array(
    args: Args, options: Kwargs, of: dtype | None = None, name: str = "Tensor"
) -> Contents:
    """The array of ``Tensor(*sizes)`` or ``Tensor(data)``.

    Args:
        args: The sizes or the data.
        options: ``device``, if anything.
        of: The dtype; by default the default one.
        name: The constructor, for messages.

    Raises:
        TypeError: There is something else among the arguments.
        RuntimeError: A size is negative.
    """
    where = as_device(options.pop("device", None))
    if options:
        raise TypeError(f"{name}() got unexpected arguments {sorted(options)}")
    of = dtypes.get_default_dtype() if of is None else of
    if all(isinstance(each, int) for each in args):
        return _empty(args or (0,), of, where)
    if len(args) == 1 and not isinstance(args[0], float | complex):
        data = args[0]
        if isinstance(data, Size):
            return _empty(tuple(data), of, where)
        return place(to_numpy(data, of), where)
    kinds = ", ".join(type(each).__name__ for each in args)
    raise TypeError(f"{name}() takes sizes or one sequence of data, got ({kinds})")


def _empty(shape: tuple[int, ...], of: dtype, where: device) -> Contents:
    if any(size < 0 for size in shape):
        raise RuntimeError(f"a tensor cannot have the negative size in {list(shape)}")
    if where.type == "meta":
        return plan.planned(shape, of.numpy, lambda place: _empty(shape, of, place))
    return place(np.zeros(shape, of.numpy), where)


def rebuild_tensor(
    cls: type[Tensor], value: Any, place_name: str, requires_grad: bool, attributes: Kwargs
) -> Tensor:
    """A tensor from its pickled state."""
    if place_name == "meta":
        shape, name = value
        array = abstract(shape, getattr(dtypes, name).numpy)
    else:
        array = place(value, device(place_name))
    tensor = handle_on(Cell(array), cls)
    tensor._requires_grad = requires_grad
    vars(tensor).update(attributes)
    return tensor


@method
def __array_wrap__(self: Tensor, array: np.ndarray, *_: object) -> Tensor:
    """The result of a NumPy function of this tensor, as a tensor."""
    return make(np.asarray(array))


Tensor._legacy_array = staticmethod(legacy_array)
Tensor._rebuild = staticmethod(rebuild_tensor)


def number_in(value: Any, to: dtype, name: str, to_infinity: bool = False) -> complex:
    """A Python number converted to the range of a dtype.

    Fractions are truncated for integer dtypes, and small negative integers wrap around for unsigned
    ones, as in PyTorch.

    Args:
        value: The number.
        to: The dtype.
        name: The operator, for the message.
        to_infinity: Whether a number beyond a floating-point dtype counts as infinite.

    Raises:
        RuntimeError: The dtype cannot hold it.
    """
    if type(value) is complex and to.category != dtypes.COMPLEX and value.imag == 0:
        value = value.real
    found = _fitting(value, to)
    is_beyond = found is None and to.category == dtypes.FLOATING
    if is_beyond and to_infinity and not isinstance(value, complex):
        return math.copysign(math.inf, value)
    if found is None:
        raise RuntimeError(f"{name}(): {value} cannot be converted to {to} without overflow")
    return found


def _fitting(value: Any, to: dtype) -> complex | None:
    """``value`` as a number that a dtype can hold, or ``None`` if it cannot."""
    if to.category == dtypes.COMPLEX:
        return value
    if isinstance(value, complex):
        return None
    if to.category == dtypes.FLOATING:
        return value if abs(value) <= _GREATEST[to] or not math.isfinite(value) else None
    if to.category == dtypes.BOOLEAN:
        return value != 0
    if not math.isfinite(value):
        return None
    limits, whole = np.iinfo(to.numpy), int(value)
    wraps = isinstance(value, int) and not to.is_signed
    lowest = -limits.max if wraps else limits.min
    if not lowest <= value <= limits.max:
        return None
    return whole if to.is_signed else whole % (limits.max + 1)


_GREATEST = {
    each: float(dtypes.finfo(each).max) for each in dtypes.ALL_DTYPES if each.is_floating_point
}
