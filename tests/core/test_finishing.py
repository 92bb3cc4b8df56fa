"""Changes of several values: an interrupt leaves all as before or all as after."""

import sys

import pytest

import flambeau
from flambeau import nn, optim
from flambeau.core.programs.gears import held
from flambeau.core.support.modes import modes
from flambeau.optim import lr_scheduler, swa_utils
from flambeau.utils.checkpoint import checkpoint

# Places in flambeau's own code at which each change is interrupted.
PLACES = 60


# Interrupts are placed by counting events, which must be the same in each run.
pytestmark = pytest.mark.usefixtures("all_compiled")


class Interrupt(BaseException):
    """What the tests raise where Python may raise a KeyboardInterrupt."""


def layer():
    found = nn.Linear(3, 2)
    nn.init.ones_(found.weight)
    nn.init.zeros_(found.bias)
    for each in found.parameters():
        each.grad = flambeau.full_like(each, 4.0)
    return found


def gradients(found):
    return lambda: [each.grad.tolist() for each in found.parameters()]


def clipped_norm():
    found = layer()
    return lambda: nn.utils.clip_grad_norm_(found.parameters(), 1.0), gradients(found)


def clipped_values():
    found = layer()
    return lambda: nn.utils.clip_grad_value_(found.parameters(), 1.0), gradients(found)


def values_of(tensors):
    return lambda: [each.tolist() for each in tensors]


def written_vector():
    members = list(layer().parameters())
    vector = flambeau.arange(8.0)
    return lambda: nn.utils.vector_to_parameters(vector, members), values_of(members)


def foreach_added():
    tensors = [flambeau.ones(3), flambeau.ones(2)]
    return lambda: flambeau._foreach_add_(tensors, 1.0), values_of(tensors)


def foreach_copied():
    tensors, values = [flambeau.ones(3), flambeau.ones(2)], [flambeau.zeros(3), flambeau.zeros(2)]
    return lambda: flambeau._foreach_copy_(tensors, values), values_of(tensors)


def averaged():
    found = nn.Sequential(layer(), nn.BatchNorm1d(2))
    average = swa_utils.AveragedModel(found)
    average.update_parameters(found)
    with flambeau.no_grad():
        for each in [*found.parameters(), *found.buffers()]:
            each.add_(1)
    members = [*average.parameters(), *average.buffers()]
    return lambda: average.update_parameters(found), values_of(members)


def unscaled():
    found = layer()
    optimizer, scaler = optim.SGD(found.parameters()), flambeau.amp.GradScaler("cpu", 4.0)
    scaler.scale(flambeau.ones(()))
    state = gradients(found)
    return lambda: scaler.unscale_(optimizer), lambda: [state(), bool(scaler._optimizers)]


def rescaled():
    action, _ = unscaled()
    action()
    scaler = action.__closure__[1].cell_contents
    assert isinstance(scaler, flambeau.amp.GradScaler)
    return scaler.update, lambda: [scaler.get_scale(), bool(scaler._optimizers)]


def loaded_state():
    def stepped(lr, steps):
        optimizer = optim.Adam(layer().parameters(), lr=lr)
        for _ in range(steps):
            optimizer.step()
        return optimizer

    optimizer, other = stepped(0.1, 1), stepped(0.2, 2).state_dict()
    return lambda: optimizer.load_state_dict(other), lambda: repr(optimizer.state_dict())


def scheduled(make, *values):
    optimizer = optim.SGD(layer().parameters(), lr=0.1, momentum=0.9)
    scheduler = make(optimizer)
    optimizer.step()

    def state():
        inner = [each.state_dict() for each in getattr(scheduler, "_schedulers", [])]
        outer = {name: value for name, value in vars(scheduler).items() if name != "optimizer"}
        outer.pop("_schedulers", None)
        return repr([optimizer.state_dict()["param_groups"], inner, outer])

    return lambda: scheduler.step(*values), state


def exponential():
    return scheduled(lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.5))


def one_cycle():
    return scheduled(lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=9))


def restarts():
    return scheduled(lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5))


def chained():
    return scheduled(
        lambda optimizer: lr_scheduler.ChainedScheduler(
            [lr_scheduler.ExponentialLR(optimizer, each) for each in (0.5, 0.9)]
        )
    )


def plateau():
    return scheduled(
        lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=-1), -1.0
    )


def recorded_write():
    leaf = flambeau.ones(3, requires_grad=True)
    tensor = leaf * 2
    tensor.retain_grad()

    def state():
        tensor.grad = leaf.grad = None
        tensor.sum().backward(retain_graph=True)
        return [tensor.tolist(), leaf.grad.tolist(), tensor.grad.tolist()]

    return lambda: tensor.mul_(3.0), state


def recorded_write_to_a_part():
    leaf = flambeau.ones(3, requires_grad=True)
    tensor = leaf * 2

    def state():
        leaf.grad = None
        tensor.sum().backward(retain_graph=True)
        return [tensor.tolist(), leaf.grad.tolist()]

    return lambda: tensor[1:].mul_(3.0), state


def batch_counted():
    found = nn.BatchNorm1d(3)
    x = flambeau.arange(12.0).reshape(4, 3)
    return lambda: found(x), values_of([*found.buffers()])


def two_layers():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))


def first_backward():
    found = two_layers()
    total = found(flambeau.ones(4, 3)).sum()
    return lambda: total.backward(retain_graph=True), gradients_or_none(found)


def later_backward():
    found = two_layers()
    total = found(flambeau.ones(4, 3)).sum()
    total.backward(retain_graph=True)
    return lambda: total.backward(retain_graph=True), gradients_or_none(found)


def recorded_backward():
    leaves = [flambeau.ones(3, requires_grad=True), flambeau.ones(3, requires_grad=True)]
    middle = leaves[0] * leaves[1]
    middle.retain_grad()
    total = middle.square().sum()
    total.backward(create_graph=True)

    def state():
        return [[each.grad.tolist(), each.grad.requires_grad] for each in (*leaves, middle)]

    return lambda: total.backward(create_graph=True), state


def backward_of_a_checkpoint():
    found = two_layers()
    x = flambeau.ones(4, 3, requires_grad=True)

    def run():
        checkpoint(found, x, use_reentrant=True).sum().backward()

    return run, gradients_or_none(found)


def gradients_or_none(found):
    return lambda: [
        None if each.grad is None else each.grad.tolist() for each in found.parameters()
    ]


CHANGES = [
    batch_counted, first_backward, later_backward, recorded_backward, backward_of_a_checkpoint,
    clipped_norm, clipped_values, written_vector, foreach_added, foreach_copied, averaged, unscaled,
    rescaled, loaded_state, exponential, one_cycle, restarts, chained, plateau,
    recorded_write, recorded_write_to_a_part,
]  # fmt: skip


@pytest.fixture(autouse=True)
def _equal_calls_do_the_same():
    with held():
        yield


class Events:
    """A trace function that counts what happens in flambeau's code, and raises at one of these."""

    def __init__(self, at=0):
        self.count, self.at = 0, at

    def __call__(self, frame, event, argument):
        # Python prints what a generator raises while it is being closed, and goes on.
        if "/flambeau/" in frame.f_code.co_filename and frame.f_code.co_name != "<genexpr>":
            self.count += 1
            if self.count == self.at:
                raise Interrupt
        return self


def traced(action, events):
    previous, modes_before = sys.gettrace(), dict(vars(modes))
    sys.settrace(events)
    try:
        action()
    finally:
        sys.settrace(previous)
        # An interrupt just as `no_grad` ends leaves it on, as is documented.
        vars(modes).clear()
        vars(modes).update(modes_before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("change", CHANGES)
def test_an_interrupted_change_is_none_or_the_whole(change):
    action, state = change()
    before = state()
    action()  # What it computes is compiled now.
    after = state()
    assert after != before
    for _ in range(3):  # The first times, caches are filled.
        action, state = change()
        counted = Events()
        traced(action, counted)
        state()
    # Writing comes last, so most places are there.
    early = range(1, counted.count // 2, max(1, counted.count // PLACES))
    late = range(counted.count // 2, counted.count, max(1, counted.count // 2 // PLACES))
    for at in [*early, *late]:
        action, state = change()
        with pytest.raises(Interrupt):
            traced(action, Events(at))
        assert state() in (before, after), f"at event {at} of {counted.count}"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupted_first_call_of_a_lazy_layer_can_be_made_again():
    x = flambeau.ones(2, 3)

    def first_call():
        flambeau.manual_seed(0)
        layer = nn.LazyLinear(2)
        return layer, lambda: layer(x)

    for _ in range(3):
        _, action = first_call()
        counted = Events()
        traced(action, counted)
    for at in range(1, counted.count, max(1, counted.count // (2 * PLACES))):
        layer, action = first_call()
        with pytest.raises(Interrupt):
            traced(action, Events(at))
        flambeau.manual_seed(0)
        layer(x)
        assert type(layer) is nn.Linear, f"at event {at}"
        assert not layer._forward_pre_hooks, f"at event {at}"
        assert not layer._load_state_dict_pre_hooks, f"at event {at}"
        assert layer.in_features == 3
        shapes = {name: each.shape for name, each in layer.state_dict().items()}
        assert shapes == {"weight": (2, 3), "bias": (2,)}, f"at event {at}"
