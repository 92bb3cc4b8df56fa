"""A compiled training step runs every kind of hook with the eager results."""

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.compile import CompileError
from flambeau.nn.modules import module as all_modules
from tests.compile.following import MAY_RUN_EAGERLY


class Pair(nn.Module):
    """Two outputs, and a layer that is not used."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.unused = nn.Linear(3, 3)

    def forward(self, x):
        hidden = self.first(x)
        return hidden, self.second(hidden).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = Pair()
        self.layers = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        self.last = nn.Linear(3, 1)
        self.register_buffer("seen", flambeau.zeros(4, 1))
        self.uses_both = True

    def forward(self, x):
        left, right = self.pair(x)
        return self.last(self.layers(left * right if self.uses_both else right))


def scaled(grads, factor):
    return tuple(None if grad is None else grad * factor for grad in grads)


def watch(net):
    net.pair.register_full_backward_hook(lambda module, before, after: None)


def replace_input_gradients(net):
    net.pair.register_full_backward_hook(lambda module, before, after: scaled(before, 2))
    net.layers[0].register_full_backward_hook(
        lambda module, before, after: (before[0] * 3 + after[0].sum(),)
    )


def replace_output_gradients(net):
    for module in net.modules():
        module.register_full_backward_pre_hook(lambda module, grads: scaled(grads, 0.7))


def an_output_without_a_gradient(net):
    net.uses_both = False

    def hook(module, before, after):
        assert after[0] is None
        assert after[1] is not None
        return scaled(before, 2)

    net.pair.register_full_backward_hook(hook)


def on_the_last_node(net):
    net.layers[1].register_backward_hook(lambda module, before, after: (before[0] * 2,))


def on_a_tensor(net):
    def hook(module, args, output):
        output.register_hook(lambda grad: grad * 1.5)

    net.layers[0].register_forward_hook(hook)


def on_a_parameter(net):
    net.last.weight.register_hook(lambda grad: grad * 2)


def after_accumulation(net):
    def hook(parameter):
        parameter.grad = parameter.grad * 2

    net.last.weight.register_post_accumulate_grad_hook(hook)


def around_forward(net):
    net.layers.register_forward_pre_hook(
        lambda module, args, kwargs: ((args[0] + 1,), kwargs), with_kwargs=True
    )
    net.layers.register_forward_hook(
        lambda module, args, kwargs, output: output * 2, with_kwargs=True, always_call=True
    )


def on_all_modules(net):
    return [
        all_modules.register_module_forward_hook(
            lambda module, args, output: None if isinstance(output, tuple) else output * 1.1
        ),
        all_modules.register_module_full_backward_hook(
            lambda module, before, after: scaled(before, 1.2)
        ),
        all_modules.register_module_full_backward_pre_hook(
            lambda module, grads: scaled(grads, 0.9)
        ),
    ]


def write_a_buffer(net):
    def hook(module, before, after):
        net.seen.copy_(after[0])

    net.last.register_full_backward_hook(hook)


def keep_a_gradient(net):
    net.last.kept = None

    def hook(module, before, after):
        module.kept = after[0].detach()

    net.last.register_full_backward_hook(hook)


HOOKS = [
    watch, replace_input_gradients, replace_output_gradients, an_output_without_a_gradient,
    on_the_last_node, on_a_tensor, on_a_parameter, after_accumulation, around_forward,
    on_all_modules, write_a_buffer, keep_a_gradient,
]  # fmt: skip


def train(register, compiled, input_requires_grad):
    """Everything that three steps leave behind."""
    flambeau.manual_seed(0)
    net = Net()
    handles = register(net) or []
    optimizer = flambeau.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = flambeau.compile(step) if compiled else step
    left = []
    try:
        for _ in range(3):
            x = flambeau.randn(4, 3).requires_grad_(input_requires_grad)
            left += [step(x), x.grad]
    finally:
        for handle in handles:
            handle.remove()
    left += net.state_dict().values()
    left += [parameter.grad for parameter in net.parameters()]
    return [*left, getattr(net.last, "kept", None)]


@pytest.fixture(autouse=True)
def undecided(monkeypatch):
    """Let global backward hooks be of either kind again."""
    monkeypatch.setattr(nn.hooks, "_global_is_full_backward_hook", None)


@pytest.mark.filterwarnings("ignore:.*backward hook.*")
@pytest.mark.parametrize("input_requires_grad", [True, False])
@pytest.mark.parametrize("register", HOOKS, ids=lambda each: each.__name__)
def test_compiled_step_equals_the_eager_one(register, input_requires_grad):
    eager = train(register, False, input_requires_grad)
    compiled = train(register, True, input_requires_grad)
    for one, other in zip(eager, compiled, strict=True):
        assert (one is None) is (other is None)
        if one is not None:
            np.testing.assert_allclose(
                one.detach().numpy(), other.detach().numpy(), rtol=1e-5, atol=1e-6
            )


def test_every_kind_of_hook_changes_or_keeps_something():
    plain = train(lambda net: None, False, True)
    for register in HOOKS[1:]:
        hooked = train(register, False, True)
        assert any(
            (one is None) is not (other is None)
            or (one is not None and not flambeau.equal(one, other))
            for one, other in zip(plain, hooked, strict=True)
        ), register.__name__


def test_hooks_left_on_a_tensor_from_outside_are_left_by_each_call():
    weight = flambeau.ones(2, requires_grad=True)

    def leaves_a_hook(x):
        weight.register_hook(lambda grad: grad * 2)
        return (weight * x).sum()

    def takes_it_back(x):
        handle = weight.register_hook(lambda grad: grad * 2)
        (weight * x).sum().backward()
        handle.remove()

    step = flambeau.compile(takes_it_back)
    step(flambeau.ones(2))
    step(flambeau.ones(2))
    assert weight.grad.tolist() == [4, 4]
    assert not weight._hooks
    run = flambeau.compile(leaves_a_hook)
    for factor in (2, 4, 8):
        weight.grad = None
        run(flambeau.ones(2)).backward()
        assert weight.grad.tolist() == [factor, factor]


def test_a_hook_on_an_argument_counts_inside_and_outside():
    def step(x, inside):
        x.register_hook(lambda grad: grad * 2)
        total = x.square().sum()
        if inside:
            total.backward()
        return total

    x = flambeau.ones(2, requires_grad=True)
    flambeau.compile(step)(x, True)
    assert x.grad.tolist() == [4, 4]
    x = flambeau.ones(2, requires_grad=True)
    flambeau.compile(step)(x, False).backward()
    assert x.grad.tolist() == [4, 4]


@pytest.mark.parametrize("leave", ["detach_", "requires_grad_"])
def test_a_tensor_that_is_detached_keeps_its_hook(leave):
    def step(x):
        x.register_hook(lambda grad: grad * 2)
        x.requires_grad_(False) if leave == "requires_grad_" else x.detach_()

    def gradient(run):
        x = flambeau.ones(3, requires_grad=True)
        run(x)
        assert not x.requires_grad
        x.requires_grad_().sum().backward()
        return x.grad.tolist()

    compiled = flambeau.compile(step)
    assert [gradient(each) for each in (step, compiled, compiled)] == [[2.0] * 3] * 3


@MAY_RUN_EAGERLY
@pytest.mark.parametrize("make", ["made", "detached", "kept"])
@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_on_new_leaves_are_called(make, kind):
    outside, kept = flambeau.ones(2), {}

    def hook(value):
        if kind == "register_hook":
            return value * 3
        value.grad.mul_(3)
        return None

    def step(x):
        leaf = (outside.detach() if make == "detached" else x * 2).requires_grad_()
        getattr(leaf, kind)(hook)
        if make == "kept":
            kept["leaf"] = leaf
            return x
        return leaf

    run = flambeau.compile(step)
    for _ in range(3):
        found = run(flambeau.ones(2))
        leaf = kept["leaf"] if make == "kept" else found
        (leaf * 1).sum().backward()
        assert leaf.grad.tolist() == [3.0, 3.0]
    if make != "kept":
        with pytest.raises(CompileError, match="registers a hook on a leaf"):
            flambeau.compile(step, fullgraph=True)(flambeau.ones(2))
