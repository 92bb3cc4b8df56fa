"""``tensor_repr`` against ``repr`` of the same tensor in PyTorch, character by character."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies
from torch._tensor_str import get_printoptions as torch_get_printoptions
from torch._tensor_str import printoptions as torch_printoptions

from flambeau.core.support.format import (
    get_printoptions,
    printoptions,
    set_printoptions,
    tensor_repr,
)

# NumPy reads these through the bits of an integer, since PyTorch hands them over no other way.
EXTENDED = {
    torch.bfloat16: (np.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (np.int8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (np.int8, ml_dtypes.float8_e5m2),
}
FLOATING = [torch.float64, torch.float32, torch.float16, *EXTENDED]
INTEGER = [
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
]
COMPLEX = [torch.complex64, torch.complex128]


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach()
    if tensor.dtype not in EXTENDED:
        return tensor.resolve_conj().resolve_neg().numpy()
    bits, dtype = EXTENDED[tensor.dtype]
    return tensor.view(getattr(torch, np.dtype(bits).name)).numpy().view(dtype)


def ours(tensor: torch.Tensor) -> str:
    subclass = type(tensor) not in (torch.Tensor, torch.nn.Parameter)
    return tensor_repr(
        None if tensor.is_meta else to_numpy(tensor),
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype),
        default_dtype=str(torch.get_default_dtype()),
        device=None if tensor.device.type == "cpu" else str(tensor.device),
        grad_fn=None if tensor.grad_fn is None else type(tensor.grad_fn).__name__,
        requires_grad=tensor.requires_grad,
        parameter=isinstance(tensor, torch.nn.Parameter),
        class_prefix=type(tensor).__name__ if subclass else "tensor",
    )


@contextlib.contextmanager
def options_of_both(**options: Any) -> Iterator[None]:
    with printoptions(**options), torch_printoptions(**options):
        yield


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


SHAPES = [
    *((), (1,), (7,), (40,), (1000,), (1001,)),
    *((3, 4), (1, 30), (30, 1), (40, 41), (2, 3, 4), (1, 1, 1, 1), (9, 2, 70), (5, 7, 6, 8)),
    *((2, 1, 3, 1, 2), (2, 600), (600, 2), (7, 200), (6, 200)),
    *((0,), (0, 3), (2, 0), (3, 0, 2)),
]

SCALES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "normal": lambda x: x,
    "whole": lambda x: (x * 5).round(),
    "large": lambda x: x * 1e9,
    "small": lambda x: x * 1e-6,
    "wide": lambda x: (x * 6).exp(),
    "positive": lambda x: x.abs() + 0.5,
    "zeros": lambda x: x * 0,
    "with infinite": lambda x: torch.where(x > 1, torch.inf * x.sign(), x),
    "whole with absent": lambda x: torch.where(x > 1, torch.nan, (x * 3).round()),
    "only absent": lambda x: x * torch.nan,
}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_floating_point(dtype: torch.dtype, scale: str) -> None:
    draws = torch.Generator().manual_seed(len(scale))
    for shape in SHAPES:
        tensor = SCALES[scale](torch.randn(shape, generator=draws)).to(dtype)
        assert ours(tensor) == repr(tensor), shape


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex(dtype: torch.dtype, scale: str) -> None:
    draws = torch.Generator().manual_seed(len(scale))
    for shape in SHAPES:
        real = torch.randn(shape, generator=draws)
        imaginary = SCALES[scale](torch.randn(shape, generator=draws))
        for tensor in (torch.complex(real, imaginary), torch.complex(imaginary, real)):
            assert ours(tensor.to(dtype)) == repr(tensor.to(dtype)), shape


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGER], ids=str)
def test_exact(dtype: torch.dtype) -> None:
    draws = torch.Generator().manual_seed(1)
    for shape in SHAPES:
        for high in (2, 100, 2**31):
            tensor = torch.randint(-high, high, shape, generator=draws).to(dtype)
            assert ours(tensor) == repr(tensor), (shape, high)


OPTIONS = [
    {"precision": 0},
    {"precision": 8},
    {"precision": 2, "sci_mode": True},
    {"sci_mode": False},
    {"edgeitems": 0},
    {"edgeitems": 0, "threshold": 2},
    {"edgeitems": 1, "threshold": 5},
    {"edgeitems": 10, "threshold": 50},
    {"threshold": 0},
    {"linewidth": 20},
    {"linewidth": 5},
    {"linewidth": 200},
    {"profile": "short"},
    {"profile": "full"},
    {"profile": "full", "precision": 1},
    {"profile": "default", "linewidth": 60},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options: dict[str, Any]) -> None:
    draws = torch.Generator().manual_seed(2)
    with options_of_both(**options):
        for shape in SHAPES:
            real = torch.randn(shape, generator=draws, requires_grad=True)
            for tensor in (real, real.round(), real * 1e-7, real.to(torch.complex64), real > 0):
                assert ours(tensor) == repr(tensor), shape


def test_option_state_follows_pytorchs_through_any_sequence_of_calls() -> None:
    with options_of_both():
        for options in OPTIONS:
            torch.set_printoptions(**options)
            set_printoptions(**options)
            assert get_printoptions() == torch_get_printoptions()


class Ragged(torch.Tensor):
    """A subclass, which prints under its own name."""


class Weight(torch.nn.Parameter):
    """A parameter class of one's own."""


def leaf(*shape: int) -> torch.Tensor:
    return torch.arange(float(np.prod(shape))).reshape(shape).requires_grad_()


FACTS: dict[str, Callable[[], torch.Tensor]] = {
    "requires_grad": lambda: leaf(3),
    "grad_fn": lambda: leaf(3) + 1,
    "grad_fn of a matrix": lambda: leaf(2, 3) @ leaf(3, 2),
    "grad_fn of a summary": lambda: leaf(40, 40).exp(),
    "grad_fn and dtype": lambda: leaf(3).double() / 3,
    "long grad_fn": lambda: torch.nn.functional.layer_norm(leaf(9), (9,)),
    "scalar": lambda: leaf(4).sum(),
    "meta": lambda: torch.empty(2, 3, device="meta"),
    "meta integers": lambda: torch.empty(2, 3, device="meta", dtype=torch.int64),
    "meta complex": lambda: torch.empty(2, 3, device="meta", dtype=torch.complex64),
    "meta scalar": lambda: torch.empty((), device="meta", requires_grad=True),
    "meta without elements": lambda: torch.empty(0, 3, device="meta", dtype=torch.float16),
    "parameter": lambda: torch.nn.Parameter(leaf(2, 2).detach()),
    "frozen parameter": lambda: torch.nn.Parameter(leaf(2).detach(), requires_grad=False),
    "meta parameter": lambda: torch.nn.Parameter(torch.empty(5, device="meta")),
    "parameter class": lambda: Weight(torch.ones(2)),
    "subclass": lambda: torch.ones(2, 30).as_subclass(Ragged),
    "empty with grad": lambda: torch.empty(2, 0, requires_grad=True),
    "conjugate": lambda: torch.tensor([1 + 2j, 3 - 4j]).conj(),
    "not contiguous": lambda: torch.arange(12).reshape(3, 4).T,
}


@pytest.mark.parametrize("default", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("make", FACTS.values(), ids=FACTS.keys())
def test_what_follows_the_numbers(make: Callable[[], torch.Tensor], default: torch.dtype) -> None:
    tensor = make()
    with default_dtype(default):
        assert ours(tensor) == repr(tensor)


def test_suffixes_break_lines_at_the_same_column() -> None:
    for length in range(1, 90):
        with options_of_both(linewidth=length, precision=length % 3):
            tensor = leaf(3) / 7 + 1
            assert ours(tensor) == repr(tensor), length


NUMPY_DTYPES = [
    *(np.float16, np.float32, np.float64, np.complex64, np.complex128),
    *(np.bool_, np.int8, np.int64, np.uint8),
]

any_array = st.sampled_from(NUMPY_DTYPES).flatmap(
    lambda dtype: numpy_strategies.arrays(
        dtype, numpy_strategies.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
    )
)
any_options = st.fixed_dictionaries(
    {
        "precision": st.integers(0, 10),
        "threshold": st.integers(0, 60),
        "edgeitems": st.integers(0, 4),
        "linewidth": st.integers(1, 120),
        "sci_mode": st.sampled_from([None, True, False]),
    }
)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(any_array, any_options)
def test_any_array_under_any_options(array: np.ndarray, options: dict[str, Any]) -> None:
    tensor = torch.from_numpy(array)
    with options_of_both(**options):
        assert ours(tensor) == repr(tensor)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    numpy_strategies.arrays(np.uint16, numpy_strategies.array_shapes(max_dims=2)),
    st.sampled_from([torch.bfloat16, torch.float16]),
)
def test_any_bits_of_a_half_precision_number(bits: np.ndarray, dtype: torch.dtype) -> None:
    tensor = torch.from_numpy(bits.view(np.int16)).view(dtype)
    assert ours(tensor) == repr(tensor)
