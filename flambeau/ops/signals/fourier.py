"""Discrete Fourier transforms, under the names and conventions of `torch.fft`.

A transform of real input over several dimensions has half of the frequencies along the last of
them. `norm` chooses the direction that divides: ``"backward"`` (the default) divides the inverse
transform by the number n of points, ``"forward"`` the other one by n, ``"ortho"`` both by sqrt(n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import jax.numpy as jnp

from flambeau.core.devices.device import as_device
from flambeau.core.kernels.kinds import SIZES, Array
from flambeau.core.operators.op import function, op
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.factories.factory import checked_dtype, produce, wrap_new

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2",
    "rfftfreq", "rfftn",
]  # fmt: skip

_Sizes: TypeAlias = Annotated[tuple[int, ...], SIZES]
_OPPOSITE = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}
_LAST_TWO = (-2, -1)


# The transform: `sizes` are the points along each of `dims`, in the time domain.


def _resized(input: Any, sizes: _Sizes, dims: _Sizes) -> Any:
    """``input`` truncated, or padded with zeros, at the end of each dimension."""
    cut = [slice(None)] * input.ndim
    pad = [(0, 0)] * input.ndim
    for size, dim in zip(sizes, dims, strict=True):
        cut[dim] = slice(0, size)
        pad[dim] = (0, max(0, size - input.shape[dim]))
    return jnp.pad(input[tuple(cut)], pad)


def _along(input: Any, dims: _Sizes, norm: str, inverse: bool) -> Any:
    """Complex transforms over dimensions; XLA supports at most three at once."""
    transform = jnp.fft.ifftn if inverse else jnp.fft.fftn
    for first in range(0, len(dims), 3):
        input = transform(input, axes=dims[first : first + 3], norm=norm)
    return input


@op(node="FftC2CBackward0", name="fft_c2c", linear=True)
def _complex_to_complex(
    input: Array, sizes: _Sizes, dims: _Sizes, norm: str, inverse: bool
) -> Array:
    if not jnp.iscomplexobj(input):
        input = input.astype(jnp.promote_types(input.dtype, jnp.complex64))
    return _along(_resized(input, sizes, dims), dims, norm, inverse)


@op(node="FftR2CBackward0", name="fft_r2c", linear=True)
def _real_to_complex(input: Array, sizes: _Sizes, dims: _Sizes, norm: str, onesided: bool) -> Array:
    input = _resized(input, sizes, dims)
    if not onesided:
        return _along(input, dims, norm, inverse=False)
    return _along(jnp.fft.rfft(input, axis=dims[-1], norm=norm), dims[:-1], norm, inverse=False)


@op(node="FftC2RBackward0", name="fft_c2r", linear=True)
def _complex_to_real(input: Array, sizes: _Sizes, dims: _Sizes, norm: str) -> Array:
    half = (*sizes[:-1], sizes[-1] // 2 + 1)
    input = _along(_resized(input, half, dims), dims[:-1], norm, inverse=True)
    return jnp.fft.irfft(input, n=sizes[-1], axis=dims[-1], norm=norm)


# The caller's arguments


def _ready(name: str, input: Any, complex_allowed: bool = True) -> Tensor:
    """``input`` with integers converted to floats.

    Raises:
        TypeError: ``input`` is not a tensor.
        RuntimeError: No transform supports its dtype.
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): input must be a Tensor, got {type(input).__name__}")
    kind = input.dtype
    if kind.category < dtypes.FLOATING:
        return input.to(dtypes.get_default_dtype())
    if kind.category == dtypes.COMPLEX and not complex_allowed:
        raise RuntimeError(f"{name}() takes real tensors, got {kind}")
    if kind not in (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128):
        raise RuntimeError(f"{name}() is not possible for {kind}; convert the tensor to float32")
    return input


def _scaling(name: str, norm: str | None) -> str:
    if norm is not None and not isinstance(norm, str):
        raise TypeError(f"{name}(): norm must be a str, got {type(norm).__name__}: {norm!r}")
    if norm not in _OPPOSITE:
        raise RuntimeError(f"{name}(): norm must be 'backward', 'forward' or 'ortho', got {norm!r}")
    return norm or "backward"


def _one(name: str, input: Tensor, n: int | None, dim: int, half: bool = False) -> tuple[Any, Any]:
    """The number of points and the dimension of a transform along one dimension.

    Args:
        name: The function, for messages.
        input: The tensor to transform.
        n: The requested number of points.
        dim: The dimension.
        half: ``input`` has half of the frequencies of a real signal.
    """
    if not input.ndim:
        raise IndexError(f"{name}(): a 0-d tensor has no dimension to transform along")
    dim = wrap_dim(dim, input.ndim, name)
    own = 2 * (input.shape[dim] - 1) if half else input.shape[dim]
    return _positive(name, (own if n is None else n,)), (dim,)


def _positive(name: str, sizes: Sequence[int]) -> _Sizes:
    for each in sizes:
        if not hasattr(each, "__index__"):
            raise TypeError(f"{name}(): n must be an int, got {type(each).__name__}: {each!r:.80}")
        if each < 1:
            raise RuntimeError(f"{name}() needs at least one point along a dimension, got {each}")
    return tuple(int(each) for each in sizes)


def _several(
    name: str, input: Tensor, s: Any, dim: Any, half: bool = False
) -> tuple[_Sizes, _Sizes]:
    """The numbers of points and the dimensions of a transform along several; see `_one`."""
    if dim is not None:
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
        dims = tuple(wrap_dim(each, input.ndim, name) for each in dims)
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"{name}(): the dimensions must differ, got {dim}")
    elif s is None:
        dims = tuple(range(input.ndim))
    else:
        count = 1 if isinstance(s, int) else len(s)
        if count > input.ndim:
            raise RuntimeError(f"{name}(): {count} sizes for a tensor of {input.ndim} dimensions")
        dims = tuple(range(input.ndim - count, input.ndim))
    sizes = (-1,) * len(dims) if s is None else (s,) if isinstance(s, int) else tuple(s)
    if len(sizes) != len(dims):
        raise RuntimeError(f"{name}(): {len(sizes)} sizes for {len(dims)} dimensions")
    own = [input.shape[each] for each in dims]
    if half and own:
        own[-1] = 2 * (own[-1] - 1)
    sizes = [have if each == -1 else each for each, have in zip(sizes, own, strict=True)]
    return _positive(name, sizes), dims


# Along one dimension


@function
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The discrete Fourier transform along a dimension: ``sum_t x[t] exp(-2 pi i f t / n)``.

    Args:
        input: A real or complex tensor.
        n: The number of points: ``input`` is truncated or padded with zeros at its end.
        dim: The dimension.
        norm: ``"backward"``: undivided; ``"forward"``: divided by n; ``"ortho"``: by sqrt(n).

    Returns:
        Complex, with n elements along ``dim``.

    Raises:
        RuntimeError: ``n`` is not positive, ``norm`` is unknown, or the dtype has 16 bits.
        IndexError: There is no such dimension.

    >>> import flambeau
    >>> flambeau.fft.fft(flambeau.tensor([1.0, 2.0, 3.0, 4.0])).real
    tensor([10., -2., -2., -2.])
    """
    input, norm = _ready("fft", input), _scaling("fft", norm)
    sizes, dims = _one("fft", input, n, dim)
    if input.is_complex():
        return _complex_to_complex(input, sizes, dims, norm, False)
    return _real_to_complex(input, sizes, dims, norm, False)


@function
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of `fft`; ``norm="backward"`` divides by n. See `fft` for the arguments."""
    input, norm = _ready("ifft", input), _scaling("ifft", norm)
    sizes, dims = _one("ifft", input, n, dim)
    if input.is_complex():
        return _complex_to_complex(input, sizes, dims, norm, True)
    return _real_to_complex(input, sizes, dims, _OPPOSITE[norm], False).conj()


@function
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The first ``n // 2 + 1`` frequencies of `fft` of a real tensor, which imply the others."""
    input, norm = _ready("rfft", input, complex_allowed=False), _scaling("rfft", norm)
    return _real_to_complex(input, *_one("rfft", input, n, dim), norm, True)


@function
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of `rfft`.

    Args:
        input: Frequencies, of which ``n // 2 + 1`` are used.
        n: The number of points of the result; by default ``2 * (input.size(dim) - 1)``.
        dim: The dimension.
        norm: As for `ifft`.
    """
    input, norm = _ready("irfft", input), _scaling("irfft", norm)
    return _complex_to_real(input, *_one("irfft", input, n, dim, half=True), norm)


@function
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """`fft` of a signal with ``x[-t] == conj(x[t])``, which is real.

    Args:
        input: The first half of the signal.
        n: The number of points of the result; by default ``2 * (input.size(dim) - 1)``.
        dim: The dimension.
        norm: As for `fft`.
    """
    input, norm = _ready("hfft", input), _scaling("hfft", norm)
    sizes, dims = _one("hfft", input, n, dim, half=True)
    return _complex_to_real(input.conj(), sizes, dims, _OPPOSITE[norm])


@function
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of `hfft`: half of the inverse transform of a real tensor."""
    input, norm = _ready("ihfft", input, complex_allowed=False), _scaling("ihfft", norm)
    sizes, dims = _one("ihfft", input, n, dim)
    return _real_to_complex(input, sizes, dims, _OPPOSITE[norm], True).conj()


# Along several


@function
def fftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The discrete Fourier transform over several dimensions.

    Args:
        input: A real or complex tensor.
        s: The number of points along each dimension; -1 for its size.
        dim: The dimensions; by default the last ``len(s)``, or all.
        norm: As for `fft`, n being the product of the points.

    Raises:
        RuntimeError: Sizes and dimensions do not match, or a dimension is given twice.
    """
    input, norm = _ready("fftn", input), _scaling("fftn", norm)
    return _complex_to_complex(input, *_several("fftn", input, s, dim), norm, False)


@function
def ifftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The inverse of `fftn`; see `fftn` for the arguments."""
    input, norm = _ready("ifftn", input), _scaling("ifftn", norm)
    return _complex_to_complex(input, *_several("ifftn", input, s, dim), norm, True)


@function
def rfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """`fftn` of a real tensor, with half of the frequencies along the last dimension."""
    input, norm = _ready("rfftn", input, complex_allowed=False), _scaling("rfftn", norm)
    sizes, dims = _several("rfftn", input, s, dim)
    return _real_to_complex(input, sizes, _at_least_one("rfftn", dims), norm, True)


@function
def irfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The inverse of `rfftn`; without ``s`` the last dimension gets ``2 * (size - 1)`` points."""
    input, norm = _ready("irfftn", input), _scaling("irfftn", norm)
    sizes, dims = _several("irfftn", input, s, dim, half=True)
    return _complex_to_real(input, sizes, _at_least_one("irfftn", dims), norm)


@function
def hfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """`fftn` of a signal given by half of its last dimension, as for `hfft`."""
    input, norm = _ready("hfftn", input), _scaling("hfftn", norm)
    sizes, dims = _several("hfftn", input, s, dim, half=True)
    dims = _at_least_one("hfftn", dims)
    return _complex_to_real(input.conj(), sizes, dims, _OPPOSITE[norm])


@function
def ihfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The inverse of `hfftn`."""
    input, norm = _ready("ihfftn", input, complex_allowed=False), _scaling("ihfftn", norm)
    sizes, dims = _several("ihfftn", input, s, dim)
    first, last = (sizes[:-1], dims[:-1]), (sizes[-1:], _at_least_one("ihfftn", dims)[-1:])
    half = _real_to_complex(input, *last, _OPPOSITE[norm], True).conj()
    return _complex_to_complex(half, *first, norm, True) if first[1] else half


def _at_least_one(name: str, dims: _Sizes) -> _Sizes:
    if not dims:
        raise RuntimeError(f"{name}() transforms at least one dimension, got none")
    return dims


@function
def fft2(input: Tensor, s: Any = None, dim: Any = _LAST_TWO, norm: str | None = None) -> Any:
    """`fftn` over two dimensions."""
    return fftn(input, s, dim, norm)


@function
def ifft2(input: Tensor, s: Any = None, dim: Any = _LAST_TWO, norm: str | None = None) -> Any:
    """`ifftn` over two dimensions."""
    return ifftn(input, s, dim, norm)


@function
def rfft2(input: Tensor, s: Any = None, dim: Any = _LAST_TWO, norm: str | None = None) -> Any:
    """`rfftn` over two dimensions."""
    return rfftn(input, s, dim, norm)


@function
def irfft2(input: Tensor, s: Any = None, dim: Any = _LAST_TWO, norm: str | None = None) -> Any:
    """`irfftn` over two dimensions."""
    return irfftn(input, s, dim, norm)


@function
def hfft2(input: Tensor, s: Any = None, dim: Any = _LAST_TWO, norm: str | None = None) -> Any:
    """`hfftn` over two dimensions."""
    return hfftn(input, s, dim, norm)


@function
def ihfft2(input: Tensor, s: Any = None, dim: Any = _LAST_TWO, norm: str | None = None) -> Any:
    """`ihfftn` over two dimensions."""
    return ihfftn(input, s, dim, norm)


# Frequencies and their order


def fftfreq(
    n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """The frequencies of `fft` of ``n`` points at distance ``d``, the negative ones last.

    >>> import flambeau
    >>> flambeau.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    if n < 0:
        raise RuntimeError(f"fftfreq(): n must not be negative, got {n}")
    points = [*range((n + 1) // 2), *range(-(n // 2), 0)]
    return _frequencies("fftfreq", points, n, d, out, dtype, layout, device, requires_grad)


def rfftfreq(
    n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """The frequencies of `rfft` of ``n`` points at distance ``d``."""
    points = list(range(n // 2 + 1))
    return _frequencies("rfftfreq", points, n, d, out, dtype, layout, device, requires_grad)


def _frequencies(
    name: str, points: list[int], n: int, d: float, out: Any, dtype: Any, layout: Any, device: Any,
    requires_grad: bool,
) -> Any:  # fmt: skip
    dtype = checked_dtype(name, dtype, layout)
    dtype = dtypes.get_default_dtype() if dtype is None else dtype
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name}(): the dtype must be a floating point dtype, got {dtype}")
    step = 1.0 / (n * d) if n * d else math.inf

    def build(lib: Any) -> Any:
        return (lib.asarray(points, dtype="float64") * step).astype(dtype.numpy)

    array = produce((len(points),), dtype, as_device(device), build)
    return wrap_new(name, array, requires_grad, out)


@function
def fftshift(input: Tensor, dim: Any = None) -> Any:
    """The frequencies of `fftn` rolled so that zero is in the middle, over ``dim`` or all."""
    dims = _shifted("fftshift", input, dim)
    return input.roll(tuple(input.shape[each] // 2 for each in dims), dims)


@function
def ifftshift(input: Tensor, dim: Any = None) -> Any:
    """The inverse of `fftshift`."""
    dims = _shifted("ifftshift", input, dim)
    return input.roll(tuple((input.shape[each] + 1) // 2 for each in dims), dims)


def _shifted(name: str, input: Tensor, dim: Any) -> _Sizes:
    if dim is None:
        return tuple(range(input.ndim))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(wrap_dim(each, input.ndim, name) for each in dims)
