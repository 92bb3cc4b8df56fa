"""Training on eight devices gives the numbers of one, whatever the model and the mesh."""

import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.core.support.statistics import statistics
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.fsdp import (
    FSDPModule,
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    fully_shard,
)
from flambeau.distributed.tensor import Replicate, Shard
from flambeau.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from flambeau.nn import functional as F
from flambeau.nn.parallel import DistributedDataParallel
from tests.many_devices.models import MODELS, STYLES, Experts, Perceptron, Transformer, numbers


def on_one(model):
    return model


def data_parallel(model):
    return DistributedDataParallel(model)


def fully_sharded(model):
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("data",))
    for block in getattr(model, "blocks", ()):
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def hybrid(model):
    return fully_shard(model, mesh=init_device_mesh("cpu", (4, 2), mesh_dim_names=("copy", "cut")))


def experts_apart(model, mesh):
    """Each device of a dimension of the mesh has other experts."""
    if isinstance(model, Experts):
        flambeau.shard(model, mesh["model"], {"up": ("model",), "down": ("model",)})


def tensor_and_data_parallel(model):
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))
    experts_apart(model, mesh)
    plan = {}
    if isinstance(model, Perceptron | Transformer):
        plan = {
            path: STYLES[path]
            for path in STYLES
            if isinstance(model, Transformer) or path[1] != "."
        }
    parallelize_module(model, mesh["model"], plan)
    return DistributedDataParallel(model, device_mesh=mesh["data"])


def three_dimensions(model):
    names = ("copy", "data", "model")
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=names)
    experts_apart(model, mesh)
    if isinstance(model, Perceptron | Transformer):
        parallelize_module(model, mesh["model"], {"*up": STYLES["*up"], "*down": STYLES["*down"]})
    return fully_shard(model, mesh=mesh["copy", "data"])


def by_rules(model):
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("all",))
    rules = {name: ("all",) for name, each in model.named_parameters() if each.shape[0] % 8 == 0}
    return flambeau.shard(model, mesh, rules)


def train(name, way, compiled, steps):
    """The losses and the parameters, and how many programs of the step were compiled."""
    make, batch = MODELS[name]
    flambeau.manual_seed(0)
    model = way(make())
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    x, y = flambeau.from_numpy(batch()), flambeau.arange(16) % 8

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    run = flambeau.compile(step) if compiled else step
    before = statistics.compiled.get("compiled_step", (0, 0))[0]
    losses = [run(x, y).item() for _ in range(steps)]
    count = statistics.compiled.get("compiled_step", (0, 0))[0] - before
    found = {
        name.removeprefix("module."): each.detach().numpy()
        for name, each in (*model.named_parameters(), *model.named_buffers())
    }
    return losses, found, count, model, optimizer


@pytest.fixture(name="expected", scope="module")
def _expected():
    return {}


# By the shape of the mesh.
WAYS = {
    "8": {
        data_parallel: ["perceptron", "convolutional", "transformer", "recurrent", "experts"],
        fully_sharded: ["perceptron", "convolutional", "transformer"],
        by_rules: ["perceptron"],
    },
    "4x2": {
        hybrid: ["perceptron", "convolutional", "recurrent"],
        tensor_and_data_parallel: ["perceptron", "transformer", "experts"],
    },
    "2x2x2": {
        three_dimensions: ["perceptron", "convolutional", "transformer", "recurrent", "experts"],
    },
}
CASES = [
    *((name, way, True) for ways in WAYS.values() for way in ways for name in ways[way]),
    *(("perceptron", way, False) for way in (data_parallel, fully_sharded, three_dimensions)),
    ("convolutional", data_parallel, False), ("transformer", fully_sharded, False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "way", "compiled"), CASES)
def test_training_gives_the_numbers_of_one_device(name, way, compiled, expected, monkeypatch):
    steps = 10 if compiled else 3
    if (name, compiled) not in expected:
        expected[name, compiled] = train(name, on_one, compiled, steps)[:3]
    losses, found, count, model, optimizer = train(name, way, compiled, steps)
    one = expected[name, compiled]
    np.testing.assert_allclose(losses, one[0], rtol=2e-4)
    assert found.keys() == one[1].keys()
    for key, each in found.items():
        np.testing.assert_allclose(each, one[1][key], rtol=2e-3, atol=2e-4, err_msg=key)
    assert count == one[2]
    assert losses[-1] < losses[0]
    for each in model.parameters():
        state = optimizer.state[each]
        assert each.device_mesh.size() == 8
        assert state["exp_avg"].placements == each.placements


def test_experts_are_on_devices_of_their_own():
    model = tensor_and_data_parallel(Experts()).module
    assert model.up.to_local().shape == (4, 8, 16)
    assert model.router.weight.to_local().shape == (8, 8)


def test_a_batch_that_is_not_divisible_is_computed_whole_with_a_warning():
    net = DistributedDataParallel(Perceptron())
    x = flambeau.from_numpy(numbers(12, 8))
    with pytest.warns(UserWarning, match="a batch of 12 is not divisible by 8 devices"):
        found = net(x)
    net(x[:8])
    assert found.shape == (12, 8)


def test_a_wrapped_module_shows_what_pytorch_shows():
    net = DistributedDataParallel(Perceptron(), find_unused_parameters=True)
    assert [*net.state_dict()] == [f"module.{name}" for name in net.module.state_dict()]
    with net.no_sync():
        assert net(flambeau.ones(8, 8)).placements == (Shard(0),)
    model = Perceptron()
    names = [*model.state_dict()]
    wrapped = FullyShardedDataParallel(model)
    assert [*wrapped.state_dict()] == names
    assert isinstance(wrapped.module, FSDPModule)
    assert isinstance(wrapped.module, Perceptron)
    assert wrapped.module.up.weight.placements == (Shard(0),)
    wrapped.load_state_dict(Perceptron().state_dict())
    assert wrapped.module.up.weight.placements == (Shard(0),)
    wrapped(flambeau.ones(8, 8)).sum().backward()
    assert wrapped.module.up.weight.grad.placements == (Shard(0),)
    assert wrapped.clip_grad_norm_(1.0) > 0


class Seeing(Perceptron):
    """Keeps the dtypes that its last call has had."""

    def forward(self, x):
        found = super().forward(x)
        self.seen = (self.up.weight.dtype, found.dtype)
        return found


def trained_by(policy, is_compiled):
    flambeau.manual_seed(0)
    net, mesh = nn.Sequential(nn.Linear(8, 8), Seeing()), init_device_mesh("cpu", (8,))
    inner = MixedPrecisionPolicy(param_dtype=policy.param_dtype)
    fully_shard(net[0], mesh=mesh, mp_policy=inner)
    fully_shard(net, mesh=mesh, mp_policy=policy)
    optimizer = optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = flambeau.compile(step, fullgraph=True) if is_compiled else step
    losses = [run(flambeau.from_numpy(numbers(8, 8))).item() for _ in range(4)]
    for each in net.parameters():
        assert isinstance(each, nn.Parameter)
        assert each.dtype is each.grad.dtype is flambeau.float32
        assert each.grad.placements == each.placements
    return losses, net[1].seen


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_sharded_module_computes_in_the_dtype_of_its_policy(is_compiled):
    half, single = flambeau.bfloat16, flambeau.float32
    expected, seen = trained_by(MixedPrecisionPolicy(), is_compiled)
    assert seen == (single, single)
    policy = MixedPrecisionPolicy(param_dtype=half, output_dtype=single)
    found, seen = trained_by(policy, is_compiled)
    assert seen == (half, half)
    np.testing.assert_allclose(found, expected, rtol=0.02)


def test_a_module_keeps_its_parameters_where_its_forward_fails():
    net = fully_shard(nn.Linear(8, 8), mp_policy=MixedPrecisionPolicy(param_dtype=flambeau.float16))
    with pytest.raises(RuntimeError, match="shape"):
        net(flambeau.ones(8, 3))
    assert net.weight.dtype is flambeau.float32
    assert net(flambeau.ones(8, 8)).dtype is flambeau.float16


def test_a_module_without_parameters_to_train_is_not_wrapped():
    with pytest.raises(RuntimeError, match="DistributedDataParallel is not needed"):
        DistributedDataParallel(nn.ReLU())
    with pytest.raises(RuntimeError, match="device_ids can only be None or contain a single"):
        DistributedDataParallel(Perceptron(), device_ids=[0, 1])


def test_styles_divide_parameters_and_activations():
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))
    net = nn.Sequential(nn.LayerNorm(8), nn.Embedding(8, 4), nn.Linear(4, 8), nn.Linear(8, 4))
    plan = {
        "0": SequenceParallel(), "1": RowwiseParallel(),
        "2": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(0)),
        "3": ColwiseParallel(output_layouts=Replicate()),
    }  # fmt: skip
    parallelize_module(net, mesh["model"], plan)
    assert net[0].weight.placements == (Replicate(), Replicate())
    assert net[1].weight.placements == (Replicate(), Shard(0))
    assert net[3].bias.placements == (Replicate(), Shard(0))
    assert net[0](flambeau.ones(2, 4, 8)).placements == (Replicate(), Shard(1))
    assert net[3](net[2](net[1](flambeau.arange(8)))).placements == (Replicate(), Replicate())


@pytest.mark.parametrize(
    ("plan", "error", "message"),
    [
        ({"5": ColwiseParallel()}, ValueError, "path '5' matches no module"),
        ({"0": ColwiseParallel()}, NotImplementedError, "only support nn.Linear and nn.Embedding"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(plan, error, message):
    with pytest.raises(error, match=message):
        parallelize_module(nn.Sequential(nn.ReLU()), None, plan)


def test_a_plan_over_several_dimensions_is_refused():
    with pytest.raises(ValueError, match="only accepts a 1D DeviceMesh, but found 2D"):
        parallelize_module(nn.Linear(2, 2), init_device_mesh("cpu", (4, 2)), ColwiseParallel())
