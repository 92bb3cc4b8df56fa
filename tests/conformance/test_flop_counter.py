"""Counts of floating-point operations against PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode as Theirs
from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

import flambeau
from flambeau.utils.flop_counter import FlopCounterMode as Ours


def leaf(lib: Any, *shape: int) -> Any:
    return lib.ones(*shape, requires_grad=True)


PROGRAMS: dict[str, Any] = {
    "linear": lambda lib: lib.nn.functional.linear(leaf(lib, 2, 3), leaf(lib, 4, 3), leaf(lib, 4)),
    "batched linear": lambda lib: lib.nn.functional.linear(leaf(lib, 5, 2, 3), leaf(lib, 4, 3)),
    "mm": lambda lib: leaf(lib, 2, 3) @ leaf(lib, 3, 4),
    "one factor": lambda lib: lib.ones(2, 3) @ leaf(lib, 3, 4),
    "bmm": lambda lib: lib.bmm(leaf(lib, 5, 2, 3), leaf(lib, 5, 3, 4)),
    "matmul": lambda lib: lib.matmul(leaf(lib, 2, 5, 2, 3), leaf(lib, 2, 5, 3, 4)),
    "addmm": lambda lib: lib.addmm(leaf(lib, 4), leaf(lib, 2, 3), leaf(lib, 3, 4)),
    "baddbmm": lambda lib: lib.baddbmm(leaf(lib, 5, 2, 4), leaf(lib, 5, 2, 3), leaf(lib, 5, 3, 4)),
    "einsum": lambda lib: lib.einsum("bij,kj->bik", leaf(lib, 2, 4, 3), leaf(lib, 5, 3)),
    "conv1d": lambda lib: lib.conv1d(leaf(lib, 2, 4, 9), leaf(lib, 6, 4, 3), stride=2),
    "conv2d": lambda lib: lib.conv2d(leaf(lib, 1, 2, 6, 6), leaf(lib, 4, 2, 3, 3), padding=1),
    "conv3d": lambda lib: lib.conv3d(leaf(lib, 1, 2, 4, 4, 4), leaf(lib, 3, 2, 2, 2, 2)),
    "conv_transpose2d": lambda lib: lib.conv_transpose2d(
        leaf(lib, 1, 2, 4, 4), leaf(lib, 2, 3, 3, 3), stride=2
    ),
    "layers": lambda lib: lib.nn.Sequential(
        lib.nn.Conv2d(1, 2, 3), lib.nn.ReLU(), lib.nn.Flatten(), lib.nn.Linear(8, 3)
    )(leaf(lib, 2, 1, 4, 4)),
}


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_counts(name: str, backward: bool) -> None:
    found = []
    for lib, mode in ((flambeau, Ours), (torch, Theirs)):
        with mode(display=False) as counter:
            result = PROGRAMS[name](lib)
            if backward:
                result.sum().backward()
        found.append(counter.get_total_flops())
    assert found[0] == found[1]


def test_attention() -> None:
    """PyTorch counts nothing on the CPU, but has formulas."""
    query, key = (1, 2, 4, 8), (1, 2, 6, 8)
    with Ours(display=False) as counter:
        result = flambeau.nn.functional.scaled_dot_product_attention(
            leaf(flambeau, *query), leaf(flambeau, *key), leaf(flambeau, *key)
        )
        forward = counter.get_total_flops()
        result.sum().backward()
    assert forward == sdpa_flop_count(query, key, key)
    both = counter.get_total_flops()
    assert both == forward + sdpa_backward_flop_count(query, query, key, key)


def test_groups_divide_the_gradient_of_the_weights_too() -> None:
    """PyTorch counts that gradient as if there were one group."""
    with Ours(display=False) as counter:
        flambeau.conv1d(
            leaf(flambeau, 2, 4, 9), leaf(flambeau, 6, 2, 3), stride=2, groups=2
        ).sum().backward()
    assert counter.get_total_flops() == 3 * (2 * 2 * 6 * 4 * 2 * 3)
