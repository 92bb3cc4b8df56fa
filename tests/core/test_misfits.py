"""The argument of a wrong type is what a failed function blames."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau
from flambeau import Tensor
from flambeau.core.operators.misfits import misfit, require_tensors

X = flambeau.tensor([1.0, 2.0])


def declared(input: Tensor, dim: int = 0, *others: Tensor, word: str = "") -> Any:
    """Has parameters of several kinds."""


@pytest.mark.parametrize(
    ("args", "kwargs", "blamed"),
    [
        ((X, 1, X), {"word": "a"}, None),
        ((None,), {}, r"input must be a Tensor, got NoneType: None"),
        ((X, 1.5), {}, r"dim must be an int, got float: 1\.5"),
        ((X, 1, X, "a"), {}, r"others must be a Tensor, got str: 'a'"),
        ((X,), {"word": 3}, r"word must be a str, got int: 3"),
    ],
)
def test_the_first_argument_of_a_wrong_type_is_named(
    args: tuple[Any, ...], kwargs: dict[str, Any], blamed: str | None
) -> None:
    found = misfit(declared, args, kwargs)
    if blamed is None:
        assert found is None
    else:
        with pytest.raises(TypeError, match=blamed):
            raise found or AssertionError


def test_arrays_of_jax_count_as_tensors() -> None:
    require_tensors("f", input=X.jax())
    with pytest.raises(TypeError, match=r"f\(\): input must be a Tensor, got ndarray"):
        require_tensors("f", input=X.numpy())


def test_a_failed_function_blames_a_type_before_anything_else() -> None:
    with pytest.raises(TypeError, match="index must be a Tensor, got list"):
        flambeau.index_select(X, 7, [0])
    with pytest.raises(IndexError, match="but got 7"):
        flambeau.index_select(X, 7, flambeau.tensor([0]))
