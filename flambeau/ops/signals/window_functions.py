"""Window functions, which weight the samples of a signal before a Fourier transform.

Each is symmetric. A *periodic* window of N samples, for Fourier transforms, is a symmetric one of N
+ 1 without its last sample. The formulas are those of F. J. Harris, "On the use of windows for
harmonic analysis with the discrete Fourier transform", 1978.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.core.devices.device import as_device
from flambeau.core.support import dtype as dtypes
from flambeau.ops.factories.factory import as_size, checked_dtype, produce, wrap_new

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def windowed(
    name: str,
    length: Any,
    symmetric: bool,
    formula: Callable[[Any, Any], Any],
    options: dict[str, Any],
) -> Any:
    """A window as a new tensor.

    Args:
        name: The factory, for messages.
        length: The number of samples.
        symmetric: The last sample is the mirror image of the first.
        formula: A function of a module (`numpy` or `jax.numpy`) and of positions from 0, the first
            sample of a symmetric window, to 1, its last.
        options: ``dtype``, ``layout``, ``device`` and ``requires_grad`` as for `zeros`.

    Raises:
        RuntimeError: The length is negative, or the dtype is not floating point.
    """
    length = as_size(name, length)
    dtype = checked_dtype(name, options.get("dtype"), options.get("layout"))
    dtype = dtypes.get_default_dtype() if dtype is None else dtype
    if length < 0:
        raise RuntimeError(f"{name}(): the length must not be negative, got {length}")
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name}(): a window is of a floating point dtype, got {dtype}")
    steps = length - 1 if symmetric else length

    def build(lib: Any) -> Any:
        if length < 2:
            return lib.ones(length, dtype.numpy)
        return formula(lib, lib.arange(length, dtype="float64") / steps).astype(dtype.numpy)

    array = produce((length,), dtype, as_device(options.get("device")), build)
    return wrap_new(name, array, bool(options.get("requires_grad")))


def cosines(*weights: float) -> Callable[[Any, Any], Any]:
    """The formula ``w0 - w1 cos(2 pi t) + w2 cos(4 pi t) - ...``."""

    def formula(lib: Any, places: Any) -> Any:
        terms = (
            (-1) ** n * weight * lib.cos(2 * math.pi * n * places)
            for n, weight in enumerate(weights)
        )
        return sum(terms)

    return formula


def triangle(lib: Any, places: Any) -> Any:
    """The formula of Bartlett's window: 0 at both ends and 1 in the middle."""
    return 1 - lib.abs(2 * places - 1)


def bessel(beta: float) -> Callable[[Any, Any], Any]:
    """The formula of Kaiser's window, by the modified Bessel function of order 0."""

    def formula(lib: Any, places: Any) -> Any:
        inside = lib.maximum(0, 1 - (2 * places - 1) ** 2)
        return lib.i0(beta * lib.sqrt(inside)) / lib.i0(lib.asarray(beta, dtype="float64"))

    return formula


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """A triangle, zero at both ends. Arguments as for `hann_window`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return windowed("bartlett_window", window_length, not periodic, triangle, options)


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """``0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t)``. Arguments as for `hann_window`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    formula = cosines(0.42, 0.5, 0.08)
    return windowed("blackman_window", window_length, not periodic, formula, options)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """``alpha - beta cos(2 pi t)``. Other arguments as for `hann_window`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    formula = cosines(alpha, beta)
    return windowed("hamming_window", window_length, not periodic, formula, options)


def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """``(1 - cos(2 pi t)) / 2``, zero at both ends.

    Args:
        window_length: The number of samples N.
        periodic: Drop the last of N + 1 samples, for use with Fourier transforms.
        dtype: A floating point dtype; by default `get_default_dtype`.
        layout: See `zeros`, like all further arguments.

    Raises:
        RuntimeError: The length is negative, or the dtype is not floating point.

    >>> import flambeau
    >>> flambeau.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return windowed("hann_window", window_length, not periodic, cosines(0.5, 0.5), options)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """``I0(beta sqrt(1 - (2 t - 1)^2)) / I0(beta)``. Other arguments as for `hann_window`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return windowed("kaiser_window", window_length, not periodic, bessel(beta), options)
