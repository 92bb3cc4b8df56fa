"""What surrounds a step, such as scaled losses or averages, gives the numbers of one device."""

import jax
import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.amp import GradScaler, autocast
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.fsdp import fully_shard
from flambeau.nn import functional as F
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.optim.swa_utils import SWALR, AveragedModel, update_bn
from flambeau.utils.checkpoint import checkpoint


def numbers(*shape):
    return np.sin(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


def on_one(model):
    return model


def data_parallel(model):
    return DistributedDataParallel(model)


def fully_sharded(model):
    return fully_shard(model, mesh=init_device_mesh("cpu", (8,), mesh_dim_names=("data",)))


def normalized():
    first = nn.Linear(8, 16, bias=False)  # a bias before normalization has no gradient but rounding
    return nn.Sequential(first, nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))


def train(make, way, recipe, compiled):
    flambeau.manual_seed(0)
    model = way(make())
    x, y = flambeau.from_numpy(numbers(16, 8)), flambeau.arange(16) % 8
    losses, found = recipe(model, x, y, flambeau.compile if compiled else lambda step: step)
    arrays = {
        name.replace("module.", ""): each.detach().numpy()
        for name, each in (*found.named_parameters(), *found.named_buffers())
    }
    return losses, arrays


def scaled(model, x, y, _):
    optimizer, scaler = optim.SGD(model.parameters(), lr=0.1), GradScaler("cpu", init_scale=256.0)
    hurt = flambeau.ones(())

    def step():  # GradScaler.step() asks for a value
        optimizer.zero_grad()
        with autocast("cpu"):
            loss = F.cross_entropy(model(x).float(), y) * hurt
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        return loss

    losses = [step().item() for _ in range(2)]
    hurt.fill_(float("inf"))
    step()
    hurt.fill_(1.0)
    losses += [step().item(), scaler.get_scale()]
    assert scaler.get_scale() == 128.0
    return losses, model


def accumulated(model, x, y, run):
    optimizer = optim.AdamW(model.parameters(), lr=0.01)

    @run
    def step():
        optimizer.zero_grad()
        total = 0.0
        for part, wanted in ((x[:8], y[:8]), (x[8:], y[8:])):
            loss = F.cross_entropy(model(part), wanted) / 2
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    return [step().item() for _ in range(3)], model


def recomputed(model, x, y, run):
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @run
    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(checkpoint(model, x, use_reentrant=False), y)
        loss.backward()
        optimizer.step()
        return loss

    return [step().item() for _ in range(3)], model


def averaged(model, x, y, run):
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    average, rate = AveragedModel(model, use_buffers=False), SWALR(optimizer, 0.05, 2)

    @run
    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for _ in range(3):
        losses.append(step().item())
        average.update_parameters(model)
        rate.step()
    update_bn([x], average)
    return losses, average


CASES = [
    (normalized, data_parallel, scaled, False), (normalized, fully_sharded, scaled, False),
    (normalized, data_parallel, accumulated, True),
    (normalized, fully_sharded, recomputed, True), (normalized, data_parallel, recomputed, False),
    (normalized, fully_sharded, averaged, True), (normalized, data_parallel, averaged, False),
]  # fmt: skip


@pytest.mark.parametrize(("make", "way", "recipe", "compiled"), CASES)
def test_recipes_give_the_numbers_of_one_device(make, way, recipe, compiled):
    losses, arrays = train(make, on_one, recipe, compiled)
    found, many = train(make, way, recipe, compiled)
    rounding = 2e-2 if recipe is scaled else 2e-4  # bfloat16 adds up in another order
    np.testing.assert_allclose(found, losses, rtol=rounding)
    assert arrays.keys() == many.keys()
    for name, one in arrays.items():
        np.testing.assert_allclose(many[name], one, rtol=rounding, atol=rounding, err_msg=name)


def test_synchronized_batch_normalization_means_the_whole_batch():
    flambeau.manual_seed(0)
    one = normalized()
    many = nn.SyncBatchNorm.convert_sync_batchnorm(normalized())
    many.load_state_dict(one.state_dict())
    many = DistributedDataParallel(many)
    x = flambeau.from_numpy(numbers(16, 8) + np.arange(16, dtype=np.float32)[:, None])
    np.testing.assert_allclose(many(x).detach().numpy(), one(x).detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(many.module[1].running_var.numpy(), one[1].running_var.numpy(), 1e-5)
    assert len(jax.devices()) == 8
