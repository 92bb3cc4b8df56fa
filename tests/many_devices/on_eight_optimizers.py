"""Every optimizer on parameters that are divided over eight devices."""

import jax
import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor

ALL = sorted(
    name
    for name in optim.__all__
    if isinstance(each := getattr(optim, name), type)
    and issubclass(each, optim.Optimizer)
    and each is not optim.Optimizer
)
OPTIONS = {
    "SGD": {"momentum": 0.9, "nesterov": True}, "RMSprop": {"momentum": 0.5, "centered": True},
    "Adam": {"amsgrad": True},
    "LBFGS": {"lr": 1.0, "max_iter": 3, "line_search_fn": "strong_wolfe"},
}  # fmt: skip


class Net(nn.Module):
    """Two matrices; the first is looked up in where gradients are to be sparse."""

    def __init__(self, sparse):
        super().__init__()
        self.rows = nn.Embedding(16, 8, sparse=sparse)
        self.matrix = nn.Linear(8, 8, bias=False)

    def forward(self, x):
        y = self.rows(x)
        return y if self.rows.sparse else self.matrix(y)


def trained(name, on_mesh):
    flambeau.manual_seed(0)
    net = Net(sparse=name == "SparseAdam")
    if on_mesh:
        mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))
        rules = {"rows.weight": ("data", "model"), "matrix.weight": (None, "model")}
        flambeau.shard(net, mesh, rules)
    params = [net.rows.weight] if name == "SparseAdam" else [*net.parameters()]
    optimizer = getattr(optim, name)(params, **{"lr": 0.01} | OPTIONS.get(name, {}))
    x = flambeau.tensor([0, 3, 5, 9, 15, 3, 1, 2])

    def closure():
        optimizer.zero_grad()
        loss = (net(x) - 1).square().mean()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(3)]
    return losses, net, optimizer


@pytest.mark.parametrize("name", ALL)
def test_an_optimizer_gives_the_numbers_of_one_device_and_divides_its_state(name):
    losses, one, _ = trained(name, on_mesh=False)
    found, many, optimizer = trained(name, on_mesh=True)
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    for single, spread in zip(one.parameters(), many.parameters(), strict=True):
        np.testing.assert_allclose(
            spread.numpy(force=True), single.numpy(force=True), rtol=2e-4, atol=1e-5
        )
    assert many.rows.weight.placements == (Shard(0), Shard(1))
    assert many.matrix.weight.placements == (Replicate(), Shard(1))
    if name == "LBFGS":
        return  # its state is one vector of all parameters
    for param in optimizer.param_groups[0]["params"]:
        for key, value in optimizer.state[param].items():
            if value.shape == param.shape:
                assert value.placements == param.placements, key


def test_the_table_has_all_optimizers():
    assert {"Adafactor", "AdamW", "LBFGS", "Muon", "SGD", "SparseAdam"} < {*ALL}


def test_a_compiled_step_copies_the_numbers_of_an_optimizer_to_its_devices_once(monkeypatch):
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("data",))
    flambeau.manual_seed(0)
    nets = nn.Linear(8, 8), nn.Linear(8, 8)
    nets[1].load_state_dict(nets[0].state_dict())
    flambeau.shard(nets[1], mesh, {"weight": ("data", None)})
    optimizers = [optim.AdamW(net.parameters(), lr=0.01) for net in nets]
    x, copies, put = flambeau.ones(8), [], jax.device_put

    def stepped(net, optimizer):
        @flambeau.compile
        def step(x):
            net(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    def counted(array, where=None, **options):
        if isinstance(where, jax.sharding.NamedSharding) and array.dtype == np.float64:
            copies.append(array)
        return put(array, where, **options)

    steps = [stepped(*each) for each in zip(nets, optimizers, strict=True)]
    for step in steps:
        step(x)
    monkeypatch.setattr(jax, "device_put", counted)
    for expected in (0, 1):
        for step in steps * 3:
            step(x)
        assert len(copies) == expected
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = 0.1
    assert [each.program_count for each in steps] == [1, 1]
    for one, many in zip(*(net.parameters() for net in nets), strict=True):
        assert flambeau.allclose(one, many.full_tensor(), rtol=1e-5)


def test_programs_that_are_called_at_once_all_end():
    mesh = init_device_mesh("cpu", (8,))
    flambeau.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 8))
    fully_shard(net, mesh=mesh)
    optimizer = optim.LBFGS(net.parameters(), lr=0.01)
    x = distribute_tensor(flambeau.randn(16, 32), mesh, [Shard(0)])

    def closure():
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    first, *_, last = [float(optimizer.step(closure)) for _ in range(3)]
    assert last < first


def test_a_program_over_several_cpu_devices_has_ended_when_it_returns():
    # XLA's devices would wait for each other with more than 32 of them.
    mesh = init_device_mesh("cpu", (8,))
    x = distribute_tensor(flambeau.ones(800, 400), mesh, [Shard(0)])
    for _ in range(40):
        y = (x @ x.t()).sum()
        assert y.jax().is_ready()
