"""`make_tensor`: which elements, and what is refused."""

import pytest

import flambeau
from flambeau.testing import make_tensor


def made(*shape, dtype="float32", **options):
    return make_tensor(*shape, dtype=getattr(flambeau, dtype), device="cpu", **options)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("bool", 0, 2), ("uint8", 0, 10), ("int16", -9, 10), ("uint64", 0, 10), ("float16", -9, 9),
        ("bfloat16", -9, 9), ("float64", -9, 9), ("complex64", -9, 9), ("float8_e5m2", -9, 9),
    ],
)  # fmt: skip
def test_elements_are_in_the_usual_range(dtype, low, high):
    tensor = made(3, 40, dtype=dtype)
    assert (tensor.shape, tensor.dtype) == ((3, 40), getattr(flambeau, dtype))
    values = flambeau.view_as_real(tensor) if tensor.is_complex() else tensor.double()
    assert low <= values.min() < (low + high) / 2 <= values.max() < high


def test_the_shape_is_integers_or_one_sequence():
    for shape in [(2, 3), ((2, 3),), ([2, 3],), (flambeau.Size([2, 3]),)]:
        assert made(*shape).shape == (2, 3)
    assert made().shape == made(()).shape == ()
    assert made(2).shape == (2,)


def test_bounds_are_rounded_up_for_integers_and_kept_in_the_range_of_the_dtype():
    assert set(made(100, dtype="int8", low=-1.5, high=0.5).tolist()) == {-1, 0}
    assert set(made(100, dtype="uint8", low=-300, high=2).tolist()) == {0, 1}
    assert made(100, low=0, high=float("inf"), dtype="float16").isfinite().all()
    wide = made(100, low=-float("inf"), high=float("inf"))
    assert wide.isfinite().all()
    assert wide.min() < -1e37
    assert wide.max() > 1e37


def test_zeros_are_excluded():
    assert set(made(20, dtype="bool", exclude_zero=True).tolist()) == {True}
    assert set(made(100, dtype="int8", low=0, high=2, exclude_zero=True).tolist()) == {1}
    tiny = flambeau.finfo(flambeau.float32).tiny
    drawn = made(4, low=0, high=1e-45, exclude_zero=True)
    assert drawn.tolist() == [tiny] * 4
    drawn = made(1, low=0, high=1e-45, exclude_zero=True, dtype="complex64")
    assert drawn.item() == complex(tiny, tiny)


def test_noncontiguous_is_every_second_element():
    flambeau.manual_seed(3)
    wide = made(2, 6)
    flambeau.manual_seed(3)
    assert made(2, 3, noncontiguous=True).tolist() == wide[:, 1::2].tolist()
    assert made(1, noncontiguous=True).shape == (1,)


def test_a_result_that_requires_grad_is_a_leaf():
    for noncontiguous in (False, True):
        tensor = made(2, 3, requires_grad=True, noncontiguous=noncontiguous)
        tensor.sum().backward()
        assert tensor.is_leaf
        assert tensor.grad.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": 1, "high": 1}, "low must be below high, got 1 and 1; flambeau.full"),
        ({"low": float("nan")}, "got nan and 9"),
        ({"dtype": "uint8", "low": -5, "high": -2}, "from 0 to 256, are from -5 to -2"),
        ({"dtype": "int8", "requires_grad": True}, "a tensor of flambeau.int8 cannot require grad"),
        (
            {"noncontiguous": True, "memory_format": flambeau.contiguous_format},
            "noncontiguous or memory_format, not both",
        ),
    ],
)
def test_what_cannot_be_made_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        made(2, **options)


def test_a_dtype_is_needed():
    with pytest.raises(TypeError, match="dtype must be a flambeau dtype, got 'float32'"):
        make_tensor(2, dtype="float32", device="cpu")
