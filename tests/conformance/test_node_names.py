"""The names of nodes on the tape, for tensors and for numbers, over all operators."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import flambeau
from tests.conformance.test_namespace import space
from tests.conformance.test_numbers import KINDS, functions

COARSE = "one operator here, several in PyTorch, of which the last gives the name"
# Functions whose node is another, and why.
DIFFERENT = {
    **dict.fromkeys(
        ["corrcoef", "cumulative_trapezoid", "hinge_embedding_loss", "inner", "kl_div", "kron",
         "margin_ranking_loss", "matmul", "nanquantile", "norm_except_dim", "pairwise_distance",
         "quantile", "trapezoid", "trapz", "triplet_margin_loss", "vander",
         "nn.functional.cross_entropy", "nn.functional.gumbel_softmax", "nn.functional.kl_div",
         "nn.functional.linear", "nn.functional.pairwise_distance"],
        COARSE,
    ),
    **dict.fromkeys(
        ["alias_copy", "detach_copy", "slice_copy", "squeeze_copy", "t_copy"], "views and copies"
    ),
    **dict.fromkeys(["bernoulli", "binomial"], "takes no gradient"),
    **dict.fromkeys(
        ["floor_divide", "heaviside", "remainder"], "no gradient, under a C++ name in PyTorch"
    ),
    **dict.fromkeys(["rrelu", "nn.functional.rrelu"], "without training a leaky ReLU"),
    "conj_physical": "has a node for real tensors too",
    "normal": "one operator for numbers and tensors",
    "special.round": "is `round`",
}  # fmt: skip
TENSORS_ONLY = [("t",), ("t", "t"), ("t", "t", "t")]


def node(lib: Any, function: Any, kinds: tuple[str, ...]) -> str | None:
    """The name of the node of a call, or ``None`` where there is no such call or no one tensor."""
    where = "cpu" if lib is torch else "meta"
    values = [
        lib.tensor([0.5, 0.25], requires_grad=True, device=where) if kind == "t" else 0.5
        for kind in kinds
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = function(*values)
        except Exception:  # noqa: BLE001
            return None
    if not isinstance(found, lib.Tensor):
        return None
    return "none" if found.grad_fn is None else found.grad_fn.name()


@pytest.mark.parametrize("path", ["", "special", "nn.functional"])
def test_nodes_have_pytorchs_names(path: str) -> None:
    differing = {}
    for name in functions(path):
        full = f"{path}.{name}" if path else name
        if full in DIFFERENT or name.endswith("_"):
            continue
        theirs, ours = (getattr(space(lib, path), name) for lib in (torch, flambeau))
        for kinds in (*KINDS, *TENSORS_ONLY):
            expected = node(torch, theirs, kinds) if "t" in kinds else None
            found = None if expected is None else node(flambeau, ours, kinds)
            if found is not None and found != expected:
                differing[full, "".join(kinds)] = (expected, found)
    assert differing == {}


@pytest.mark.parametrize("path", ["", "special", "nn.functional"])
def test_what_is_said_to_differ_differs(path: str) -> None:
    names = [full for full in DIFFERENT if full.rpartition(".")[0] == path]
    same = []
    for full in names:
        name = full.rpartition(".")[2]
        theirs, ours = (getattr(space(lib, path), name) for lib in (torch, flambeau))
        pairs = [
            (node(torch, theirs, kinds), node(flambeau, ours, kinds))
            for kinds in (*KINDS, *TENSORS_ONLY)
            if "t" in kinds
        ]
        if all(one == other for one, other in pairs if None not in (one, other)):
            same.append(full)
    assert same == []


def test_remainders_of_tensors_have_a_name_of_their_own() -> None:
    for lib in (torch, flambeau):
        x = lib.tensor([3.0, 5.0], requires_grad=True)
        assert (x % x).grad_fn.name() == "RemainderBackward1"
        assert (x % 2).grad_fn.name() == "RemainderBackward0"
