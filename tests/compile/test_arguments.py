"""Arguments of compiled functions as objects: their gradients, their history, their identity."""

import pytest

import flambeau
from flambeau.compile.errors import CompileError


def leaf():
    return flambeau.tensor([1.0, 2.0], requires_grad=True)


def test_the_gradient_of_an_argument_is_accumulated_in_place():
    run = flambeau.compile(lambda x: (x * 3).sum().backward())
    x = leaf()
    x.grad = kept = flambeau.ones(2)
    run(x)
    assert x.grad is kept
    assert kept.tolist() == [4.0, 4.0]
    run(x)
    assert x.grad is kept
    assert (kept.tolist(), kept._version) == ([7.0, 7.0], 2)


def test_the_gradient_of_an_argument_may_be_another_argument():
    def function(x, grad):
        grad.mul_(2)
        return x.grad + 1, x.grad is grad

    run = flambeau.compile(function)
    for shared in (False, True, False):
        x, other = leaf(), flambeau.ones(2)
        x.grad = other if shared else flambeau.ones(2)
        result, same = run(x, other)
        assert (result.tolist(), same) == ([3.0, 3.0] if shared else [2.0, 2.0], shared)
        assert other.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("captured", [False, True])
def test_an_argument_becomes_a_gradient_itself(captured):
    outside = leaf()

    def function(x, grad):
        (outside if captured else x).grad = grad

    run = flambeau.compile(function)
    for _ in range(2):
        x, grad = leaf(), flambeau.ones(2)
        run(x, grad)
        assert (outside if captured else x).grad is grad


def test_gradients_of_another_dtype_are_another_program():
    x = leaf()
    x.grad_dtype = None
    run = flambeau.compile(lambda x: x.grad * 2)
    x.grad = flambeau.ones(2, dtype=flambeau.float64)
    assert run(x).dtype is flambeau.float64
    x.grad = flambeau.ones(2)
    assert run(x).dtype is flambeau.float32


def test_a_result_of_an_operator_may_be_written_in_place():
    def function(x):
        x.mul_(3)
        return x * x, x.is_leaf

    run = flambeau.compile(function)
    for call in (function, run, run):
        w = leaf()
        x = w * 2
        result, is_leaf = call(x)
        assert not is_leaf
        (result.sum() + x.sum()).backward()
        assert w.grad.tolist() == [78.0, 150.0]


def test_leaves_and_results_are_different_arguments():
    run = flambeau.compile(lambda x: x.is_leaf)
    assert run(leaf()) is True
    assert run(leaf() * 2) is False


def test_grad_of_a_result_that_is_an_argument():
    run = flambeau.compile(lambda x: flambeau.autograd.grad((x * x).sum(), x)[0])
    assert run(leaf() * 2).tolist() == [4.0, 8.0]


def test_backward_past_an_argument_is_refused():
    run = flambeau.compile(lambda x: (x * 2).sum().backward(), fullgraph=True)
    with pytest.raises(CompileError, match="MulBackward0, which was recorded before"):
        run(leaf() * 2)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_a_tensor_is_taken_off_the_tape(captured, again):
    held = [leaf() * 2]

    def function(x):
        x = held[0] if captured else x
        x.detach_()
        if again:
            x.requires_grad_()
        return x * 3

    run = flambeau.compile(function)
    for call in (function, run, run):
        held[0] = x = leaf() * 2
        result = call(x)
        assert (x.is_leaf, x.requires_grad, result.requires_grad) == (True, again, again)
        assert result.tolist() == [6.0, 12.0]


class Holder:
    """A state that is another tensor after each call, and one that is always the same."""

    def __init__(self):
        self.state = flambeau.zeros(2)
        self.fixed = flambeau.zeros(2)

    def of_state(self, x):
        before = self.state.detach()
        self.state = x * 2
        return before

    def of_fixed(self, x):
        self.fixed.add_(x)
        return self.fixed.detach()

    def of_argument(self, x):
        return x.detach()

    def of_part(self, x):
        return x.detach().mul_(2)


@pytest.mark.parametrize("method", ["of_state", "of_fixed", "of_argument", "of_part"])
def test_a_new_handle_on_a_tensor_from_outside_shares_its_elements_at_each_call(method):
    outcomes = []
    for compiled in (False, True):
        holder, seen = Holder(), []
        call = getattr(holder, method)
        call = flambeau.compile(call) if compiled else call
        for i in range(4):
            before, x = holder.state, flambeau.full((3,), float(i))[1:]
            x = x if i % 2 else x.clone()
            result = call(x)
            for each in (before, holder.fixed, x):
                each.add_(1)
                seen.append((result.tolist(), result is each, each._version))
        outcomes.append(seen)
    assert outcomes[1] == outcomes[0]


def test_tensors_on_meta_run_eagerly():
    layer = flambeau.nn.Linear(6, 3, device="meta")
    x = flambeau.empty(4, 6, device="meta")
    for function in (layer, lambda x: layer(x) * 2):
        result = flambeau.compile(function)(x)
        assert result.is_meta
        assert result.shape == (4, 3)
