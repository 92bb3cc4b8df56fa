"""How XLA divides steps over eight devices, read from the programs and not from their results."""

import collections
import re

import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor
from flambeau.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from flambeau.nn import functional as F
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.utils.checkpoint import checkpoint

# XLA's CPU compiler adds up all gradients at once, at the end, and computes as early as it can.
# Those for GPUs and TPUs watch the memory, as these options let this one do.
SPARING = {
    "xla_disable_hlo_passes": "cpu-all-reduce-combiner",
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
}
STYLES = {
    "*qkv.*": ColwiseParallel(), "*out": RowwiseParallel(), "*up": ColwiseParallel(),
    "*down": RowwiseParallel(),
}  # fmt: skip


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mlp_norm = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(3))
        self.out, self.up, self.down = nn.Linear(16, 16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        y = self.norm(x)
        q, k, v = (each(y).unflatten(-1, (4, 4)).transpose(1, 2) for each in self.qkv)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


def layers(count, size=64):
    """Layers with one parameter each."""
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(size, size, bias=False), nn.GELU()) for _ in range(count))
    )


def line(devices=8):
    return init_device_mesh("cpu", (devices,), mesh_dim_names=("data",))


def fully_sharded(model, **options):
    for each in model:
        fully_shard(each, mesh=line(), **options)
    return model


def lowered_step(model, x, optimizer=None):
    """A training step, before XLA compiles it."""
    chosen = optimizer or optim.SGD(model.parameters(), lr=0.1)

    @flambeau.compile
    def step(x):
        model(x).square().mean().backward()
        chosen.step()
        chosen.zero_grad()

    return flambeau.compiler.lower(step, x)


def program_of_step(model, x, options=None, optimizer=None):
    """The program that XLA makes of a training step."""
    return lowered_step(model, x, optimizer).compile(compiler_options=options)


def collectives(program):
    found = re.findall(
        r" = .*? (all-[a-z]+|reduce-scatter|collective-permute)\(", program.as_text()
    )
    return collections.Counter(found)


def are_sums_cut_at_once(program):
    """Whether what devices add up is only used in part by each: a reduce-scatter in two steps."""
    text = program.as_text()
    bodies = dict(re.findall(r"^%(\S+) \(.*?\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL))
    sums = re.findall(r"%(\S+) = \S.*? all-reduce\(", text)
    parts = [
        name for each in sums
        for name in re.findall(rf"%(\S+) = \S+ get-tuple-element\(%{re.escape(each)}\)", text)
    ] or sums  # fmt: skip
    for part in parts:
        whole = rf"%{re.escape(part)}(?![\w.-])"
        users = re.findall(rf" fusion\(([^()\n]*{whole}[^()\n]*)\).*?calls=%(\S+?)[,\s]", text)
        if not users:
            return False
        for operands, called in users:
            place = [each.strip(" %") for each in operands.split(",")].index(part)
            body = bodies[called]
            (name,) = re.findall(rf"%(\S+) = \S+ parameter\({place}\)", body)
            uses = re.findall(rf"([\w-]+)\([^()\n]*%{re.escape(name)}(?![\w.-])", body)
            if {*uses} != {"dynamic-slice"}:
                return False
    return bool(parts)


@pytest.mark.parametrize("count", [2, 4])
def test_data_parallel_steps_add_all_gradients_up_at_once_and_send_nothing_else(count):
    model = DistributedDataParallel(layers(count))
    program = program_of_step(model, flambeau.ones(16, 64))
    assert collectives(program) == {"all-reduce": 1}
    assert not are_sums_cut_at_once(program)


@pytest.mark.parametrize("count", [2, 4])
def test_fully_sharded_steps_gather_in_forward_and_backward_and_scatter_gradients(count):
    program = program_of_step(fully_sharded(layers(count)), flambeau.ones(16, 64))
    # The first layer's parameter is not needed again: nobody asks for the gradient of the input.
    assert collectives(program) == {"all-gather": 2 * count - 1, "all-reduce": 1}
    assert are_sums_cut_at_once(program)


def test_parameters_that_stay_gathered_are_gathered_once():
    model = fully_sharded(layers(4), reshard_after_forward=False)
    program = program_of_step(model, flambeau.ones(16, 64))
    assert collectives(program) == {"all-gather": 4, "all-reduce": 1}
    assert are_sums_cut_at_once(program)


@pytest.mark.parametrize("blocks", [1, 2])
def test_tensor_parallel_blocks_communicate_twice_forward_and_twice_backward(blocks):
    model = nn.Sequential(nn.Linear(16, 16), *(Block() for _ in range(blocks)))
    parallelize_module(model, line(4), dict(STYLES))
    assert collectives(program_of_step(model, flambeau.ones(4, 4, 16))) == {
        "all-reduce": 4 * blocks
    }

    @flambeau.compile
    def forward(x):
        with flambeau.no_grad():
            return model(x)

    program = flambeau.compiler.lower(forward, flambeau.ones(4, 4, 16)).compile()
    assert collectives(program) == {"all-reduce": 2 * blocks}


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_each_device_has_its_share_of_parameters_and_state(devices):
    model = fully_shard(nn.Linear(32, 32), mesh=line(devices))
    optimizer = optim.AdamW(model.parameters())
    x = distribute_tensor(flambeau.ones(16, 32), line(devices), [Replicate()])
    found = program_of_step(model, x, optimizer=optimizer).memory_analysis()
    share = 3 * (32 * 32 + 32) * 4 // devices
    assert share <= found.output_size_in_bytes <= share + 512
    assert share <= found.argument_size_in_bytes - 16 * 32 * 4 <= share + 512


@pytest.mark.parametrize("shape", [(2, 4), (4, 2), (1, 8)])
def test_tensor_parallel_parameters_take_memory_as_they_are_placed(shape):
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("data", "model"))
    model = nn.Sequential(nn.Linear(32, 64, bias=False), nn.GELU(), nn.Linear(64, 32, bias=False))
    flambeau.shard(model, mesh, {"0.weight": ("model", None), "2.weight": (None, "model")})
    x = distribute_tensor(flambeau.ones(16, 32), mesh, [Shard(0), Replicate()])
    found = program_of_step(model, x).memory_analysis()
    share, batch = 2 * 32 * 64 * 4 // shape[1], 16 * 32 * 4 // shape[0]
    assert share <= found.output_size_in_bytes <= share + 256
    assert share + batch <= found.argument_size_in_bytes <= share + batch + 256


def test_no_parameter_stays_whole_beyond_its_layer():
    def temporary(count, reshard):
        model = fully_sharded(layers(count), reshard_after_forward=reshard)
        program = program_of_step(model, flambeau.ones(16, 64), SPARING)
        return program.memory_analysis().temp_size_in_bytes

    one = 64 * 64 * 4
    assert temporary(8, True) - temporary(4, True) < 4 * one / 8
    assert temporary(8, False) - temporary(4, False) > 4 * one


def test_a_model_on_the_meta_device_has_the_program_of_the_model():
    def program(device):
        flambeau.manual_seed(0)
        mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))
        with flambeau.device(device):
            model = nn.Sequential(Block(), nn.Dropout())
        parallelize_module(model, mesh["model"], dict(STYLES))
        fully_shard(model, mesh=mesh["data"])
        x = flambeau.ones(16, 4, 16, device=device)
        x = distribute_tensor(x, mesh["data"], [Shard(0)])
        return lowered_step(model, x, optim.AdamW(model.parameters())).as_text()

    assert program("meta") == program("cpu")
    assert "sdy.sharding_constraint" in program("meta")


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = layers(2, 16)

    def forward(self, x):
        for each in self.layers:
            x = checkpoint(each, x, use_reentrant=False)
        return x


def test_checkpointed_layers_of_a_fully_sharded_model_are_computed_again():
    def around(model):
        fully_sharded(model.layers)
        return fully_shard(model, mesh=line())

    def losses(way):
        flambeau.manual_seed(0)
        model = way(Checkpointed())
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        @flambeau.compile
        def step(x):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        return [step(flambeau.ones(8, 16)).item() for _ in range(2)]

    one = losses(lambda model: model)
    np.testing.assert_allclose(losses(around), one, rtol=1e-5)


def test_clipping_gathers_no_gradient_that_is_cut_in_two_dimensions():
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))
    weight = distribute_tensor(flambeau.ones(8, 8), mesh, [Shard(0), Shard(1)])
    gradient = distribute_tensor(flambeau.ones(8, 8), mesh, [Shard(0), Shard(1)])

    @flambeau.compile
    def clip(gradient):
        weight.grad = gradient
        return nn.utils.clip_grad_norm_([weight], 1.0)

    assert {*collectives(flambeau.compiler.lower(clip, gradient).compile())} == {"all-reduce"}
