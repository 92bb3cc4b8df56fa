"""Gradients that pass through a compiled function from outside it follow the tape, as eagerly."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest

import flambeau
from flambeau import nn
from flambeau.compile import CompileError
from flambeau.compile.errors import CompileWarning
from flambeau.nn import functional as F
from tests.compile.following import eager, shown


class TimesSeven(flambeau.autograd.Function):
    """A rounding whose gradient claims a factor of seven."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad * 7


def under_no_grad(x, w):
    with flambeau.no_grad():
        fixed = x * w
    return x * fixed * w


def write_under_no_grad(x, w):
    y = x * w
    with flambeau.no_grad():
        y.mul_(10)
    return y * x


def write_to_data(x, w):
    y = x * w
    y.data.copy_(x.detach() * 5)
    return (y * w).exp()


def write_with_history(x, w):
    y = x * 2
    y[0] = w[1] * x[0]
    y.mul_(w)
    return y


def hook_doubles(x, w):
    y = x * w
    y.register_hook(lambda grad: grad * 2)
    return y * x


def hook_clips(x, w):
    y = x * w
    y.register_hook(lambda grad: grad.clamp(-0.5, 0.5))
    return y * y


def leaf_of_its_own(x, w):
    return x * w * x.detach().requires_grad_()


def twice_backward_inside(x, w):
    y = x * w
    (inner,) = flambeau.autograd.grad((y * y).sum(), x, create_graph=True)
    return inner * w


FUNCTIONS = {
    "detach": lambda x, w: x * w.detach() + w * x.detach(),
    "data": lambda x, w: x * w.data,
    "no_grad": under_no_grad,
    "write under no_grad": write_under_no_grad,
    "write to data": write_to_data,
    "write with history": write_with_history,
    "hook": hook_doubles,
    "hook that is not linear": hook_clips,
    "custom Function": lambda x, w: TimesSeven.apply(x * w) + x,
    "leaf made inside": leaf_of_its_own,
    "gradient inside": twice_backward_inside,
    "view": lambda x, w: (x.view(2, 1) @ w.view(1, 2))[0],
    "integers on the way": lambda x, w: (x * w)[(w > 1).nonzero_static(size=1)[:, 0]],
    "max": lambda x, w: (x * w).max(dim=0).values,
}


def gradients(function, x, w):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    result = function(x, w)
    (result * flambeau.arange(1.0, 1 + result.numel()).reshape(result.shape)).sum().backward()
    return result, x.grad, w.grad


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_the_eager_ones(name):
    x, w = flambeau.tensor([0.3, -0.7]), flambeau.tensor([1.5, -2.0])
    expected = gradients(FUNCTIONS[name], x, w)
    found = gradients(flambeau.compile(FUNCTIONS[name]), x, w)
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        assert one is None or flambeau.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_captured_tensors_are_the_eager_ones(name):
    def captured(compiled):
        x = flambeau.tensor([0.3, -0.7], requires_grad=True)
        w = flambeau.tensor([1.5, -2.0], requires_grad=True)
        function = FUNCTIONS[name]
        run = flambeau.compile(lambda: function(x, w)) if compiled else lambda: function(x, w)
        for _ in range(2):
            result = run()
            result.sum().backward()
        return result, x.grad, w.grad

    for one, other in zip(captured(True), captured(False), strict=True):
        assert (one is None) == (other is None)
        assert one is None or flambeau.allclose(one, other, atol=1e-6)


def test_a_captured_detached_parameter_is_a_constant():
    w = flambeau.tensor([2.0, 3.0], requires_grad=True)
    fixed = w.detach()
    f = flambeau.compile(lambda x: (w * fixed * x).sum())
    f(flambeau.ones(2)).backward()
    assert w.grad.tolist() == [2.0, 3.0]


def test_a_captured_tensor_with_a_history_and_its_leaf():
    w = flambeau.tensor([2.0, 3.0], requires_grad=True)
    square = w * w
    f = flambeau.compile(lambda x: (square * w * x).sum())
    f(flambeau.ones(2)).backward()
    assert w.grad.tolist() == [12.0, 27.0]


def test_a_captured_view_of_no_base_is_a_leaf():
    leaf = flambeau.ones(2, 2).detach()[0].detach().requires_grad_()
    flambeau.compile(lambda x: (leaf * x).sum())(flambeau.tensor([3.0, 4.0])).backward()
    assert leaf.grad.tolist() == [3.0, 4.0]


def test_a_leaf_that_the_function_returns_takes_its_gradient():
    @flambeau.compile
    def f(x):
        leaf = (x * 3).detach().requires_grad_()
        return leaf * x, leaf

    x = flambeau.tensor([2.0], requires_grad=True)
    product, leaf = f(x)
    assert leaf.is_leaf
    assert leaf.requires_grad
    product.backward()
    assert (x.grad.tolist(), leaf.grad.tolist()) == ([6.0], [2.0])


PARTS = {
    "slice": lambda w: w[1:].detach().requires_grad_(),
    "another shape": lambda w: w.view(1, 4).detach().requires_grad_(),
    "view of an alias": lambda w: w.detach()[::2].requires_grad_(),
    "view of data": lambda w: w.data[2].requires_grad_(),
    "parameter": lambda w: nn.Parameter(w[1:]),
}


def _life_of_a_leaf(make, compiled, kind):
    """What a leaf on a part of a tensor goes through, with writes to the one and the other."""
    whole = flambeau.arange(8.0)
    held = {"w": whole[4:] if kind == "view argument" else whole[4:].clone()}
    # Where the function finds the tensor.
    function = {"captured": lambda w=held["w"]: make(w), "slot": lambda: make(held["w"])}
    function = function.get(kind, make)
    f, seen = flambeau.compile(function) if compiled else function, []
    for _ in range(2):
        w = held["w"]
        leaf = f(w) if "argument" in kind else f()
        (leaf * leaf).sum().backward()
        w.mul_(2)
        seen.append((type(leaf), leaf.is_leaf, leaf.tolist(), leaf.grad.tolist(), leaf._version))
        with flambeau.no_grad():
            leaf.add_(1)
        seen.append((w.tolist(), whole.tolist()))
        if kind == "slot":
            held["w"] = flambeau.ones(4)
    return seen


@pytest.mark.parametrize("kind", ["captured", "slot", "argument", "view argument"])
@pytest.mark.parametrize("make", PARTS.values(), ids=PARTS)
def test_a_new_leaf_on_a_part_of_a_tensor_from_outside_shares_its_elements(make, kind):
    assert _life_of_a_leaf(make, True, kind) == _life_of_a_leaf(make, False, kind)


def test_a_leaf_on_a_part_takes_the_gradient_of_what_is_computed_with_it():
    def life(compiled):
        w, seen = flambeau.arange(4.0), []

        def function(x):
            w.add_(x)
            leaf = w[1:].detach().requires_grad_()
            return leaf, (leaf * leaf * x).sum()

        f = flambeau.compile(function) if compiled else function
        for _ in range(2):
            leaf, loss = f(flambeau.ones(()))
            loss.backward()
            w.mul_(2)
            seen.append((leaf.tolist(), leaf.grad.tolist(), loss.item()))
        return seen

    assert life(True) == life(False)


def test_a_leaf_that_is_a_copy_is_warned_of():
    w = flambeau.ones(4)
    run = flambeau.compile(lambda i: w[i].detach().requires_grad_())
    with pytest.warns(CompileWarning, match="new leaf that is a copy"):
        leaf = run(flambeau.tensor(1))
    assert leaf.is_leaf


def test_hooks_of_a_parameter_run_outside_and_once():
    seen = []
    w = flambeau.tensor([2.0], requires_grad=True)
    w.register_hook(lambda grad: seen.append(grad.tolist()))
    w.register_post_accumulate_grad_hook(lambda tensor: seen.append(tensor.grad.tolist()))
    loss = flambeau.compile(lambda: (w * w).sum())()
    assert seen == []
    loss.backward()
    assert seen == [[4.0], [4.0]]


def test_a_hook_that_writes_is_refused_when_it_would_run():
    count = flambeau.zeros(1)

    def counting(grad):
        count.add_(grad.sum())

    def f(x):
        y = x * x
        y.register_hook(counting)
        return y

    x = flambeau.ones(2, requires_grad=True)
    result = flambeau.compile(f, fullgraph=True)(x)
    assert result.tolist() == [1.0, 1.0]
    with pytest.raises(CompileError, match=r"changes a tensor .*compile the whole step"):
        result.sum().backward()
    assert count.tolist() == [0.0]


def test_a_gradient_that_is_not_defined_is_refused_when_it_is_asked_for():
    class Undefined(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise LookupError("no gradient here")

    result = flambeau.compile(Undefined.apply, fullgraph=True)(flambeau.ones(2, requires_grad=True))
    assert result.tolist() == [2.0, 2.0]
    with pytest.raises(LookupError, match="no gradient here"):
        result.sum().backward()


def test_graphs_are_freed_and_retained():
    x = flambeau.tensor([3.0], requires_grad=True)
    loss = flambeau.compile(lambda x: x * x)(x)
    loss.backward(retain_graph=True)
    loss.backward()
    assert x.grad.tolist() == [12.0]
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_one_of_two_results():
    x = flambeau.tensor([3.0], requires_grad=True)
    square, cube = flambeau.compile(lambda x: (x * x, x * x * x))(x)
    square.backward(retain_graph=True)
    assert x.grad.tolist() == [6.0]
    cube.backward()
    assert x.grad.tolist() == [33.0]


def test_gradients_of_gradients():
    w = flambeau.tensor([2.0], requires_grad=True)
    x = flambeau.tensor([3.0], requires_grad=True)
    result = flambeau.compile(lambda x: (w * x) ** 3)(x)
    (first,) = flambeau.autograd.grad(result, x, create_graph=True)
    assert first.tolist() == [3 * 8 * 9]
    second = flambeau.autograd.grad(first, (x, w))
    assert [each.tolist() for each in second] == [[6 * 8 * 3], [9 * 4 * 9]]


def test_a_written_buffer_takes_the_history_along():
    def run(compiled):
        w = flambeau.tensor([2.0], requires_grad=True)
        memory = flambeau.tensor([5.0])

        def f(x):
            memory.mul_(w * x)

        (flambeau.compile(f) if compiled else f)(flambeau.tensor([3.0]))
        assert memory.requires_grad
        (memory * 2).sum().backward()
        return memory.tolist(), w.grad.tolist()

    assert run(True) == run(False) == ([30.0], [30.0])


def test_a_written_argument_takes_the_history_along():
    w = flambeau.tensor([2.0], requires_grad=True)
    x = flambeau.tensor([3.0])
    flambeau.compile(lambda x: x.mul_(w))(x)
    x.sum().backward()
    assert w.grad.tolist() == [3.0]


class Memory(nn.Module):
    """Keeps its last state, which goes into the next."""

    def __init__(self, detaches):
        super().__init__()
        self.weight = nn.Parameter(flambeau.tensor([2.0]))
        self.state = flambeau.ones(1)
        self.detaches = detaches

    def forward(self, x):
        before = self.state.detach() if self.detaches else self.state
        self.state = before * self.weight + x
        return self.state * self.weight


@pytest.mark.parametrize("detaches", [True, False])
def test_an_assigned_attribute_keeps_its_history(detaches):
    def run(compiled):
        model = Memory(detaches)
        step = flambeau.compile(model) if compiled else model
        outs = [step(flambeau.tensor([float(i)])) for i in range(4)]
        (outs[-1] + model.state if detaches else sum(outs)).backward()
        return outs[-1].tolist(), model.weight.grad.tolist()

    assert run(True) == run(False)


def hooked():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3))
    model[1].register_full_backward_hook(
        lambda module, grad_input, grad_output: (grad_input[0] + grad_output[0] * 2,)
    )
    model[0].register_full_backward_pre_hook(lambda module, grads: (grads[0] * 3,))
    return model


def normalized():
    return nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def recurrent():
    class Last(nn.LSTM):
        def forward(self, x):
            return super().forward(x)[0]

    return Last(4, 3)


@pytest.mark.parametrize("make", [hooked, normalized, recurrent])
def test_an_eager_optimizer_around_a_compiled_model(make):
    def train(wrap):
        flambeau.manual_seed(0)
        model = make()
        optimizer = flambeau.optim.AdamW(model.parameters(), lr=0.1)
        run, x = wrap(model), flambeau.randn(6, 4, requires_grad=True)
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(run(x), flambeau.tensor([0, 1, 2, 0, 1, 2])).backward()
            optimizer.step()
        return [x.grad, *model.state_dict().values()]

    for one, other in zip(train(flambeau.compile), train(eager), strict=True):
        assert flambeau.allclose(one, other, atol=1e-5)


def test_a_result_under_enable_grad_in_no_grad_has_a_history():
    @flambeau.compile
    def f(x):
        with flambeau.enable_grad():
            return x * x

    x = flambeau.tensor([3.0], requires_grad=True)
    with flambeau.no_grad():
        result = f(x)
    result.backward()
    assert x.grad.tolist() == [6.0]


@pytest.mark.parametrize("needs_grad", [True, False])
def test_a_program_keeps_no_old_arrays(needs_grad):
    model = nn.Linear(2, 2).requires_grad_(needs_grad)
    run = flambeau.compile(model)
    x = flambeau.ones(1, 2)
    run(x)
    old = weakref.ref(model.weight._cell.array)
    with flambeau.no_grad():
        model.weight.mul_(2)
    run(x)
    gc.collect()
    assert old() is None


@pytest.mark.parametrize("which", ["leaf", "made", "argument", "leaf argument"])
def test_a_tensor_is_detached_in_place_after_it_was_used(which):
    def life(wrap):
        leaf = flambeau.tensor([1.0, 2.0], requires_grad=True)
        made, argument, fresh = leaf * 1, leaf * 2, flambeau.ones(2, requires_grad=True)
        all_of = {"leaf": leaf, "made": made, "argument": argument, "leaf argument": fresh}
        view, target, seen = made[0], all_of[which], []

        def step(x, given):
            tensor = given if "argument" in which else target
            result = tensor * x
            tensor.detach_()
            return result

        run = wrap(step)
        for _ in range(2):
            given = target if "argument" in which else flambeau.ones(2)
            result = run(flambeau.tensor([3.0, 4.0]), given)
            seen.append(shown([result, target, view, leaf]))
            if result.requires_grad:
                result.sum().backward()
            seen.append(shown([leaf, target]))
        return seen, result.requires_grad

    assert life(flambeau.compile) == life(eager)


@pytest.mark.parametrize("freeze", ["detach_", "requires_grad_"])
def test_hooks_of_a_leaf_that_is_frozen_after_it_was_used_run_later(freeze):
    def life(wrap):
        leaf, seen = flambeau.tensor([1.0, 2.0], requires_grad=True), []
        leaf.register_hook(lambda gradient: seen.append(gradient.tolist()))
        leaf.register_post_accumulate_grad_hook(lambda given: seen.append(given.grad))

        def step(x):
            result = leaf * leaf * x
            leaf.requires_grad_(False) if freeze == "requires_grad_" else leaf.detach_()
            return result

        wrap(step)(flambeau.ones(2)).sum().backward()
        return seen, leaf.grad, leaf.requires_grad

    assert life(flambeau.compile) == life(eager) == ([[2.0, 4.0], None], None, False)


def leaf_with_a_gradient(x):
    leaf = (x * 2).detach().requires_grad_()
    leaf.square().sum().backward()
    return leaf


def leaf_and_its_gradient(x):
    leaf = leaf_with_a_gradient(x)
    return leaf, leaf.grad


def retained_gradient(x):
    leaf = (x * 2).detach().requires_grad_()
    between = leaf * 3
    between.retain_grad()
    between.square().sum().backward()
    return [between, leaf]


def parameter(x):
    made = nn.Parameter(x * 2)
    (made * 3).sum().backward()
    return {"parameter": made}


@pytest.mark.parametrize(
    "make", [leaf_with_a_gradient, leaf_and_its_gradient, retained_gradient, parameter]
)
def test_new_tensors_bring_their_gradients(make):
    compiled = flambeau.compile(make)

    def facts(results):
        members = results.values() if isinstance(results, dict) else results
        found = [results] if isinstance(results, flambeau.Tensor) else [*members]
        grads = [each.grad for each in found]
        return (
            [each.tolist() for each in found],
            [None if each is None else each.tolist() for each in grads],
            [any(grad is each for each in found) for grad in grads],
        )

    for factor in (1, 2):
        x = flambeau.tensor([1.0, 2.0]) * factor
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # PyTorch's, of gradients of results.
            assert facts(compiled(x)) == facts(make(x))


def test_a_gradient_with_history_is_zeroed_and_replaced():
    def trained(compile):
        w = flambeau.tensor([1.0, 2.0], requires_grad=True)
        optimizer = flambeau.optim.SGD([w], lr=0.1)

        def step(factor):
            optimizer.zero_grad(set_to_none=False)
            (w.square().sum() * factor).backward(create_graph=True)

        run = flambeau.compile(step) if compile else step
        found = []
        for factor in (1.0, 2.0, 3.0):
            before = w.grad
            run(flambeau.tensor(factor))
            (curvature,) = flambeau.autograd.grad(w.grad.sum(), w, retain_graph=True)
            is_detached = before is None or before.grad_fn is None
            found.append((w.grad.tolist(), curvature.tolist(), is_detached))
        return found

    assert trained(compile=True) == trained(compile=False)
