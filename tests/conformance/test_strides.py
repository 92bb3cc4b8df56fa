"""Strides, offsets and contiguity of random chains of views, compared with PyTorch."""

from __future__ import annotations

import random
from typing import Any

import pytest

import flambeau

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")


def _step(draw: random.Random, shape: tuple[int, ...]) -> Any:
    """A random view that a tensor of this shape has, as a function of either library's tensor."""
    dims = len(shape)
    if dims < 2 or 0 in shape or draw.random() < 0.1:
        return lambda x: x.unsqueeze(0)
    first, second = draw.sample(range(dims), 2)
    size = shape[first]
    order = draw.sample(range(dims), dims)
    cut = draw.randrange(size)
    choices = [
        lambda x: x.transpose(first, second),
        lambda x: x.permute(order),
        lambda x: x.select(first, cut),
        lambda x: x.narrow(first, cut, size - cut),
        lambda x: x[cut:, ::2],
        lambda x: x.diagonal(0, first, second),
        lambda x: x.unfold(first, 1 + cut, 2),
        lambda x: x.squeeze(),
        lambda x: x.expand(2, *x.shape),
        lambda x: x.reshape(-1, shape[-1]),
    ]
    return draw.choice(choices)


def _layout(x: Any) -> tuple[Any, ...]:
    # Strides of dimensions of size 1, and of tensors without elements, lead nowhere and may differ.
    is_empty = 0 in x.shape
    pairs = zip(x.shape, x.stride(), strict=True)
    strides = [stride for size, stride in pairs if size != 1 and not is_empty]
    return tuple(x.shape), strides, x.storage_offset(), x.is_contiguous()


@pytest.mark.parametrize("seed", range(100))
def test_views_have_the_strides_of_pytorch(seed: int) -> None:
    draw = random.Random(seed)
    ours, theirs = flambeau.zeros(3, 4, 5), torch.zeros(3, 4, 5)
    for _ in range(4):
        step = _step(draw, tuple(theirs.shape))
        ours, after = step(ours), step(theirs)
        if after._base is None:  # PyTorch has copied: the result is no view.
            return
        theirs = after
        assert _layout(ours) == _layout(theirs)


def test_contiguous_makes_a_copy_in_order() -> None:
    view = flambeau.zeros(3, 4).t()
    assert not view.is_contiguous()
    assert view.contiguous().is_contiguous()
    assert view.contiguous().stride() == (3, 1)
    assert view.clone(memory_format=flambeau.contiguous_format).is_contiguous()
    assert (view + 1).is_contiguous()


def _windows_of_a_permuted_tensor(library: Any) -> tuple[Any, Any]:
    x = library.arange(24.0).reshape(2, 3, 4).requires_grad_()
    permuted = (x * 1.0).permute(2, 0, 1)
    windows = permuted.as_strided((3, 2, 4), (6, 4, 2), 1)
    (windows**2).sum().backward()
    return windows, x.grad


def test_as_strided_counts_through_memory() -> None:
    ours, theirs = _windows_of_a_permuted_tensor(flambeau), _windows_of_a_permuted_tensor(torch)
    for mine, its in zip(ours, theirs, strict=True):
        assert mine.tolist() == its.tolist()
    assert _layout(ours[0]) == _layout(theirs[0])
    with pytest.raises(RuntimeError, match="clone"):
        flambeau.zeros(3, 4)[:, 1:].as_strided((2, 2), (4, 1))
