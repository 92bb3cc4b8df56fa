"""Fourier transforms, spectrograms and windows against PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import flambeau
from tests.conformance.operators import Row, compare, table
from tests.conformance.test_pointwise_ops import call

RANDOM = np.random.default_rng(0)
REAL = RANDOM.standard_normal((3, 4)).astype(np.float32)
COMPLEX = (REAL + 1j * RANDOM.standard_normal((3, 4))).astype(np.complex64)
DEEP = RANDOM.standard_normal((2, 3, 2, 2)).astype(np.float32)
SIGNAL = RANDOM.standard_normal((2, 16)).astype(np.float32)
SPECTRUM = (RANDOM.standard_normal((2, 5, 6)) + 1j * RANDOM.standard_normal((2, 5, 6))).astype(
    np.complex64
)
WHOLE = np.arange(12).reshape(3, 4)

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
TWO = ["fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2"]
SEVERAL = ["fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn"]


def fft(name: str, *args: Any, **options: Any) -> Any:
    return lambda lib, *tensors: getattr(lib.fft, name)(*tensors, *args, **options)


def transforms() -> Iterator[Row]:
    for name in (*ONE, *TWO, *SEVERAL):
        for kind, input in {"real": REAL, "complex": COMPLEX}.items():
            yield Row(f"{name} of {kind} numbers", fft(name), (input,), 2e-5)
            yield Row(f"{name} of {kind} numbers, ortho", fft(name, norm="ortho"), (input,), 2e-5)
        yield Row(f"{name}, forward", fft(name, norm="forward"), (REAL,), 2e-5)
        yield Row(f"{name} of integers", fft(name), (WHOLE,), 2e-5)
        yield Row(f"{name} of float16", fft(name), (REAL.astype(np.float16),))
        yield Row(f"{name}, unknown norm", fft(name, norm="none"), (REAL,))
    for name in ONE:
        # Padding and cutting are nodes of their own in PyTorch, before this one.
        yield Row(f"{name} of fewer points", fft(name, 3), (REAL,), 2e-5)
        yield Row(f"{name} of more points", fft(name, 7), (REAL,), 2e-5)
        yield Row(f"{name} along dim 0", fft(name, dim=0), (REAL,), 2e-5)
        yield Row(f"{name} of no points", fft(name, 0), (REAL,))
        yield Row(f"{name} along no dimension", fft(name, dim=2), (REAL,))
    for name in (*TWO, *SEVERAL):
        yield Row(f"{name} with sizes", fft(name, (2, -1)), (REAL,), 2e-5)
        yield Row(f"{name} with dims", fft(name, dim=(1, 0)), (REAL,), 2e-5)
        yield Row(f"{name} of one dimension twice", fft(name, dim=(0, 0)), (REAL,))
    for name in SEVERAL:
        yield Row(f"{name} of four dimensions", fft(name), (DEEP,), 2e-5)
        yield Row(f"{name} of the last dimensions", fft(name, (5,)), (REAL,), 2e-5)
    for name in ("fftshift", "ifftshift"):
        yield Row(name, fft(name), (REAL,))
        yield Row(f"{name} along dim 1", fft(name, 1), (REAL,))


@table(transforms())
def test_transforms(row: Row) -> None:
    compare(row)


@pytest.mark.parametrize("n", [1, 4, 5])
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name: str, n: int) -> None:
    theirs, ours = getattr(torch.fft, name)(n, 0.5), getattr(flambeau.fft, name)(n, 0.5)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def spectrograms() -> Iterator[Row]:
    def stft(**options: Any) -> Any:
        def compute(lib: Any, signal: Any) -> Any:
            window = lib.hann_window(options.get("win_length", 8))
            return lib.stft(signal, 8, **{"window": window, "return_complex": True, **options})

        return compute

    cases: dict[str, dict[str, Any]] = {
        "as it is": {}, "hop": {"hop_length": 3}, "short window": {"win_length": 5},
        "not centered": {"center": False}, "normalized": {"normalized": True},
        "two-sided": {"onesided": False}, "parts": {"return_complex": False},
        "constant padding": {"pad_mode": "constant"}, "no window": {"window": None},
        "aligned": {"win_length": 5, "center": False, "align_to_window": True},
        "aligned and centered": {"align_to_window": True}, "no hop": {"hop_length": 0},
        "long window": {"win_length": 9}, "undecided": {"return_complex": None},
    }  # fmt: skip
    for name, options in cases.items():
        # PyTorch's last node is that of a transposition of its own.
        yield Row(name, stft(**options), (SIGNAL,), 2e-5, node=False)
    yield Row("one signal", stft(), (SIGNAL[0],), 2e-5, node=False)
    yield Row("complex signal", stft(), (SIGNAL.astype(np.complex64),), 2e-5, node=False)
    yield Row("integers", stft(), (WHOLE,))
    yield Row("too short", stft(), (SIGNAL[:, :3],))


@table(spectrograms())
def test_spectrograms(row: Row) -> None:
    compare(row)


def signals() -> Iterator[Row]:
    def istft(**options: Any) -> Any:
        def compute(lib: Any, spectrum: Any) -> Any:
            window = lib.hamming_window(options.get("win_length", 8))
            return lib.istft(spectrum, 8, **{"window": window, **options})

        return compute

    cases: dict[str, dict[str, Any]] = {
        "as it is": {}, "hop": {"hop_length": 3}, "not centered": {"center": False},
        "normalized": {"normalized": True}, "shorter": {"length": 7}, "longer": {"length": 30},
        "no window": {"window": None}, "wide hop": {"hop_length": 9},
        "complex": {"return_complex": True}, "wrong side": {"onesided": False},
        "short window": {"win_length": 6},
    }  # fmt: skip
    for name, options in cases.items():
        yield Row(name, istft(**options), (SPECTRUM,), 2e-5, node=False)
    yield Row("one spectrum", istft(), (SPECTRUM[0],), 2e-5, node=False)
    yield Row("real spectrum", istft(), (SPECTRUM.real,))
    yield Row("gaps", lambda lib, x: lib.istft(x, 8, window=lib.zeros(8)), (SPECTRUM,))


@table(signals())
def test_signals_from_spectrograms(row: Row) -> None:
    compare(row)


def test_a_spectrogram_gives_its_signal_back() -> None:
    signal, window = flambeau.tensor(SIGNAL), flambeau.hann_window(8)
    found = flambeau.istft(flambeau.stft(signal, 8, window=window, return_complex=True), 8,
                           window=window, length=16)  # fmt: skip
    np.testing.assert_allclose(found.numpy(), SIGNAL, atol=1e-5)


def windows() -> Iterator[Row]:
    for name in ("bartlett", "blackman", "hamming", "hann", "kaiser"):
        for length in (0, 1, 4, 7):
            for periodic in (True, False):
                title = f"{name} of {length}, {'periodic' if periodic else 'symmetric'}"
                yield Row(title, call(f"{name}_window", length, periodic), (), 1e-6, gradient=False)
        yield Row(f"{name} of integers", lambda lib, name=name: getattr(lib, f"{name}_window")(
            5, dtype=lib.int64), (), gradient=False)  # fmt: skip
        yield Row(f"{name} of float64", lambda lib, name=name: getattr(lib, f"{name}_window")(
            5, dtype=lib.float64), (), 1e-9, gradient=False)  # fmt: skip
        yield Row(f"{name} of negative length", call(f"{name}_window", -1), (), gradient=False)
    yield Row(
        "hamming with weights", call("hamming_window", 6, True, 0.6, 0.3), (), 1e-6, gradient=False
    )
    yield Row("kaiser with beta", call("kaiser_window", 6, True, 3.0), (), 1e-6, gradient=False)


@table(windows())
def test_windows(row: Row) -> None:
    compare(row)


def signal_windows() -> Iterator[Row]:
    arguments: dict[str, dict[str, Any]] = {
        "bartlett": {}, "blackman": {}, "cosine": {}, "exponential": {"tau": 2.0},
        "gaussian": {"std": 1.5}, "general_cosine": {"a": [0.4, 0.3, 0.2]},
        "general_hamming": {"alpha": 0.7}, "hamming": {}, "hann": {}, "kaiser": {"beta": 5.0},
        "nuttall": {},
    }  # fmt: skip

    def window(name: str, *args: Any, **options: Any) -> Any:
        return lambda lib: getattr(lib.signal.windows, name)(*args, **options)

    for name, options in arguments.items():
        for sym in (True, False):
            for length in (1, 6):
                compute = window(name, length, sym=sym, **options)
                yield Row(f"{name} of {length}, {sym}", compute, (), 1e-6, gradient=False)
        yield Row(f"{name} of none", window(name, 0, **options), (), gradient=False)
        yield Row(f"{name} of fewer", window(name, -1, **options), (), gradient=False)
    yield Row("exponential, off center", window("exponential", 5, center=1.0, sym=False), (), 1e-6,
              gradient=False)  # fmt: skip
    yield Row("exponential, two centers", window("exponential", 5, center=1.0), (), gradient=False)
    yield Row("gaussian of no width", window("gaussian", 5, std=0.0), (), gradient=False)
    yield Row("kaiser, negative", window("kaiser", 5, beta=-1.0), (), gradient=False)
    yield Row("no weights", window("general_cosine", 5, a=[]), (), gradient=False)
    yield Row("unknown option", window("hann", 5, width=3), (), gradient=False)


@table(signal_windows())
def test_signal_windows(row: Row) -> None:
    compare(row)
