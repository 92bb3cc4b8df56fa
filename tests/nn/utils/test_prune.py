"""Pruning: masks one after the other, what a failure leaves, compiled use."""

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import prune


def layer():
    made = nn.Linear(3, 2)
    with flambeau.no_grad():
        made.weight.copy_(flambeau.tensor([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]]))
    return made


def test_the_least_elements_go_first():
    pruned = prune.l1_unstructured(layer(), "weight", 2)
    assert pruned.weight.tolist() == [[0.0, 0.0, 3.0], [-4.0, 5.0, -6.0]]
    assert [name for name, _ in pruned.named_parameters()] == ["bias", "weight_orig"]
    assert [name for name, _ in pruned.named_buffers()] == ["weight_mask"]


def test_a_second_pruning_acts_on_what_is_left():
    pruned = prune.l1_unstructured(layer(), "weight", 2)
    prune.l1_unstructured(pruned, "weight", 0.5)
    assert pruned.weight.tolist() == [[0.0, 0.0, 0.0], [0.0, 5.0, -6.0]]
    (hook,) = pruned._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer)
    assert len(hook) == 2


def test_pruned_elements_get_no_gradient():
    pruned = prune.ln_structured(layer(), "weight", 1, n=2, dim=0)
    pruned(flambeau.ones(1, 3)).sum().backward()
    assert pruned.weight_orig.grad.tolist() == [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]


@pytest.mark.parametrize("amount", [float("nan"), -0.1, 1.5, -1])
def test_an_amount_is_a_share_or_a_count(amount):
    with pytest.raises(ValueError, match="amount must be a float from 0 to 1"):
        prune.l1_unstructured(layer(), "weight", amount)


def test_a_failure_leaves_the_module_alone():
    pruned = layer()
    weight = pruned.weight
    with pytest.raises(ValueError, match="amount=7 is more than the 6"):
        prune.l1_unstructured(pruned, "weight", 7)
    assert pruned.weight is weight
    prune.l1_unstructured(pruned, "weight", 2)
    with pytest.raises(ValueError, match="amount=7"):
        prune.l1_unstructured(pruned, "weight", 7)
    assert len(pruned._forward_pre_hooks) == 1
    assert int((pruned.weight_mask == 0).sum()) == 2


def test_removing_makes_the_zeros_permanent():
    pruned = prune.l1_unstructured(layer(), "weight", 2)
    prune.remove(pruned, "weight")
    assert isinstance(pruned.weight, nn.Parameter)
    assert pruned.weight.tolist() == [[0.0, 0.0, 3.0], [-4.0, 5.0, -6.0]]
    assert list(pruned.state_dict()) == ["bias", "weight"]
    assert not prune.is_pruned(pruned)


def test_parameters_are_pruned_together():
    small, large = layer(), layer()
    with flambeau.no_grad():
        large.weight.mul_(100.0)
    prune.global_unstructured(
        [(small, "weight"), (large, "weight")], prune.L1Unstructured, amount=0.5
    )
    assert (small.weight == 0).all()
    assert (large.weight != 0).all()


def test_a_method_of_ones_own():
    class EveryOther(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    pruned = layer()
    EveryOther.apply(pruned, "weight")
    assert pruned.weight.tolist() == [[0.0, -2.0, 0.0], [-4.0, 0.0, -6.0]]


def test_a_compiled_function_sees_the_mask():
    pruned = layer()
    compiled = flambeau.compile(pruned)
    x = flambeau.ones(1, 3)
    compiled(x)
    for amount in (2, 3):
        prune.l1_unstructured(pruned, "weight", amount)
        assert flambeau.allclose(compiled(x), pruned(x))
    with flambeau.no_grad():
        pruned.weight_orig.mul_(2.0)
    assert flambeau.allclose(compiled(x), pruned(x))
