"""Other arrays, shapes and members for tensors and modules from outside, as in eager code.

The law, for every way to put an array into a tensor and every place where the tensor may be: after
each call all is as it is eagerly; after a trace that raises all is as it was before; and no tracer
is left behind. Where the tensor gets other data or another shape in place, the call runs eagerly.
"""

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import SideEffectError
from tests.compile.following import MAY_RUN_EAGERLY, argument, check_as_eagerly, shown, tracers

pytestmark = MAY_RUN_EAGERLY


class Held(nn.Module):
    """A module with one parameter and one buffer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.tensor([[1.0, 2.0], [3.0, 4.0]]))
        self.register_buffer("mean", flambeau.ones(2, 2))

    def forward(self, x):
        return x * self.weight + self.mean


# Places: each gives the function to call and what gives the tensor, from an argument and a module.


def parameter_of_module_called(module):
    return lambda x: module(x).detach().sum() * 0 + x, lambda x: module.weight


def parameter_of_module_not_called(module):
    return lambda x: x, lambda x: module.weight


def buffer(module):
    return lambda x: module(x).detach().sum() * 0 + x, lambda x: module.mean


def closure(module):
    tensor = module.mean
    return lambda x: x + tensor.sum(), lambda x: tensor


def in_list(module):
    tensors = [module.mean, flambeau.zeros(3)]
    return lambda x: x, lambda x: tensors[0]


def gradient(module):
    module.weight.grad = flambeau.full((2, 2), 2.0)
    return lambda x: x, lambda x: module.weight.grad


def optimizer_state(module):
    optimizer = flambeau.optim.SGD([module.weight], lr=0.1, momentum=0.9)
    module.weight.grad = flambeau.full((2, 2), 2.0)
    optimizer.step()
    return lambda x: x, lambda x: optimizer.state[module.weight]["momentum_buffer"]


def the_argument(module):
    return lambda x: x, lambda x: x


PLACES = [
    parameter_of_module_called, parameter_of_module_not_called, buffer, closure, in_list, gradient,
    optimizer_state, the_argument,
]  # fmt: skip


# Ways: each puts something computed from ``x`` into ``tensor``.


def data(tensor, x):
    tensor.data = tensor.data * 0.5 + x


def data_of_another_shape(tensor, x):
    tensor.data = x.sum(0)


def data_of_another_dtype(tensor, x):
    tensor.data = (tensor * 0.5 + x).detach().double()


def data_of_a_view(tensor, x):
    tensor.data = flambeau.stack([x, x + 1])[1]


def data_twice_and_then_in_place(tensor, x):
    tensor.data = x * 2
    tensor.data = tensor.data + 1
    with flambeau.no_grad():
        tensor.mul_(2)


def in_place_and_then_data(tensor, x):
    with flambeau.no_grad():
        tensor.add_(x)
    tensor.data = tensor.data * 3


def copy(tensor, x):
    with flambeau.no_grad():
        tensor.copy_(tensor * 0.5 + x)


def transposed(tensor, x):
    with flambeau.no_grad():
        tensor.t_().add_(x)


def unsqueezed(tensor, x):
    with flambeau.no_grad():
        tensor.unsqueeze_(0)


def resized(tensor, x):
    if not tensor.requires_grad:
        tensor.resize_(2)


def gradient_of_it(tensor, x):
    tensor.grad = (tensor * 2).detach()


def attribute(tensor, x):
    tensor.note = x * 2


WAYS = [
    data, data_of_another_shape, data_of_another_dtype, data_of_a_view,
    data_twice_and_then_in_place, in_place_and_then_data, copy, transposed, unsqueezed, resized,
    gradient_of_it, attribute,
]  # fmt: skip


def exchanging(place, way):
    """A scene for `course`, see there."""

    def make():
        module = Held()
        call, get = place(module)
        aliases = [module.mean.detach(), module.weight.detach()]

        def step(x):
            made = call(x) + 1
            way(get(x), x.clone())
            return made

        def change(_):
            # What no longer fits is put back, so that each call can do the same.
            if place is not the_argument:
                tensor = get(None)
                vars(tensor).pop("note", None)
                if tuple(tensor.shape) != (2, 2) or tensor.dtype is not flambeau.float32:
                    tensor.data = flambeau.ones(2, 2)
                tensor.grad = None

        def state():
            tensor = None if place is the_argument else get(None)
            return tensor, aliases, [*module.parameters(), *module.buffers()]

        return step, state, change

    return make


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_every_way_in_every_place_is_as_eager(place, way):
    check_as_eagerly(exchanging(place, way))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_trace_that_raises_leaves_every_tensor_as_it_was(place, error):
    module = Held()
    call, get = place(module)

    def function(x):
        call(x)
        for way in WAYS:
            way(get(x), flambeau.ones(2, 2) * x.sum())
            get(x).data = x * 2
        raise error("stop")

    def state(x):
        tensors = [*module.parameters(), *module.buffers(), get(x)]
        return [(shown(e), id(e), id(e._cell), e._user_attributes()) for e in tensors]

    run, x = flambeau.compile(function, fullgraph=True), argument(0)
    before = state(x)
    for _ in range(2):
        with pytest.raises(error, match="stop"):
            run(x)
        assert state(x) == before
    assert not tracers()


def test_no_tracer_is_left_behind():
    module = Held()
    parameter = module.weight

    def function(x):
        (module(x) * parameter).sum().backward()
        parameter.data = parameter - 0.1 * parameter.grad
        parameter.grad.data = parameter.grad * 2
        module.mean = x * 2
        module.register_buffer("more", x.clone())
        parameter.note = x + 1

    run = flambeau.compile(function)
    for call in range(3):
        run(argument(call))
    assert not tracers()


# Whole modules


def converted(module, x):
    module.double()


def loaded(module, x):
    module.load_state_dict({"weight": x * 2, "mean": x + 1}, assign=True)


def new_parameter(module, x):
    module.weight = nn.Parameter(x * 2)


def new_frozen_parameter(module, x):
    module.register_parameter("weight", nn.Parameter(x * 2, requires_grad=False))


def new_buffer(module, x):
    module.register_buffer("more", x * 2)


def other_buffer(module, x):
    module.mean = x * 2


def straight_into_the_table(module, x):
    module._buffers["mean"] = x * 2


def updated_table(module, x):
    module._buffers.update(mean=x * 2, more=x * 3)


def deleted_and_made_again(module, x):
    weight = module.weight
    del module.weight
    module.mean = x * 2
    module.weight = weight


CHANGES = [
    converted, loaded, new_parameter, new_frozen_parameter, new_buffer, other_buffer,
    straight_into_the_table, updated_table, deleted_and_made_again,
]  # fmt: skip


def members(module):
    named = [*module.named_parameters(), *module.named_buffers()]
    return sorted(named, key=lambda pair: pair[0])


@pytest.mark.parametrize("when", ["not called", "called before", "called after", "inside another"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_members_of_modules_are_changed_at_each_call(change, when):
    def make():
        held = Held()
        outer = nn.Sequential(held)

        def step(x):
            made = held(x) if when == "called before" else x + 1
            change(outer[0] if when == "inside another" else held, x)
            return held(x.double()) + 1 if when == "called after" else made

        return step, lambda: members(held)

    check_as_eagerly(make)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_trace_that_raises_leaves_every_member_as_it_was(change):
    held = Held()

    def function(x):
        change(held, x)
        raise ValueError("stop")

    run, before = flambeau.compile(function, fullgraph=True), members(held)
    with pytest.raises(ValueError, match="stop"):
        run(argument(0))
    after = members(held)
    assert [name for name, _ in after] == [name for name, _ in before]
    assert all(one is other for (_, one), (_, other) in zip(before, after, strict=True))


# What tensors share: scenes


def a_tensor_takes_over_another():
    first, second = flambeau.zeros(2, 2), flambeau.ones(2, 2)

    def step(x):
        first.data = second
        second.add_(x)
        return x * first, first._cell is second._cell

    return step, lambda: (first, second), lambda call: second.mul_(2)


def a_tensor_takes_over_an_argument():
    kept, given = flambeau.zeros(2, 2), []

    def step(x):
        kept.data = x
        given.append(x) if not given else None

    return step, lambda: (kept, given), lambda call: given.pop().add_(1)


def tensors_change_places():
    first, second = flambeau.zeros(2, 2), flambeau.ones(2, 2)

    def step(x):
        first.add_(x)
        before = first.data
        first.data = second.data
        second.data = before
        return x * first - second

    return step, lambda: (first, second)


def aliases_keep_the_old_elements():
    tensor = flambeau.zeros(2, 2)
    alias, part = tensor.detach(), tensor[0]

    def step(x):
        tensor.data = tensor + x
        alias.add_(1)
        return x + alias + part

    return step, lambda: (tensor, alias, part)


def gradients_reach_a_tensor_with_other_elements():
    weight, results = nn.Parameter(flambeau.ones(2, 2)), []

    def step(x):
        results[:] = [(weight * weight * x).sum()]
        weight.data = weight * 2

    return step, lambda: weight, lambda call: results[0].backward()


def a_gradient_is_a_tensor_from_outside():
    weight, gradient = nn.Parameter(flambeau.ones(2, 2)), flambeau.zeros(2, 2)

    def step(x):
        weight.grad = gradient
        gradient.add_(x)
        return x + 1

    return step, lambda: (weight, gradient), lambda call: setattr(weight, "grad", None)


def the_gradient_of_an_argument():
    def step(x):
        x.grad = flambeau.ones(2, 2)
        gradient = x.grad
        x.grad.mul_(2)
        return gradient, x.grad.sum()

    return step, lambda: None


def a_tensor_is_returned_itself():
    weight = nn.Parameter(flambeau.ones(2, 2))

    def step(x):
        weight.data = weight.data + x
        return weight

    return step, lambda: weight


def a_hook_exchanges():
    weight, kept = nn.Parameter(flambeau.ones(2, 2)), flambeau.zeros(2, 2)
    weight.register_hook(lambda gradient: setattr(kept, "data", gradient * 2))

    def step(x):
        (x * weight).sum().backward()

    return step, lambda: (weight, kept)


def training_with_data():
    weight, average = nn.Parameter(flambeau.tensor([1.0, -0.05])), flambeau.zeros(2)
    optimizer = flambeau.optim.RMSprop([weight], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()
        weight.data = weight.data.clamp(-0.1, 0.1)
        average.data = average * 0.9 + weight.detach() * 0.1

    return step, lambda: (weight, average)


def a_shape_on_the_tape_and_elements():
    tensor = nn.Parameter(flambeau.ones(2, 2)) * 2

    def step(x):
        tensor.t_().mul_(x)
        return tensor * 2, tensor._is_view()

    return step, lambda: tensor


SCENES = [
    a_shape_on_the_tape_and_elements, a_tensor_takes_over_another, a_tensor_takes_over_an_argument,
    tensors_change_places, aliases_keep_the_old_elements,
    gradients_reach_a_tensor_with_other_elements, a_gradient_is_a_tensor_from_outside,
    the_gradient_of_an_argument, a_tensor_is_returned_itself, a_hook_exchanges, training_with_data,
]  # fmt: skip


@pytest.mark.parametrize("make", SCENES, ids=lambda make: make.__name__)
def test_what_shares_elements_is_as_eager(make):
    check_as_eagerly(make)


def test_data_that_is_put_back_is_one_program():
    kept = flambeau.ones(2, 2)

    def function(x):
        before = kept.data
        kept.data = x * 2
        found = kept + 1
        kept.data = before
        return found

    run = flambeau.compile(function, fullgraph=True)
    for call in range(2):
        assert flambeau.equal(run(argument(call)), argument(call) * 2 + 1)
    assert kept.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert run.program_count == 1


IN_PLACE = [
    data, data_of_another_shape, data_of_another_dtype, data_of_a_view,
    data_twice_and_then_in_place, in_place_and_then_data, transposed, unsqueezed,
]  # fmt: skip


@pytest.mark.parametrize("way", IN_PLACE, ids=lambda way: way.__name__)
def test_other_data_and_shapes_are_refused(way):
    kept = flambeau.ones(2, 2)
    run = flambeau.compile(lambda x: way(kept, x), fullgraph=True)
    for _ in range(2):
        run(flambeau.ones(2, 2))
    before = shown(kept), kept._cell, kept._cell.array
    with pytest.raises(SideEffectError, match="other data, another shape or another class"):
        run(flambeau.ones(2, 2))
    assert (shown(kept), kept._cell, kept._cell.array) == before


def test_a_shape_changed_outside_is_seen():
    tensor = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
    run, x = flambeau.compile(lambda x: x + tensor), argument(0)
    for change in (lambda: None, tensor.t_, lambda: tensor.unsqueeze_(0), tensor.squeeze_):
        change()
        np.testing.assert_array_equal(run(x).numpy(), (x + tensor).numpy())
    other = flambeau.ones(4)
    run = flambeau.compile(lambda x: x + other.sum())
    assert run(x).sum().item() == (x + 4).sum().item()
    other.resize_(2)
    assert run(x).sum().item() == (x + 2).sum().item()
