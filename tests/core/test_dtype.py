"""Element types: names, limits, the default."""

import pickle

import numpy as np
import pytest

import flambeau
from flambeau.core.support.dtype import ALL_DTYPES, from_numpy_dtype


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_one_object_per_type(dtype):
    assert repr(dtype) == f"flambeau.{dtype.name}"
    assert getattr(flambeau, dtype.name) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert from_numpy_dtype(dtype.numpy) is dtype
    assert dtype.itemsize == dtype.numpy.itemsize


def test_other_names():
    assert flambeau.half is flambeau.float16
    assert flambeau.float is flambeau.float32
    assert flambeau.double is flambeau.float64
    assert flambeau.long is flambeau.int64
    assert flambeau.int is flambeau.int32
    assert flambeau.cfloat is flambeau.complex64


def test_facts():
    assert flambeau.bfloat16.is_floating_point
    assert not flambeau.bfloat16.is_complex
    assert flambeau.complex64.is_complex
    assert flambeau.int8.is_signed
    assert not flambeau.uint8.is_signed
    assert flambeau.complex128.to_real() is flambeau.float64
    assert flambeau.float32.to_complex() is flambeau.complex64
    assert flambeau.int32.to_real() is flambeau.int32


def test_arrays_without_a_tensor_type():
    with pytest.raises(TypeError, match=r"datetime64.*float32"):
        from_numpy_dtype(np.dtype("datetime64[s]"))


def test_limits():
    assert flambeau.finfo(flambeau.float32).eps == np.finfo(np.float32).eps
    assert flambeau.finfo().bits == 32
    assert flambeau.finfo(flambeau.bfloat16).max == pytest.approx(3.3895e38, rel=1e-4)
    assert flambeau.iinfo(flambeau.int8).min == -128
    assert flambeau.iinfo(flambeau.uint8).max == 255
    assert "dtype=int8" in repr(flambeau.iinfo(flambeau.int8))
    with pytest.raises(TypeError, match="iinfo"):
        flambeau.finfo(flambeau.int32)
    with pytest.raises(TypeError, match="finfo"):
        flambeau.iinfo(flambeau.float32)


def test_default_dtype_changes_what_floats_become():
    ints = flambeau.tensor([1, 2])
    assert (ints / 2).dtype is flambeau.float32
    try:
        flambeau.set_default_dtype(flambeau.float64)
        assert flambeau.tensor([1.0]).dtype is flambeau.float64
        assert flambeau.zeros(1).dtype is flambeau.float64
        assert (ints / 2).dtype is flambeau.float64
        assert (ints + 0.5).dtype is flambeau.float64
    finally:
        flambeau.set_default_dtype(flambeau.float32)
    assert (ints / 2).dtype is flambeau.float32
    with pytest.raises(TypeError, match="int32"):
        flambeau.set_default_dtype(flambeau.int32)


def test_types_without_tensors_are_named_only():
    half = flambeau.complex32
    assert isinstance(half, flambeau.dtype)
    assert pickle.loads(pickle.dumps(half)) is half is flambeau.chalf
    assert (half.itemsize, half.is_complex, half.to_real()) == (4, True, flambeau.float16)
    x = flambeau.ones(2)
    assert x.dtype != half
    for use in (
        lambda: flambeau.zeros(2, dtype=half),
        lambda: x.to(half),
        lambda: x.sum(dtype=half),
    ):
        with pytest.raises(TypeError, match=r"flambeau\.complex32: the smallest"):
            use()
    with pytest.raises(AttributeError):
        _ = half.other


@pytest.mark.parametrize("name", ["coo", "csr", "csc", "bsr", "bsc"])
def test_sparse_layouts_are_named_only(name):
    layout = getattr(flambeau, f"sparse_{name}")
    assert isinstance(layout, flambeau.layout)
    assert pickle.loads(pickle.dumps(layout)) is layout
    assert flambeau.ones(2).layout not in (layout, flambeau.jagged)
    with pytest.raises(NotImplementedError, match=f"flambeau.sparse_{name} is not possible"):
        flambeau.zeros(2, layout=layout)
