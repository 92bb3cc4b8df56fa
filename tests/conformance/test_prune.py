"""Pruning with both libraries."""

import pytest
import torch.nn.utils.prune  # noqa: F401 - `import torch` alone does not make it an attribute

from tests.conformance.expression import check
from tests.conformance.small_layers import INPUTS, layer_of, normal, tensor

CLOSE = 2e-6


def pruned(lib, *steps, kind="linear"):
    """The state, the weight and its gradient after steps of pruning."""
    layer = layer_of(lib, kind)
    for step in steps:
        step(lib.nn.utils.prune, layer)
    layer(normal(lib, *INPUTS[kind])).sum().backward()
    state = layer.state_dict()
    hooks = [type(each).__name__ for each in layer._forward_pre_hooks.values()]
    grads = [each.grad for each in layer.parameters()]
    return tuple(state), hooks, *state.values(), layer.weight, *grads


STEPS = {
    "identity": lambda prune, layer: prune.identity(layer, "weight"),
    "random": lambda prune, layer: prune.random_unstructured(layer, "weight", amount=0.4),
    "random count": lambda prune, layer: prune.random_unstructured(layer, "weight", amount=5),
    "none": lambda prune, layer: prune.random_unstructured(layer, "weight", amount=0.0),
    "least": lambda prune, layer: prune.l1_unstructured(layer, "weight", amount=0.3),
    "least count": lambda prune, layer: prune.l1_unstructured(layer, "weight", amount=2),
    "rows": lambda prune, layer: prune.random_structured(layer, "weight", amount=1, dim=0),
    "columns": lambda prune, layer: prune.random_structured(layer, "weight", amount=0.5, dim=-1),
    "least rows": lambda prune, layer: prune.ln_structured(layer, "weight", 0.34, n=2, dim=0),
    "least columns": lambda prune, layer: prune.ln_structured(layer, "weight", 2, n=1, dim=1),
    "greatest": lambda prune, layer: prune.ln_structured(layer, "weight", 1, n=float("inf"), dim=0),
    "mask": lambda prune, layer: prune.custom_from_mask(
        layer, "weight", mask=layer.weight.detach() > 0
    ),
    "removed": lambda prune, layer: prune.remove(layer, "weight"),
}
AFTER_EACH_OTHER = [
    ("least", "random"), ("rows", "least columns"), ("least", "rows", "least"),
    ("mask", "least", "removed"), ("random", "identity", "mask"), ("least rows", "columns"),
    ("least", "removed", "least"),
]  # fmt: skip


@pytest.mark.parametrize(
    "names", [*((name,) for name in STEPS if name != "removed"), *AFTER_EACH_OTHER], ids=" ".join
)
def test_pruning(names):
    check(lambda lib: pruned(lib, *(STEPS[name] for name in names)), CLOSE)


def scores(lib):
    layer = layer_of(lib, "linear")
    importance = lib.arange(12.0).reshape(3, 4)
    lib.nn.utils.prune.l1_unstructured(layer, "weight", 4, importance_scores=importance)
    return layer.weight_mask


def everywhere(lib, method, **options):
    prune = lib.nn.utils.prune
    layers = [layer_of(lib, "linear"), layer_of(lib, "wide")]
    prune.l1_unstructured(layers[0], "weight", 2)
    pairs = [(layers[0], "weight"), (layers[1], "weight"), (layers[1], "bias")]
    prune.global_unstructured(pairs, getattr(prune, method), **options)
    return [tuple(each.state_dict()) for each in layers], *(
        value for each in layers for value in each.state_dict().values()
    )


OTHER_PRUNING = {
    "importance scores": scores,
    "everywhere": lambda lib: everywhere(lib, "L1Unstructured", amount=9),
    "everywhere at random": lambda lib: everywhere(lib, "RandomUnstructured", amount=0.3),
    "everywhere structured": lambda lib: everywhere(lib, "LnStructured", amount=1, n=2),
    "everywhere of nothing": lambda lib: lib.nn.utils.prune.global_unstructured(
        3, lib.nn.utils.prune.L1Unstructured, amount=1
    ),
    "is_pruned": lambda lib: (
        lib.nn.utils.prune.is_pruned(lib.nn.Sequential(lib.nn.Linear(1, 1))),
        lib.nn.utils.prune.is_pruned(
            lib.nn.Sequential(lib.nn.utils.prune.identity(lib.nn.Linear(1, 1), "weight"))
        ),
    ),
    "of a tensor": lambda lib: lib.nn.utils.prune.L1Unstructured(2).prune(normal(lib, 5)),
    "of a masked tensor": lambda lib: lib.nn.utils.prune.L1Unstructured(2).prune(
        normal(lib, 5), default_mask=tensor(lib, [1.0, 0, 1, 1, 0])
    ),
    "scores of another shape": lambda lib: lib.nn.utils.prune.l1_unstructured(
        layer_of(lib, "linear"), "weight", 1, importance_scores=lib.zeros(3)
    ),
    "amount no number": lambda lib: lib.nn.utils.prune.L1Unstructured("1"),
    "amount negative": lambda lib: lib.nn.utils.prune.L1Unstructured(-1),
    "amount above one": lambda lib: lib.nn.utils.prune.L1Unstructured(1.5),
    "amount above the size": lambda lib: pruned(
        lib, lambda prune, layer: prune.l1_unstructured(layer, "weight", 13)
    ),
    "structured of a vector": lambda lib: pruned(
        lib, lambda prune, layer: prune.ln_structured(layer, "bias", 1, 2, 0)
    ),
    "structured of no such dimension": lambda lib: pruned(
        lib, lambda prune, layer: prune.random_structured(layer, "weight", 1, 2)
    ),
    "mask of another shape": lambda lib: pruned(
        lib, lambda prune, layer: prune.custom_from_mask(layer, "weight", mask=lib.ones(3))
    ),
    "of no bias": lambda lib: lib.nn.utils.prune.identity(lib.nn.Linear(1, 1, bias=False), "bias"),
    "of a buffer": lambda lib: lib.nn.utils.prune.identity(lib.nn.BatchNorm1d(1), "running_mean"),
    "of nothing": lambda lib: lib.nn.utils.prune.identity(lib.nn.Linear(1, 1), "wait"),
    "of a parametrized tensor": lambda lib: lib.nn.utils.prune.identity(
        lib.nn.utils.parametrizations.weight_norm(lib.nn.Linear(1, 1)), "weight"
    ),
    "of a lazy layer": lambda lib: lib.nn.utils.prune.identity(lib.nn.LazyLinear(1), "weight"),
    "removed from nothing": lambda lib: pruned(lib, STEPS["removed"]),
}


@pytest.mark.parametrize("name", OTHER_PRUNING)
def test_other_pruning(name):
    check(OTHER_PRUNING[name], CLOSE)
