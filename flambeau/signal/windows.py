"""Window functions under PyTorch's names: `torch.signal.windows`.

They are symmetric by default; ``sym=False`` drops the last sample of a longer window, which is
periodic for Fourier transforms. Factories such as `flambeau.hann_window` are periodic by default.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.ops.signals.window_functions import bessel, cosines, triangle, windowed

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


def _window(
    name: str, M: int, sym: bool, formula: Callable[[Any, Any], Any], options: dict[str, Any]
) -> Any:
    """A window of ``M`` samples.

    Raises:
        ValueError: ``M`` is negative, or ``dtype`` is not floating point.
        TypeError: There are keyword arguments other than ``dtype``, ``layout``, ``device`` and
            ``requires_grad`` among the options.
    """
    if M < 0:
        raise ValueError(f"{name}(): M must not be negative, got {M}")
    dtype = options.get("dtype")
    if dtype is not None and not getattr(dtype, "is_floating_point", True):
        raise ValueError(f"{name}(): dtype must be a floating point dtype, got {dtype}")
    unknown = options.keys() - {"dtype", "layout", "device", "requires_grad"}
    if unknown:
        raise TypeError(f"{name}() has no argument '{min(unknown)}'")
    return windowed(name, M, sym, formula, options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Any:
    """A triangle, zero at both ends. Arguments as for `hann`."""
    return _window("bartlett", M, sym, triangle, options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Any:
    """``0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t)``. Arguments as for `hann`."""
    return _window("blackman", M, sym, cosines(0.42, 0.5, 0.08), options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Any:
    """``sin(pi (n + 1/2) / N)`` for sample n of N. Arguments as for `hann`."""
    count = M if sym else M + 1

    def formula(lib: Any, places: Any) -> Any:
        return lib.sin(math.pi * (places * (count - 1) + 0.5) / count)

    return _window("cosine", M, sym, formula, options)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any
) -> Any:
    """``exp(-|n - center| / tau)`` for sample n. Further arguments as for `hann`.

    Raises:
        ValueError: ``tau`` is not positive, or a symmetric window is given a center.
    """
    if tau <= 0:
        raise ValueError(f"exponential(): tau must be positive, got {tau}")
    if sym and center is not None:
        raise ValueError("exponential(): a symmetric window has its center in the middle")
    last = M - 1 if sym else M
    middle = last / 2 if center is None else center

    def formula(lib: Any, places: Any) -> Any:
        return lib.exp(-lib.abs(places * last - middle) / tau)

    return _window("exponential", M, sym, formula, options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Any:
    """``exp(-(n - center)^2 / (2 std^2))`` for sample n. Further arguments as for `hann`.

    Raises:
        ValueError: ``std`` is not positive.
    """
    if std <= 0:
        raise ValueError(f"gaussian(): std must be positive, got {std}")
    last = M - 1 if sym else M

    def formula(lib: Any, places: Any) -> Any:
        return lib.exp(-(((places - 0.5) * last / std) ** 2) / 2)

    return _window("gaussian", M, sym, formula, options)


def general_cosine(M: int, *, a: Sequence[float], sym: bool = True, **options: Any) -> Any:
    """``a[0] - a[1] cos(2 pi t) + a[2] cos(4 pi t) - ...``. Further arguments as for `hann`.

    Raises:
        TypeError: ``a`` is not a sequence.
        ValueError: ``a`` is empty.
    """
    if not isinstance(a, Sequence):
        raise TypeError(f"general_cosine(): a must be a sequence, got {type(a).__name__}")
    if not a:
        raise ValueError("general_cosine(): a must not be empty")
    return _window("general_cosine", M, sym, cosines(*a), options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Any:
    """``alpha - (1 - alpha) cos(2 pi t)``. Further arguments as for `hann`."""
    return _window("general_hamming", M, sym, cosines(alpha, 1 - alpha), options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Any:
    """``0.54 - 0.46 cos(2 pi t)``. Arguments as for `hann`."""
    return _window("hamming", M, sym, cosines(0.54, 0.46), options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Any:
    """``(1 - cos(2 pi t)) / 2``, zero at both ends.

    Args:
        M: The number of samples.
        sym: The last sample is the mirror image of the first.
        options: ``dtype``, ``layout``, ``device`` and ``requires_grad`` as for `zeros`.

    Raises:
        ValueError: ``M`` is negative.

    >>> import flambeau
    >>> flambeau.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _window("hann", M, sym, cosines(0.5, 0.5), options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Any:
    """``I0(beta sqrt(1 - (2 t - 1)^2)) / I0(beta)``. Further arguments as for `hann`.

    Raises:
        ValueError: ``beta`` is negative.
    """
    if beta < 0:
        raise ValueError(f"kaiser(): beta must not be negative, got {beta}")
    return _window("kaiser", M, sym, bessel(beta), options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Any:
    """A sum of four cosines whose side lobes are 93 dB below. Arguments as for `hann`.

    The weights are those of A. H. Nuttall, "Some windows with very good sidelobe behavior", 1981.
    """
    formula = cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return _window("nuttall", M, sym, formula, options)
