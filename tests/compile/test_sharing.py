"""Arguments that share elements with each other, or with what a compiled function captures."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau
from flambeau import nn
from tests.compile.following import MAY_RUN_EAGERLY

pytestmark = MAY_RUN_EAGERLY


def plain():
    return flambeau.tensor([1.0, 2.0, 3.0, 4.0])


def result():
    """A tensor that a gradient passes through, and the leaf that it comes from."""
    leaf = plain().requires_grad_()
    return leaf * 2, leaf


def of_result(first, second):
    def make():
        tensor, leaf = result()
        return first(tensor), second(tensor), leaf

    return make


def of_plain(first, second):
    def make():
        tensor = plain()
        return first(tensor), second(tensor)

    return make


def itself(x):
    return x


# How two arguments of four or three elements share them; the third tensor is for gradients.
PAIRS = {
    "apart": lambda: (plain(), plain()),
    "the same": of_plain(itself, itself),
    "detached": of_plain(itself, lambda x: x.detach()),
    "data first": of_plain(lambda x: x.data, itself),
    "two aliases": of_plain(lambda x: x.detach(), lambda x: x.data),
    "view": of_plain(itself, lambda x: x.view(2, 2)),
    "view first": of_plain(lambda x: x.view(2, 2), itself),
    "part": of_plain(itself, lambda x: x[1:]),
    "overlapping": of_plain(lambda x: x[1:], lambda x: x[:3]),
    "the other way": of_plain(lambda x: x[:3], lambda x: x[1:]),
    "disjoint": of_plain(lambda x: x[:2], lambda x: x[2:]),
    "transposed": of_plain(lambda x: x.view(2, 2).t(), itself),
    "view of a view": of_plain(lambda x: x[1:], lambda x: x.view(2, 2)[0]),
    "part of an alias": of_plain(lambda x: x.detach()[1:], lambda x: x[:3]),
    "leaf and alias": lambda: (leaf := plain().requires_grad_(), leaf.detach(), leaf),
    "leaf and part": lambda: (leaf := plain().requires_grad_(), leaf[1:], leaf),
    "result and alias": of_result(itself, lambda x: x.detach()),
    "result and part": of_result(itself, lambda x: x[1:]),
    "part and result": of_result(lambda x: x[1:], itself),
    "parts of a result": of_result(lambda x: x[1:], lambda x: x[:3]),
    "part of a result": of_result(lambda x: x[1:], lambda x: plain()),
}


def add_to_first(a, b):
    a.add_(1)
    return b * 2


def scale_second(a, b):
    b.mul_(3)
    return a + 1


def write_both(a, b):
    a.add_(1)
    b.mul_(2)
    a.sub_(b.sum())
    return a.sum() * b.sum()


def write_part(a, b):
    a.view(-1)[0] = 5.0
    return b.sum(), a


def write_without_gradient(a, b):
    with flambeau.no_grad():
        a.mul_(2)
    return (b * b).sum(), b


def write_data(a, b):
    before = b.clone()
    a.data.add_(1)
    b.data.mul_(2)
    return before, a * 3


def write_if_same(a, b):
    if a is b:
        b.add_(10)
    return a, a is b


def read(a, b):
    return a.sum() - b.sum(), a is b


def write_twice(a, b):
    first = b + 0
    a.copy_(flambeau.zeros(()))
    a.add_(1).add_(1)
    return first, b + 0


FUNCTIONS = [
    add_to_first, scale_second, write_both, write_part, write_without_gradient, write_data,
    write_if_same, read, write_twice,
]  # fmt: skip


def observed(call, pair):
    """All that can be seen of a call and its arguments afterwards, or its error."""
    a, b, *leaves = pair()
    try:
        returned = call(a, b)
    except RuntimeError as error:
        return [type(error), a.tolist(), b.tolist()]
    results = returned if isinstance(returned, tuple) else (returned,)
    seen = []
    for each in (a, b, *results):
        if isinstance(each, flambeau.Tensor):
            seen.append((each.tolist(), each.requires_grad, each.is_leaf, each is a, each is b))
        else:
            seen.append(each)
    seen.append((a._version, b._version, a._is_view(), b._is_view()))
    if leaves:
        total = [each for each in (a, b, *results) if getattr(each, "requires_grad", False)]
        for i, each in enumerate(total):
            each.sum().backward(retain_graph=i < len(total) - 1)
        grad = leaves[0].grad
        seen.append(None if grad is None else grad.tolist())
    return seen


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_a_call_does_what_the_eager_call_does_however_its_arguments_share(function):
    run = flambeau.compile(function)
    for name in (*PAIRS, *reversed(PAIRS)):
        assert (name, observed(run, PAIRS[name])) == (name, observed(function, PAIRS[name]))
    count = run.program_count
    for pair in PAIRS.values():
        observed(run, pair)
    assert run.program_count == count


class World:
    """A layer, a state and a step that writes to some of it, given what may be the same."""

    def __init__(self, write, read):
        self.layer = nn.Linear(2, 2)
        with flambeau.no_grad():
            self.layer.weight.copy_(flambeau.tensor([[1.0, 2.0], [3.0, 4.0]]))
        self.layer.weight.grad = flambeau.ones(2, 2)
        self.other = nn.Parameter(flambeau.ones(2, 2))
        self.other.grad = flambeau.full((2, 2), 2.0)
        self.state = flambeau.tensor([[5.0, 6.0], [7.0, 8.0]])
        self.write, self.read = WRITES[write], READS[read]

    def step(self, given):
        self.write(self, given)
        return self.read(self, given)


def change_gradients(world, given):
    world.layer.weight.grad.mul_(2)
    world.other.grad.add_(1)


def train(world, given):
    with flambeau.no_grad():
        for each in (world.layer.weight, world.other):
            each -= 0.5 * each.grad


def write_weight(world, given):
    with flambeau.no_grad():
        world.layer.weight.add_(1)


def write_given(world, given):
    with flambeau.no_grad():
        given.mul_(2)


WRITES = {
    "weight": write_weight,
    "given": write_given,
    "both": lambda world, given: (write_weight(world, given), write_given(world, given)),
    "state": lambda world, given: world.state.sub_(given.sum().detach() / 8),
    "gradients": change_gradients,
    "train": train,
    "nothing": lambda world, given: None,
}

READS = {
    "given": lambda world, given: given * 2,
    "captured": lambda world, given: (
        world.layer.weight.sum() + world.state.sum() + world.other.grad.sum()
    ),
    "itself": lambda world, given: (given, given + world.state.sum()),
}

GIVEN = {
    "another": lambda world: flambeau.ones(2, 2),
    "weight": lambda world: world.layer.weight,
    "weight detached": lambda world: world.layer.weight.detach(),
    "data": lambda world: world.layer.weight.data,
    "of the state dict": lambda world: world.layer.state_dict()["weight"],
    "row of the weight": lambda world: world.layer.weight[1],
    "row of its data": lambda world: world.layer.weight.data[0],
    "state": lambda world: world.state,
    "part of the state": lambda world: world.state[:, 1],
    "gradient": lambda world: world.layer.weight.grad,
    "alias of a gradient": lambda world: world.other.grad.detach(),
    "row of a gradient": lambda world: world.other.grad[1:],
}


def share_gradients(world):
    world.other.grad = world.layer.weight.grad


def new_gradients(world):
    for each in (world.layer.weight, world.other):
        each.grad = flambeau.ones(2, 2) * 0.5


def share_data(world):
    world.state.data = world.layer.weight.detach()


CHANGES = {
    "none": lambda world: None,
    "one gradient for both": share_gradients,
    "a gradient that is an alias": lambda world: setattr(
        world.other, "grad", world.layer.weight.grad.detach()
    ),
    "other gradients": new_gradients,
    "the gradient is the state": lambda world: setattr(world.layer.weight, "grad", world.state),
}


def seen(world, given, returned):
    """All that can be seen after a step."""
    results = returned if isinstance(returned, tuple) else (returned,)
    tensors = [
        given, world.layer.weight, world.other, world.state, world.layer.weight.grad,
        world.other.grad, *results,
    ]  # fmt: skip
    values = [(each.tolist(), each.requires_grad, each is given) for each in tensors]
    return values, [each._version for each in tensors[:6]]


def compare(write, read, steps):
    """Let two worlds go through the same steps, one of them compiled."""
    eager, compiled = World(write, read), World(write, read)
    run = flambeau.compile(compiled.step)
    for change, name in steps:
        outcomes = []
        for world, call in ((eager, eager.step), (compiled, run)):
            CHANGES[change](world)
            given = GIVEN[name](world)
            outcomes.append(seen(world, given, call(given)))
        assert (change, name, outcomes[1]) == (change, name, outcomes[0])
    return run


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("write", WRITES)
def test_what_is_captured_may_be_given_too(write, read):
    steps = [("none", name) for name in (*GIVEN, "another", "gradient")]
    run = compare(write, read, steps)
    assert compare(write, read, [*steps, *steps]).program_count == run.program_count


@pytest.mark.parametrize("name", ["gradient", "alias of a gradient"])
@pytest.mark.parametrize("write", ["gradients", "given", "both"])
def test_new_gradients_need_one_program_at_most(write, name):
    run = compare(write, "captured", [("other gradients", name)] * 4)
    assert run.program_count <= 1


@pytest.mark.parametrize("write", ["gradients", "train", "both"])
def test_gradients_may_become_the_same_later(write):
    steps = [(change, "another") for change in (*CHANGES, *reversed(CHANGES))]
    compare(write, "captured", steps)


steps = st.tuples(st.sampled_from([*CHANGES]), st.sampled_from([*GIVEN]))


@settings(deadline=None, max_examples=15)
@given(st.sampled_from([*WRITES]), st.sampled_from([*READS]), st.lists(steps, max_size=4))
def test_any_sharing_may_change_between_calls(write, read, steps):
    compare(write, read, steps)


MADE = {
    "materialized zeros": lambda: flambeau.autograd.grad(
        USED.sum(), [UNUSED], materialize_grads=True
    )[0],
    "a gradient": lambda: flambeau.autograd.grad(USED.sum(), [USED])[0],
    "vjp": lambda: flambeau.autograd.functional.vjp(lambda a: a.sum(), BASE)[1],
    "jacobian": lambda: flambeau.autograd.functional.jacobian(lambda a: a * 1, BASE)[0],
    "func.jvp": lambda: flambeau.func.jvp(lambda a: a * 1, (BASE,), (BASE,))[1],
    "zeros": lambda: flambeau.zeros(2),
    "a window": lambda: flambeau.hann_window(2),
    "a buffer": lambda: flambeau.nn.BatchNorm1d(2).running_mean,
}
USED = flambeau.ones(2, requires_grad=True)
UNUSED = flambeau.ones(2, requires_grad=True)
BASE = flambeau.ones(2)


@pytest.mark.parametrize("name", MADE)
def test_what_a_call_makes_is_new_at_each_call(name):
    def add(x):
        made = MADE[name]()
        result = x + made
        made[0] = 5.0
        return result

    expected = add(flambeau.zeros(2)).tolist()
    compiled = flambeau.compile(add)
    assert [compiled(flambeau.zeros(2)).tolist() for _ in range(3)] == [expected] * 3


COPIES = {
    "copy_": lambda x: x.copy_(BASE),
    "assignment": lambda x: x.__setitem__(slice(None), BASE),
    "twice": lambda x: [x.copy_(BASE), x.copy_(BASE)],
    "and read": lambda x: x.copy_(BASE) + 1,
    "and written": lambda x: x.copy_(BASE).add_(1),
    "before that": lambda x: x.add_(1).copy_(BASE),
    "data": lambda x: setattr(x, "data", BASE),
    "out": lambda x: flambeau.mul(BASE, 1, out=x),
    "swapped": lambda x: [y := x.clone(), x.copy_(BASE), x.add_(y)],
}


@pytest.mark.parametrize("name", COPIES)
def test_an_argument_that_takes_the_whole_of_a_captured_tensor(name):
    expected = flambeau.zeros(2)
    COPIES[name](expected)

    @flambeau.compile
    def write(x):
        COPIES[name](x)

    for _ in range(2):
        found = flambeau.zeros(2)
        write(found)
        assert found.tolist() == expected.tolist()
        assert BASE.tolist() == [1.0, 1.0]
