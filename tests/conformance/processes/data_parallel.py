"""A PyTorch program of two processes: ``python data_parallel.py FOLDER``.

Each process writes what it has found, by name, to ``FOLDER/RANK.json``.
"""

import copy

import torch
import torch.distributed as dist
from _shared import RANK, run
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

ROWS = 4


class Net(nn.Module):
    def __init__(self, normalized=False):
        super().__init__()
        self.first = nn.Linear(4, 8, bias=not normalized)
        self.norm = nn.BatchNorm1d(8) if normalized else nn.Tanh()
        self.last = nn.Linear(8, 3)
        self.sometimes = nn.Linear(8, 3)
        self.never = nn.Linear(2, 2)

    def forward(self, x, uses=False):
        hidden = self.norm(self.first(x)).sigmoid()
        return self.last(hidden) + (self.sometimes(hidden) if uses else 0)


def network(normalized=False, **options):
    """A wrapped network whose weights differ between the processes before it is wrapped."""
    net = Net(normalized)
    with torch.no_grad():
        for each in net.parameters():
            each.copy_(torch.arange(each.numel()).reshape(each.shape).sin() * 0.3 + RANK)
    return DistributedDataParallel(net, find_unused_parameters=True, **options)


def batch(step, rows=ROWS):
    x = (torch.arange(320.0) * 0.7).sin().reshape(10, 2 * ROWS, 4)
    y = torch.arange(80).reshape(10, 2 * ROWS) % 3
    return x[step, RANK * ROWS :][:rows], y[step, RANK * ROWS :][:rows]


def loss_of(net, step, *options):
    x, y = batch(step)
    return nn.functional.cross_entropy(net(x, *options), y)


def trained(net, steps, uses=lambda step: False, optimizer=torch.optim.SGD, lr=0.5):
    chosen, losses = optimizer(net.parameters(), lr=lr), []
    for step in range(steps):
        chosen.zero_grad()
        loss = loss_of(net, step, uses(step))
        loss.backward()
        chosen.step()
        losses.append(loss.item())
    return {"losses": losses, **state(net)}


def state(net):
    return {name: each.tolist() for name, each in net.state_dict().items()}


def gradients(net):
    found = [(name, each.grad) for name, each in net.named_parameters()]
    return {name: None if grad is None else grad.tolist() for name, grad in found}


def training():
    return trained(network(), 6)


def adaptive_steps_with_running_statistics():
    return trained(network(normalized=True), 5, optimizer=torch.optim.Adam, lr=0.05)


def own_statistics():
    return trained(network(normalized=True, broadcast_buffers=False), 5)


def parameters_that_one_process_uses():
    return trained(network(), 4, uses=lambda step: step % 2 == RANK)


def accumulated_gradients():
    net, found = network(), []
    with net.no_sync():
        loss_of(net, 0).backward()
        found.append(gradients(net))
        loss_of(net, 1).backward()
    loss_of(net, 2).backward()
    found.append(gradients(net))
    # The forward pass decides.
    with net.no_sync():
        loss = loss_of(net, 3)
    loss.backward()
    found.append(gradients(net))
    return found


def without_gradient():
    net = network(normalized=True)
    with torch.no_grad():
        found = [loss_of(net, 0).item()]
    net.eval()
    return [*found, loss_of(net, 1).item(), state(net)]


def a_copy():
    net = copy.deepcopy(network())
    return trained(net, 2)


def hooks(hook):
    net = network()
    net.register_comm_hook(None, hook)
    return trained(net, 3)


def averaged_by_a_hook():
    return hooks(default_hooks.allreduce_hook)


def averaged_in_half_precision():
    return hooks(default_hooks.fp16_compress_hook)


def averaged_by_a_hook_of_ones_own():
    def halved(state, bucket):
        total = bucket.buffer() * 0.5
        return dist.all_reduce(total, async_op=True).get_future().then(lambda each: each.value()[0])

    return hooks(halved)


def unequal_numbers_of_batches(**options):
    net = network(normalized=True)
    chosen = torch.optim.SGD(net.parameters(), lr=0.5)
    with Join([net], **options):
        for step in range(3 + 2 * RANK):
            chosen.zero_grad()
            loss_of(net, step).backward()
            chosen.step()
    return state(net)


def divided_by_those_that_go_on():
    return unequal_numbers_of_batches(divide_by_initial_world_size=False)


def ends_all_when_one_has_finished():
    try:
        unequal_numbers_of_batches(throw_on_early_termination=True)
    except RuntimeError as error:
        return "exhausted" in str(error)
    return "no error"


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        return self.one(x), self.other(x)


def backward_passes_to_different_parameters():
    net = DistributedDataParallel(Two())
    one, other = net(batch(0)[0])
    one.square().sum().backward()
    other.square().sum().backward()
    return gradients(net)


class Again(torch.autograd.Function):
    """Computes a layer again in its backward, as reversible networks do."""

    @staticmethod
    def forward(ctx, x, layer):
        ctx.layer = layer
        ctx.save_for_backward(x)
        return layer(x)

    @staticmethod
    def backward(ctx, grad):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            found = ctx.layer(x)
        torch.autograd.backward(found, grad)
        return x.grad, None


class Reversible(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return Again.apply(self.first(x), self.last)


def a_backward_pass_in_another():
    net = DistributedDataParallel(Reversible())
    net(batch(0)[0]).square().sum().backward()
    return gradients(net)


def gradients_of_a_bucket_are_views():
    def tripled(state, bucket):
        for each in bucket.gradients():
            each.mul_(3)
        total = bucket.buffer() / 2
        return dist.all_reduce(total, async_op=True).get_future().then(lambda each: each.value()[0])

    return hooks(tripled)


class Changing(nn.Module):
    """Its buffers come and go, and a parameter has no elements."""

    def __init__(self):
        super().__init__()
        self.empty, self.layer = nn.Parameter(torch.zeros(0, 2)), nn.Linear(4, 2)
        for name in ("kept", "dropped"):
            self.register_buffer(name, torch.ones(1) * RANK)

    def forward(self, x):
        if not hasattr(self, "new"):
            self.register_buffer("new", torch.ones(1) * RANK)
        self.dropped = None
        return self.layer(x) * self.kept + self.empty.sum(0)


def buffers_that_come_and_go():
    net = DistributedDataParallel(Changing())
    for _ in range(2):
        net(batch(0)[0]).square().sum().backward()
    return state(net)


CASES = [
    backward_passes_to_different_parameters,
    a_backward_pass_in_another,
    gradients_of_a_bucket_are_views,
    buffers_that_come_and_go,
    training,
    adaptive_steps_with_running_statistics,
    own_statistics,
    parameters_that_one_process_uses,
    accumulated_gradients,
    without_gradient,
    a_copy,
    averaged_by_a_hook,
    averaged_in_half_precision,
    averaged_by_a_hook_of_ones_own,
    unequal_numbers_of_batches,
    divided_by_those_that_go_on,
    ends_all_when_one_has_finished,
]

if __name__ == "__main__":
    run(CASES)
