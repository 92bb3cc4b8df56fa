"""Printing: golden texts, the options, and how much of an array is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flambeau.core.support.format import (
    format_array,
    get_printoptions,
    printoptions,
    set_printoptions,
    tensor_repr,
)

INDENT = len("tensor(")


@pytest.fixture(autouse=True)
def restored_options() -> Iterator[None]:
    with printoptions():
        yield


def printed(array: np.ndarray, **described: Any) -> str:
    facts: dict[str, Any] = {
        "dtype": f"flambeau.{array.dtype.name}",
        "default_dtype": "flambeau.float32",
    }
    return tensor_repr(array, shape=array.shape, **(facts | described))


def float32(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


GOLDEN_NUMBERS = {
    "whole floats": (float32(1, 2, -3), "tensor([ 1.,  2., -3.])"),
    "fractions": (float32(1, 2.5, -3), "tensor([ 1.0000,  2.5000, -3.0000])"),
    "ratio above 1000": (float32(0.5, 1000), "tensor([5.0000e-01, 1.0000e+03])"),
    "ratio of 1000": (float32(1.0, 1000), "tensor([   1., 1000.])"),
    "large": (float32(2e8), "tensor([2.0000e+08])"),
    "small": (float32(9e-5, 0), "tensor([9.0000e-05, 0.0000e+00])"),
    "zeros": (float32(0, -0.0), "tensor([0., -0.])"),
    "infinite and absent": (
        float32(1, np.inf, -np.inf, np.nan),
        "tensor([1., inf, -inf, nan])",
    ),
    "fractions with infinite": (
        float32(0.25, np.inf, -np.inf, np.nan),
        "tensor([0.2500,    inf,   -inf,    nan])",
    ),
    "scalar": (np.float32(3.14159).reshape(()), "tensor(3.1416)"),
    "whole scalar": (np.float32(3).reshape(()), "tensor(3.)"),
    "integers": (np.array([1, -20, 300]), "tensor([  1, -20, 300])"),
    "int32": (np.array([7], dtype=np.int32), "tensor([7], dtype=flambeau.int32)"),
    "booleans": (np.array([True, False]), "tensor([ True, False])"),
    "boolean scalar": (np.array(True), "tensor(True)"),
    "float64": (np.array([0.5]), "tensor([0.5000], dtype=flambeau.float64)"),
    "float16": (np.array([0.1], dtype=np.float16), "tensor([0.1000], dtype=flambeau.float16)"),
    "bfloat16": (
        np.array([0.1], dtype=ml_dtypes.bfloat16),
        "tensor([0.1001], dtype=flambeau.bfloat16)",
    ),
    "float8": (
        np.array([0.1, 3], dtype=ml_dtypes.float8_e4m3fn),
        "tensor([0.1016, 3.0000], dtype=flambeau.float8_e4m3fn)",
    ),
    "complex": (
        np.array([1 + 2j, -0.5 - 10j], dtype=np.complex64),
        "tensor([ 1.0000+2.j, -0.5000-10.j])",
    ),
    "complex128": (
        np.array(1.5 - 2j),
        "tensor(1.5000-2.j, dtype=flambeau.complex128)",
    ),
    "matrix": (
        np.arange(6, dtype=np.float32).reshape(2, 3) / 2,
        "tensor([[0.0000, 0.5000, 1.0000],\n        [1.5000, 2.0000, 2.5000]])",
    ),
    "three dimensions": (
        np.arange(8).reshape(2, 2, 2),
        "tensor([[[0, 1],\n         [2, 3]],\n\n        [[4, 5],\n         [6, 7]]])",
    ),
    "summary": (np.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    "summary of a matrix": (
        np.arange(4000).reshape(2, 2000),
        (
            "tensor([[   0,    1,    2,  ..., 1997, 1998, 1999],\n"
            "        [2000, 2001, 2002,  ..., 3997, 3998, 3999]])"
        ),
    ),
    "summary of rows": (
        np.zeros((2000, 2), dtype=np.float32),
        (
            "tensor([[0., 0.],\n        [0., 0.],\n        [0., 0.],\n        ...,\n"
            "        [0., 0.],\n        [0., 0.],\n        [0., 0.]])"
        ),
    ),
    "wrapped line": (
        np.arange(25),
        (
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
            "        18, 19, 20, 21, 22, 23, 24])"
        ),
    ),
    "empty": (float32(), "tensor([])"),
    "empty integers": (np.zeros(0, dtype=np.int64), "tensor([], dtype=flambeau.int64)"),
    "empty matrix": (np.zeros((2, 0), dtype=np.float32), "tensor([], size=(2, 0))"),
}


@pytest.mark.parametrize(("array", "text"), GOLDEN_NUMBERS.values(), ids=GOLDEN_NUMBERS.keys())
def test_numbers_are_printed_as_pytorch_prints_them(array: np.ndarray, text: str) -> None:
    assert printed(array) == text


GOLDEN_FACTS = {
    "requires_grad": ({"requires_grad": True}, "tensor([1.], requires_grad=True)"),
    "grad_fn hides requires_grad": (
        {"requires_grad": True, "grad_fn": "AddBackward0"},
        "tensor([1.], grad_fn=<AddBackward0>)",
    ),
    "device": ({"device": "cuda:0"}, "tensor([1.], device='cuda:0')"),
    "device, then dtype": (
        {"device": "cuda:0", "dtype": "flambeau.float16"},
        "tensor([1.], device='cuda:0', dtype=flambeau.float16)",
    ),
    "default dtype": (
        {"default_dtype": "flambeau.float64"},
        "tensor([1.], dtype=flambeau.float32)",
    ),
    "subclass": ({"class_prefix": "Ragged"}, "Ragged([1.])"),
    "parameter": (
        {"parameter": True, "requires_grad": True},
        "Parameter containing:\ntensor([1.], requires_grad=True)",
    ),
    "parameter of a subclass": (
        {"parameter": True, "class_prefix": "Ragged"},
        "Parameter containing:\nParameter(Ragged([1.]))",
    ),
}


@pytest.mark.parametrize(("facts", "text"), GOLDEN_FACTS.values(), ids=GOLDEN_FACTS.keys())
def test_what_the_numbers_do_not_tell_follows_them(facts: dict[str, Any], text: str) -> None:
    assert printed(float32(1), **facts) == text


def test_a_suffix_that_does_not_fit_goes_to_the_next_line_under_the_numbers() -> None:
    text = printed(np.full(9, 0.5, dtype=np.float32), requires_grad=True)
    assert text == ("tensor([" + ", ".join(["0.5000"] * 9) + "],\n       requires_grad=True)")


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("flambeau.float32", "tensor(..., device='meta', size=(2, 3))"),
        ("flambeau.int64", "tensor(..., device='meta', size=(2, 3), dtype=flambeau.int64)"),
    ],
)
def test_a_meta_tensor_prints_its_size_in_place_of_numbers(dtype: str, text: str) -> None:
    described = tensor_repr(
        None, shape=(2, 3), dtype=dtype, default_dtype="flambeau.float32", device="meta"
    )
    assert described == text


@pytest.mark.parametrize(
    ("default_dtype", "implied"), [("float32", "complex64"), ("float64", "complex128")]
)
def test_the_complex_dtype_of_the_default_precision_is_not_printed(
    default_dtype: str, implied: str
) -> None:
    for dtype in ("complex64", "complex128"):
        text = printed(np.array([1j], dtype=dtype), default_dtype=f"flambeau.{default_dtype}")
        assert ("dtype=" in text) == (dtype != implied)


def test_precision_sets_the_digits() -> None:
    set_printoptions(precision=2)
    assert format_array(float32(1.12345), indent=0) == "[1.12]"


@pytest.mark.parametrize(("sci_mode", "text"), [(True, "[1.0000e+00]"), (False, "[1.]")])
def test_sci_mode_overrides_the_numbers(sci_mode: bool, text: str) -> None:
    set_printoptions(sci_mode=sci_mode)
    assert format_array(float32(1), indent=0) == text


def test_sci_mode_is_set_by_every_call() -> None:
    set_printoptions(sci_mode=True)
    set_printoptions(precision=3)
    assert get_printoptions()["sci_mode"] is None


def test_without_edge_items_only_the_size_is_told() -> None:
    set_printoptions(edgeitems=0, threshold=5)
    assert printed(np.arange(6)) == "tensor([...], size=(6,))"
    assert printed(np.arange(3)) == "tensor([0, 1, 2], size=(3,))"


def test_full_profile_prints_everything() -> None:
    set_printoptions(profile="full")
    assert "..." not in format_array(np.arange(1001), indent=0)


def test_an_option_given_with_a_profile_wins() -> None:
    set_printoptions(profile="short", precision=7)
    assert get_printoptions() == {
        "precision": 7,
        "threshold": 1000,
        "edgeitems": 2,
        "linewidth": 80,
        "sci_mode": None,
    }


def test_an_unknown_profile_is_refused_and_changes_nothing() -> None:
    before = get_printoptions()
    with pytest.raises(ValueError, match=r"'brief'.*'default', 'short', 'full'"):
        set_printoptions(profile="brief", precision=9, sci_mode=True)
    assert get_printoptions() == before


def test_printoptions_restores_all_of_them_after_an_error() -> None:
    set_printoptions(precision=3, sci_mode=True)
    before = get_printoptions()
    with pytest.raises(KeyError), printoptions(profile="short"):
        assert get_printoptions()["edgeitems"] == 2
        raise KeyError
    assert get_printoptions() == before


class WatchedArray:
    """An array that counts the elements that leave it, as if it lived on a device."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape, self.taken = values, values.shape, 0

    def __getitem__(self, index: Any) -> np.ndarray:
        found = self.values[index]
        self.taken += found.size
        return found

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        self.taken += self.values.size
        return np.asarray(self.values)


@pytest.mark.parametrize(
    ("shape", "taken"), [((2000,), 6), ((50, 4, 100), 6 * 4 * 6), ((500, 500), 36)]
)
def test_a_summary_takes_only_the_edges_out_of_the_array(
    shape: tuple[int, ...], taken: int
) -> None:
    array = WatchedArray(np.zeros(shape))
    assert "..." in format_array(array, indent=0)
    assert array.taken == taken


def test_the_style_of_a_summary_is_chosen_by_what_it_shows() -> None:
    array = np.ones(2000)
    array[1000] = 1e-20
    assert format_array(array, indent=0) == "[1., 1., 1.,  ..., 1., 1., 1.]"
