"""Where reshaping and making contiguous copy: exactly where PyTorch's strides make them copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau.core.values.strides import contiguous_strides, reshaped_strides


def shares(view: Any, base: Any) -> bool:
    view.copy_(view + 1)
    return bool((base != 0).any())


SHARING = {
    "a view": lambda x: x.view(6, 4),
    "a slice of rows": lambda x: x[1:].reshape(-1),
    "a slice of columns split": lambda x: x[:, 1:].reshape(2, 2, 2, 2),
    "a transposed view with its dimensions split": lambda x: x.transpose(0, 2).reshape(2, 2, 3, 2),
    "a transposed view of a single row": lambda x: x[:1].transpose(0, 1).reshape(-1),
    "a diagonal": lambda x: x.diagonal(0, 0, 1).t().reshape(2, 2, 2),
    "a contiguous view": lambda x: x[1].contiguous(),
    "a transposed view turned back": lambda x: x.transpose(0, 2).transpose(0, 2).contiguous(),
    "flattened": lambda x: x[0].flatten(),
}
COPYING = {
    "a transposed view": lambda x: x.transpose(0, 2).reshape(-1),
    "a slice of columns": lambda x: x[:, 1:].reshape(-1),
    "a stepping slice": lambda x: x.transpose(1, 2)[..., ::2].reshape(-1),
    "a contiguous transposed view": lambda x: x.transpose(1, 2).contiguous(),
    "flattened": lambda x: x.transpose(1, 2).flatten(),
    "an expanded view": lambda x: x[..., :1].expand(2, 3, 4).reshape(-1),
    "a raveled slice": lambda x: x[:, 1:].ravel(),
}


@pytest.mark.parametrize("name", SHARING)
def test_shares_elements(name: str) -> None:
    x = flambeau.zeros(2, 3, 4)
    assert shares(SHARING[name](x), x)


@pytest.mark.parametrize("name", COPYING)
def test_copies(name: str) -> None:
    x = flambeau.zeros(2, 3, 4)
    assert not shares(COPYING[name](x), x)


SHAPES = [(2, 3, 4), (6, 4), (24,), (2, 12), (4, 6), (3, 8), (1, 24, 1), (2, 2, 6), (4, 3, 2)]


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 0, 2), (0, 2, 1), (2, 1, 0)])
@pytest.mark.parametrize("to", SHAPES)
def test_strides_of_a_reshaped_array_are_numpys(axes: tuple[int, ...], to: tuple[int, ...]) -> None:
    array = np.zeros((2, 3, 4), np.int8).transpose(axes)
    found = reshaped_strides(array.shape, array.strides, to)
    reshaped = array.reshape(to)
    assert (found is not None) == np.shares_memory(array, reshaped)
    if found is not None:
        # What a dimension of size 1 has for a stride means nothing.
        wanted = [s if n > 1 else 0 for s, n in zip(reshaped.strides, to, strict=True)]
        assert [s if n > 1 else 0 for s, n in zip(found, to, strict=True)] == wanted


def test_strides_of_contiguous_elements() -> None:
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)
    assert contiguous_strides((2, 0, 4)) == (4, 4, 1)
    assert contiguous_strides(()) == ()
    assert reshaped_strides((0, 3), (3, 1), (5, 0)) == (1, 1)
