"""Spectrograms: Fourier transforms of overlapping frames of a signal, and the inverse."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import function, op
from flambeau.core.support.dtype import BOOLEAN, INTEGER
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.values import concrete_values
from flambeau.ops.neural.spatial.padding import constant_pad_nd, pad_by_rule
from flambeau.ops.shapes.views import view_as_real
from flambeau.ops.signals.fourier import fft, ifft, irfft, rfft

__all__ = ["istft", "stft"]


@function(method=True)
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """The Fourier transforms of overlapping frames of a signal.

    Args:
        input: Signals of shape ``(time,)`` or ``(batch, time)``.
        n_fft: The number of points of each transform.
        hop_length: The distance between the starts of frames; by default ``n_fft // 4``.
        win_length: The length of the window, which is centered in its frame; by default ``n_fft``.
        window: Shape ``(win_length,)``; by default ones.
        center: Pad the signal so that frame ``t`` is centered at ``t * hop_length``.
        pad_mode: The padding mode; see `nn.functional.pad`.
        normalized: Divide by ``sqrt(n_fft)``.
        onesided: Return only the first ``n_fft // 2 + 1`` frequencies; by default if the signal and
            the window are real.
        return_complex: ``False`` returns the real and the imaginary part in a last dimension.
        align_to_window: Without ``center``, align the start of the window rather than of the first
            frame with the start of the signal.

    Returns:
        ``(batch, frequencies, frames)``, without ``batch`` if the input has none.

    Raises:
        RuntimeError: Sizes do not match; `return_complex` is missing; `onesided` is set for a
            complex signal or window.

    >>> import flambeau
    >>> signal, window = flambeau.arange(8.0), flambeau.hann_window(4)
    >>> flambeau.stft(signal, n_fft=4, window=window, return_complex=True).shape
    flambeau.Size([3, 9])
    """
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    _check_signal(input, window)
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None and not is_complex:
        raise RuntimeError("stft(): return_complex must be given for real signals; use True")
    if align_to_window is not None and center:
        raise RuntimeError("stft(): align_to_window says something only where center=False")
    _check_lengths("stft", n_fft, hop_length, win_length, window)
    onesided = _onesided("stft", onesided, is_complex)
    signal = input[None] if input.ndim == 1 else input
    if center:
        signal = _padded(signal, n_fft // 2, pad_mode)
    elif align_to_window:
        before = (n_fft - win_length) // 2
        signal = constant_pad_nd(signal, (before, n_fft - win_length - before))
    if n_fft > signal.size(-1) or n_fft < 1:
        raise RuntimeError(
            f"stft(): n_fft={n_fft} must be from 1 to the length of the signal, {signal.size(-1)}"
        )
    frames = signal.unfold(-1, n_fft, hop_length)
    if window is not None:
        frames = frames * _in_frame(window, n_fft)
    transform = rfft if onesided else fft
    found = transform(frames, norm="ortho" if normalized else None).transpose(-1, -2)
    found = found[0] if input.ndim == 1 else found
    if return_complex is False:
        warn(
            "stft(return_complex=False) is deprecated; view_as_real() of the complex result is "
            "the same",
        )
        return view_as_real(found)
    return found


@function(method=True)
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """The signal whose `stft` is closest to the given one (D. Griffin and J. Lim, 1984).

    Args:
        input: Complex, ``(frequencies, frames)`` or ``(batch, frequencies, frames)``.
        n_fft: See `stft`, like all arguments of the same name.
        length: The length of the signal; by default that of the frames.
        return_complex: Whether the signal is complex.

    Returns:
        ``(time,)`` or ``(batch, time)``.

    Raises:
        RuntimeError: Sizes do not match, or the windows leave a part of the signal uncovered.
    """
    if not input.is_complex():
        raise RuntimeError(f"istft() takes the complex result of stft(), got {input.dtype}")
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if input.ndim not in (2, 3) or not input.numel():
        raise RuntimeError(
            "istft() takes (frequencies, frames) with or without a batch before it, got shape "
            f"{list(input.shape)}"
        )
    _check_lengths("istft", n_fft, hop_length, win_length, window)
    if hop_length > win_length:
        raise RuntimeError(
            f"istft(): hop_length={hop_length} leaves gaps between windows of {win_length}"
        )
    window_is_complex = window is not None and window.is_complex()
    expected = n_fft // 2 + 1
    if onesided is None:
        onesided = input.size(-2) != n_fft
    expected = expected if onesided else n_fft
    if input.size(-2) != expected:
        raise RuntimeError(
            f"istft(): {input.size(-2)} frequencies, but n_fft={n_fft} with onesided={onesided} "
            f"has {expected}"
        )
    _onesided("istft", onesided, return_complex or window_is_complex)
    spectra = (input[None] if input.ndim == 2 else input).transpose(-1, -2)
    norm = "ortho" if normalized else None
    if onesided:
        frames = irfft(spectra, n_fft, norm=norm)
    else:
        frames = ifft(spectra, norm=norm)
        frames = frames if return_complex else frames.real
    weights = _in_frame(frames.new_ones(win_length) if window is None else window, n_fft)
    signal = _overlap_add(frames * weights, hop_length)
    covered = _overlap_add((weights * weights).expand(frames.size(1), n_fft)[None], hop_length)
    signal, covered = _trimmed(signal, covered, n_fft // 2 if center else 0, length)
    known = concrete_values(covered)
    if known is not None and known.size and abs(known).min() < 1e-11:
        raise RuntimeError("istft(): the windows leave a part of the signal uncovered")
    signal = signal / covered
    missing = 0 if length is None else length - signal.size(-1)
    if missing > 0:
        signal = constant_pad_nd(signal, (0, missing))
    return signal[0] if input.ndim == 2 else signal


def _trimmed(signal: Tensor, covered: Tensor, start: int, length: int | None) -> tuple[Any, Any]:
    """The part of the signal that is not padding, of at most ``length``."""
    end = signal.size(-1) - start if length is None else start + length
    return signal[..., start:end], covered[..., start:end]


def _check_signal(input: Any, window: Any) -> None:
    if input.dtype.category in (BOOLEAN, INTEGER):
        raise RuntimeError(f"stft() takes floating point or complex signals, got {input.dtype}")
    if input.ndim not in (1, 2):
        raise RuntimeError(
            f"stft() takes (time,) or (batch, time), got a tensor of shape {list(input.shape)}"
        )
    if window is None:
        warn(
            "stft() without a window leaks between frequencies; pass one such as hann_window(n)",
        )


def _check_lengths(name: str, n_fft: int, hop_length: int, win_length: int, window: Any) -> None:
    if hop_length < 1:
        raise RuntimeError(f"{name}(): hop_length must be positive, got {hop_length}")
    if not 0 < win_length <= n_fft:
        raise RuntimeError(f"{name}(): win_length={win_length} must be from 1 to n_fft={n_fft}")
    if window is not None and tuple(window.shape) != (win_length,):
        raise RuntimeError(
            f"{name}(): the window must have shape [{win_length}], got {list(window.shape)}"
        )


def _onesided(name: str, onesided: bool | None, is_complex: bool) -> bool:
    if onesided and is_complex:
        raise RuntimeError(f"{name}(): onesided=True needs a real signal and a real window")
    return not is_complex if onesided is None else onesided


def _padded(signal: Tensor, count: int, mode: str) -> Any:
    if mode == "constant":
        return constant_pad_nd(signal, (count, count))
    return pad_by_rule(signal, (count, count), mode)


def _in_frame(window: Tensor, n_fft: int) -> Any:
    """The window centered in ``n_fft`` samples."""
    before = (n_fft - window.size(0)) // 2
    behind = n_fft - window.size(0) - before
    return constant_pad_nd(window, (before, behind)) if before or behind else window


@op(linear=True, node="UnfoldBackwardBackward0")
def _overlap_add(input: Array, hop_length: int) -> Array:
    """The sum of frames ``(..., frames, samples)`` that start ``hop_length`` apart."""
    count, size = input.shape[-2:]
    places = hop_length * jnp.arange(count)[:, None] + jnp.arange(size)
    total = hop_length * (count - 1) + size
    return jnp.zeros((*input.shape[:-2], total), input.dtype).at[..., places].add(input)
