"""``float``, ``int``, ``bool`` and ``complex`` are dtypes wherever PyTorch takes them for some."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import flambeau

Call = Callable[[Any, Any], Any]


def vector(lib: Any) -> Any:
    return lib.ones(4, dtype=lib.float64)


CALLS: dict[str, Call] = {
    "zeros": lambda lib, kind: lib.zeros(2, dtype=kind),
    "ones_like": lambda lib, kind: lib.ones_like(vector(lib), dtype=kind),
    "full": lambda lib, kind: lib.full((2,), 1, dtype=kind),
    "eye": lambda lib, kind: lib.eye(2, dtype=kind),
    "empty_strided": lambda lib, kind: lib.empty_strided((1,), (1,), dtype=kind),
    "arange": lambda lib, kind: lib.arange(3, dtype=kind),
    "linspace": lambda lib, kind: lib.linspace(0, 1, 3, dtype=kind),
    "tril_indices": lambda lib, kind: lib.tril_indices(2, 2, dtype=kind),
    "tensor": lambda lib, kind: lib.tensor(1, dtype=kind),
    "as_tensor": lambda lib, kind: lib.as_tensor([1], dtype=kind),
    "asarray": lambda lib, kind: lib.asarray([1], dtype=kind),
    "scalar_tensor": lambda lib, kind: lib.scalar_tensor(1, dtype=kind),
    "frombuffer": lambda lib, kind: lib.frombuffer(bytearray(16), dtype=kind),
    "rand": lambda lib, kind: lib.rand(2, dtype=kind),
    "randn_like": lambda lib, kind: lib.randn_like(vector(lib), dtype=kind),
    "randint": lambda lib, kind: lib.randint(2, (2,), dtype=kind),
    "randperm": lambda lib, kind: lib.randperm(3, dtype=kind),
    "new_zeros": lambda lib, kind: vector(lib).new_zeros(2, dtype=kind),
    "new_tensor": lambda lib, kind: vector(lib).new_tensor([1], dtype=kind),
    "new_full": lambda lib, kind: vector(lib).new_full((2,), 1, dtype=kind),
    "hann_window": lambda lib, kind: lib.hann_window(3, dtype=kind),
    "fftfreq": lambda lib, kind: lib.fft.fftfreq(3, dtype=kind),
    "to": lambda lib, kind: vector(lib).to(kind),
    "to a device": lambda lib, kind: vector(lib).to("cpu", kind),
    "to, by name": lambda lib, kind: vector(lib).to(dtype=kind),
    "view": lambda lib, kind: vector(lib).view(kind),
    "view, by name": lambda lib, kind: vector(lib).view(dtype=kind),
    "sum": lambda lib, kind: vector(lib).sum(dtype=kind),
    "prod": lambda lib, kind: lib.prod(vector(lib), 0, dtype=kind),
    "mean": lambda lib, kind: vector(lib).mean(dtype=kind),
    "cumsum": lambda lib, kind: vector(lib).cumsum(0, dtype=kind),
    "softmax": lambda lib, kind: lib.softmax(vector(lib), 0, dtype=kind),
    "vector_norm": lambda lib, kind: lib.linalg.vector_norm(vector(lib), dtype=kind),
    "finfo": lambda lib, kind: lib.finfo(kind),
    "iinfo": lambda lib, kind: lib.iinfo(kind),
    "promote_types": lambda lib, kind: lib.promote_types(kind, lib.float32),
    "can_cast": lambda lib, kind: lib.can_cast(kind, lib.int32),
    "set_default_dtype": lambda lib, kind: lib.set_default_dtype(kind),
    "Linear": lambda lib, kind: lib.nn.Linear(1, 1, dtype=kind).weight,
    "BatchNorm1d": lambda lib, kind: lib.nn.BatchNorm1d(1, dtype=kind).running_mean,
    "LazyLinear": lambda lib, kind: lib.nn.LazyLinear(2, dtype=kind).weight,
    "Module.to": lambda lib, kind: lib.nn.Linear(1, 1).to(kind).weight,
    "Module.to, by name": lambda lib, kind: lib.nn.Linear(1, 1).to(dtype=kind).weight,
}


def outcome(call: Call, lib: Any, kind: type) -> str:
    """The dtype of the result, the result itself, or that there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = call(lib, kind)
    except (TypeError, RuntimeError) as error:
        return "refused, as a type" if type(error) is TypeError else "refused"
    return str(getattr(found, "dtype", found)).rpartition(".")[2]


@pytest.mark.parametrize("kind", [float, int, bool, complex, str])
@pytest.mark.parametrize("name", CALLS)
def test_a_type_of_python_is_the_dtype_that_it_is_in_pytorch(name: str, kind: type) -> None:
    assert outcome(CALLS[name], flambeau, kind) == outcome(CALLS[name], torch, kind)
