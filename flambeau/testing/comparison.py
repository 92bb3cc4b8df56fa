"""Assertions that tensors, numbers and containers of them are close.

Elements are compared with NumPy on the host: most shapes occur once in a test, so compiling would
not pay off.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flambeau.core.kernels.promotion import promote_types
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.tensor import Tensor
from flambeau.ops.factories.from_data import as_tensor

__all__ = ["assert_close"]

_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}
_EXACT = (0.0, 0.0)
_BOOLS = (bool, np.bool_)
_NUMBERS = (int, float, complex, np.number)


@dataclass(frozen=True)
class _Terms:
    """The options of `assert_close`."""

    allow_subclasses: bool
    tolerances: tuple[float, float] | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Fail unless ``|actual - expected| <= atol + rtol * |expected|`` for all elements.

    An infinity is close to itself only, and a NaN to nothing. The default tolerances depend on the
    dtype; for two dtypes, the looser tolerances apply:

    =================================  ======  =====
    dtype                              rtol    atol
    =================================  ======  =====
    float16                            1e-3    1e-5
    bfloat16                           1.6e-2  1e-5
    float32, complex64                 1.3e-6  1e-5
    float64, complex128, Python's own  1e-7    1e-7
    integers, bool, 8-bit floats       0       0
    =================================  ======  =====

    Args:
        actual: The computed value: a tensor, a number, a bool, ``None``, or another argument of
            `as_tensor`, such as a NumPy array; or a sequence or mapping of these, to any depth.
        expected: The expected value. One of the classes must be a subclass of the other, except for
            numbers, sequences and mappings.
        allow_subclasses: ``False`` to require the same class, so that a `Parameter` does not equal
            a `Tensor`.
        rtol: The tolerance relative to ``expected``, given together with ``atol``.
        atol: The absolute tolerance; it must be 0, and ``rtol`` too, for floats of 8 bits.
        equal_nan: NaNs are close to each other.
        check_device: Tensors on different devices are not close.
        check_dtype: Different dtypes, or types of Python's numbers, are not close. If it is
            ``False``, the elements are promoted to one dtype.
        check_layout: Without effect, since all tensors are strided.
        check_stride: Without effect, since tensors of one shape have the same strides.
        msg: Replaces the message about elements that are not close, or is a function from the
            message to its replacement.

    On the meta device only shape, device and dtype are compared.

    Raises:
        AssertionError: Values, shapes, devices, dtypes, lengths or keys differ. The message states
            the number of differing elements, and the index of the greatest difference.
        TypeError: The inputs cannot be converted to tensors, or their classes are unrelated.
        ValueError: Only one of ``rtol`` and ``atol`` is given.
        RuntimeError: A tolerance is negative, or the values are tracers, as in a compiled function.

    >>> import flambeau
    >>> from flambeau.testing import assert_close
    >>> assert_close({"a": [flambeau.ones(2), 1.0]}, {"a": (flambeau.ones(2) + 1e-7, 1.0)})
    >>> assert_close(flambeau.tensor([1.0, 2.0, 6.0]), flambeau.tensor([1.0, 4.0, 5.0]))
    Traceback (most recent call last):
        ...
    AssertionError: 2 of 3 elements (66.7%) are not close; they differ most
      absolutely by 2.0 at (1,), where atol is 1e-05
      relatively by 0.5 at (1,), where rtol is 1.3e-06
    """
    __tracebackhide__ = True
    tolerances = _given_tolerances(rtol, atol)
    terms = _Terms(allow_subclasses, tolerances, equal_nan, check_device, check_dtype)
    # Structural differences are reported before any elements are compared.
    for place, one, other in list(_pairs(actual, expected, terms, "")):
        difference = _difference(one, other, terms)
        if difference is not None:
            difference = place + difference
            raise AssertionError(
                difference if msg is None else msg(difference) if callable(msg) else msg
            )


def _given_tolerances(rtol: float | None, atol: float | None) -> tuple[float, float] | None:
    if rtol is None and atol is None:
        return None
    if rtol is None or atol is None:
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"assert_close() takes rtol and atol together, and {missing} is missing")
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"rtol and atol must not be negative, got {rtol} and {atol}")
    return rtol, atol


# Form


def _pairs(actual: Any, expected: Any, terms: _Terms, path: str) -> Iterator[tuple[str, Any, Any]]:
    """The pairs to compare, each with its location for messages."""
    place = f"item {path}: " if path else ""
    if _both(Sequence, actual, expected) and not _either(str, actual, expected):
        if len(actual) != len(expected):
            raise AssertionError(
                f"{place}a sequence of {len(actual)} elements, expected {len(expected)}"
            )
        for index in range(len(actual)):
            yield from _pairs(actual[index], expected[index], terms, f"{path}[{index}]")
    elif _both(Mapping, actual, expected):
        if actual.keys() != expected.keys():
            missing = sorted(map(repr, expected.keys() - actual.keys()))
            unexpected = sorted(map(repr, actual.keys() - expected.keys()))
            raise AssertionError(
                f"{place}a mapping without the keys [{', '.join(missing)}] that are expected, "
                f"and with [{', '.join(unexpected)}] that are not"
            )
        for key in expected:
            yield from _pairs(actual[key], expected[key], terms, f"{path}[{key!r}]")
    elif _either(type(None), actual, expected) or _both(_NUMBERS + _BOOLS, actual, expected):
        yield place, actual, expected
    else:
        yield place, *_as_tensors(actual, expected, terms, place)


def _both(kind: Any, actual: Any, expected: Any) -> bool:
    return isinstance(actual, kind) and isinstance(expected, kind)


def _either(kind: Any, actual: Any, expected: Any) -> bool:
    return isinstance(actual, kind) or isinstance(expected, kind)


def _as_tensors(actual: Any, expected: Any, terms: _Terms, place: str) -> tuple[Tensor, Tensor]:
    kinds = type(actual), type(expected)
    related = kinds[0] is kinds[1] or (
        terms.allow_subclasses and (isinstance(actual, kinds[1]) or isinstance(expected, kinds[0]))
    )
    if related:
        try:
            return as_tensor(actual), as_tensor(expected)
        except (TypeError, ValueError, RuntimeError):
            pass
    raise TypeError(
        f"{place}{kinds[0].__qualname__} and {kinds[1].__qualname__} cannot be compared: "
        + ("no tensor can be made of them" if related else "convert one to the other's class")
    )


# Values


def _difference(actual: Any, expected: Any, terms: _Terms) -> str | None:
    """The difference between two values; ``None`` if they are close."""
    if _both(Tensor, actual, expected):
        return _difference_of_tensors(actual, expected, terms)
    if _either(type(None), actual, expected):
        return None if actual is expected else f"expected {expected}, got {actual}"
    if _both(_BOOLS, actual, expected):
        return None if actual == expected else f"expected {expected}, got {actual}"
    return _difference_of_numbers(actual, expected, terms)


def _difference_of_numbers(actual: Any, expected: Any, terms: _Terms) -> str | None:
    actual, expected = (
        each.item() if isinstance(each, np.generic) else each for each in (actual, expected)
    )
    if terms.check_dtype and type(actual) is not type(expected):
        return f"expected {expected!r} of {type(expected)}, got {actual!r} of {type(actual)}"
    if actual == expected or (terms.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return None
    inexact = _either((float, complex), actual, expected)
    default = _TOLERANCES[dtypes.float64] if inexact else _EXACT
    rtol, atol = default if terms.tolerances is None else terms.tolerances
    error = abs(actual - expected)
    if cmath.isfinite(error) and error <= atol + rtol * abs(expected):
        return None
    return _worded_scalars(actual, expected, rtol, atol)


def _difference_of_tensors(actual: Tensor, expected: Tensor, terms: _Terms) -> str | None:
    if actual.shape != expected.shape:
        return f"expected the shape {list(expected.shape)}, got {list(actual.shape)}"
    if terms.check_device and actual.device != expected.device:
        return f"expected a tensor on {expected.device}, got one on {actual.device}"
    if terms.check_dtype and actual.dtype != expected.dtype:
        return f"expected a tensor of {expected.dtype}, got one of {actual.dtype}"
    if actual.is_meta or expected.is_meta:
        return None
    rtol, atol = terms.tolerances or map(
        max, *(_TOLERANCES.get(each.dtype, _EXACT) for each in (actual, expected))
    )
    if (rtol or atol) and expected.dtype.is_floating_point and expected.dtype.itemsize == 1:
        return f"elements of {expected.dtype} have no tolerances, got rtol={rtol} and atol={atol}"
    one, other = _elements(actual, expected)
    # Infinities and zeros are distinguished below.
    with np.errstate(all="ignore"):
        close = _close(one, other, rtol, atol, terms.equal_nan)
        if close.all():
            return None
        if close.ndim == 0:
            return _worded_scalars(one.item(), other.item(), rtol, atol)
        return _worded_tensors(one, other, close, rtol, atol)


def _elements(actual: Tensor, expected: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The elements of both, converted to one dtype."""
    one, other = actual._host_array(), expected._host_array()
    if one.dtype == other.dtype:
        return one, other
    # These have no common type with signed integers.
    wide = (dtypes.uint16, dtypes.uint32, dtypes.uint64)
    both = (dtypes.int64 if each.dtype in wide else each.dtype for each in (actual, expected))
    common = promote_types(*both).numpy
    return one.astype(common), other.astype(common)


def _close(
    actual: np.ndarray, expected: np.ndarray, rtol: float, atol: float, equal_nan: bool
) -> np.ndarray:
    """A mask of close elements, as by `isclose`; each step is rounded to their dtype."""
    close = np.asarray(actual == expected)
    if equal_nan:
        close |= (actual != actual) & (expected != expected)
    if rtol == atol == 0:
        return close
    if actual.dtype.kind in "biu":
        actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    error = np.abs(actual - expected)
    scaled = np.abs((rtol * _widened(expected)).astype(expected.dtype))
    allowed = (atol + _widened(scaled)).astype(scaled.dtype)
    return close | (np.isfinite(error) & (error <= allowed))


def _widened(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype.itemsize == 2 else array


# Words


def _worded_scalars(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    error = abs(actual - expected)
    relative = error / abs(expected) if expected != 0 else float("inf")
    return (
        f"expected {expected}, got {actual}; they differ\n"
        f"  absolutely by {error}, where atol is {atol}\n"
        f"  relatively by {relative}, where rtol is {rtol}"
    )


def _worded_tensors(
    actual: np.ndarray, expected: np.ndarray, close: np.ndarray, rtol: float, atol: float
) -> str:
    differing = int(close.size - np.count_nonzero(close))
    count = f"{differing} of {close.size} elements ({differing / close.size:.1%})"
    if actual.dtype.itemsize == 1 and actual.dtype.kind not in "biu":
        return f"{count} are not equal, the first of them at {_index(~close)}"
    if actual.dtype.kind in "biu":
        actual, expected = actual.astype(np.int64), expected.astype(np.int64)
    absolute = np.where(close, 0, np.abs(actual - expected))
    relative = np.where(close, 0, absolute / np.abs(expected))
    return (
        f"{count} are not close; they differ most\n"
        f"  absolutely by {absolute.max().item()} at {_index(absolute)}, where atol is {atol}\n"
        f"  relatively by {relative.max().item()} at {_index(relative)}, where rtol is {rtol}"
    )


def _index(array: np.ndarray) -> tuple[int, ...]:
    """The index of the greatest element, or of the first NaN."""
    return tuple(int(each) for each in np.unravel_index(np.argmax(array), array.shape))
