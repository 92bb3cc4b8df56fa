"""Operators, views, writes, hooks and copies of tensors that lie on eight devices."""

import copy
import pickle

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

import flambeau
from flambeau import nn
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor
from flambeau.nn import functional as F

X = np.sin(np.arange(64, dtype=np.float32)).reshape(8, 8)
CUT = (Shard(0), Shard(1))
MESH = pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])


def mesh_of(kind=AxisType.Auto):
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind,) * 2)


def spread(array=X, placements=CUT, kind=AxisType.Auto):
    return distribute_tensor(flambeau.from_numpy(array.copy()), mesh_of(kind), placements)


def same(found, expected):
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), 1e-5, 1e-6)


OPERATORS = {
    "sort": lambda x: x.sort(0)[0] + x.argsort(1), "topk": lambda x: x.topk(3, 1)[0],
    "unique": lambda x: flambeau.unique((x * 3).round()), "nonzero": lambda x: (x > 0).nonzero(),
    "mask": lambda x: x[x > 0.5], "rows": lambda x: x[[5, 0, 0, 7]],
    "gather": lambda x: x.gather(1, x.argsort(1)), "cumsum": lambda x: x.cumsum(0),
    "step": lambda x: x[::3, 1:6:2], "one": lambda x: x[3, 4], "flip": lambda x: x.flip(0, 1),
    "roll": lambda x: x.roll(3, 0), "cat": lambda x: flambeau.cat([x, x[:2] * 2]),
    "pad": lambda x: F.pad(x, (1, 2)), "reshape": lambda x: x.reshape(4, 16).t().reshape(2, -1),
    "odd": lambda x: x.reshape(64)[:63].reshape(9, 7).sum(0),
    "convolution": lambda x: F.conv2d(x.view(1, 1, 8, 8), x[:3, :3].reshape(1, 1, 3, 3), padding=1),
    "pooling": lambda x: F.max_pool2d(x[None, None], 3, 2), "norm": lambda x: F.layer_norm(x, (8,)),
    "scatter": lambda x: x.scatter_add(0, (x > 0).long() * 5, x), "norms": lambda x: x.norm(dim=0),
    "solve": lambda x: flambeau.linalg.solve(x + 9 * flambeau.eye(8), x),
    "quantile": lambda x: x.median(1)[0] + x.quantile(0.3),
    "fft": lambda x: flambeau.fft.rfft(x).abs(), "where": lambda x: flambeau.where(x > 0, x, x.t()),
    "outer": lambda x: flambeau.outer(x[0], x[:, 1]),
}  # fmt: skip


@MESH
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_give_the_results_of_one_device(name, kind):
    function = OPERATORS[name]
    same(function(spread(kind=kind)), function(flambeau.from_numpy(X)))


WRITES = {
    "row": lambda x: x[2].fill_(5), "block": lambda x: x[1:5, ::2].mul_(3),
    "mask": lambda x: x.masked_fill_(x > 0.3, -1), "column": lambda x: x[:, 3].copy_(x[:, 0]),
    "rows": lambda x: x.index_add_(0, flambeau.tensor([1, 1, 6]), flambeau.ones(3, 8)),
    "diagonal": lambda x: x.diagonal().add_(7), "whole": lambda x: x.view(-1)[5:20].zero_(),
    "set": lambda x: x.__setitem__((slice(None), [0, 2]), 1.5),
    "sorted": lambda x: x.copy_(x.sort(0)[0]),
    "transposed": lambda x: x.t()[1].add_(x[1]), "clamp": lambda x: x[::3].clamp_(min=0),
}  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_writes_through_views_reach_the_tensor_and_leave_it_where_it_lies(name, compiled):
    write, one, many = WRITES[name], flambeau.from_numpy(X.copy()), spread()
    view = many[2:4]
    before = many._version
    write(one)
    (flambeau.compile(write, fullgraph=True) if compiled else write)(many)
    same(many, one)
    same(view, one[2:4])
    assert many.placements == (Shard(0), Shard(1))
    assert many._version > before


def test_hooks_see_whole_gradients():
    def gradients(x):
        seen = []
        x = x.requires_grad_()
        x.register_hook(lambda grad: seen.append(grad.clone()) or grad * 2)
        y = (x @ x).relu()
        y.retain_grad()
        y.register_hook(lambda grad: seen.append(grad))
        y[1:3].sum().backward()
        return [x.grad, y.grad, *seen]

    for many, one in zip(gradients(spread()), gradients(flambeau.from_numpy(X)), strict=True):
        same(many, one)


def test_a_tensor_is_printed_as_on_one_device():
    x = spread()
    assert repr(x) == repr(flambeau.from_numpy(X))
    assert str(x[0, 0]) == str(flambeau.from_numpy(X)[0, 0])
    assert f"{x[0, 0]:.3f}" == f"{X[0, 0]:.3f}"


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_have_the_same_elements(duplicate):
    x = nn.Parameter(spread())
    found = duplicate(x)
    same(found, x)
    assert isinstance(found, nn.Parameter)
    found.data[0] = 9
    assert x[0, 0] == X[0, 0]


def test_a_state_dict_is_loaded_back():
    def model():
        return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))

    rules = {"0.weight": ("data", "model"), "1.running_mean": ("model",)}
    one = model()
    one(flambeau.from_numpy(X))
    many = flambeau.shard(model(), mesh_of(), rules)
    many.load_state_dict(one.state_dict())
    again = flambeau.shard(
        model(), init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "model")), rules
    )
    again.load_state_dict(many.state_dict())
    back = model()
    back.load_state_dict(again.state_dict())
    for name, value in back.state_dict().items():
        same(value, one.state_dict()[name])
    assert many[0].weight.placements == again[0].weight.placements == (Shard(0), Shard(1))


def draws(x, function):
    flambeau.manual_seed(3)
    return flambeau.compile(function)(x)


PLACES = [
    (Replicate(), Replicate()), (Shard(0), Replicate()), (Replicate(), Shard(1)),
    (Shard(1), Shard(0)),
]  # fmt: skip


@pytest.mark.parametrize("placements", PLACES)
def test_a_compiled_function_draws_the_same_numbers_however_tensors_lie(placements):
    def noisy(x):
        return F.dropout(x, 0.5) + flambeau.rand_like(x) + flambeau.randint(9, (8, 8))

    ones = np.ones((8, 8), np.float32)
    found = draws(spread(ones, placements), noisy)
    np.testing.assert_array_equal(found.numpy(), draws(flambeau.ones(8, 8), noisy).numpy())


def test_dropout_differs_between_shards_and_agrees_between_replicas():
    big = np.ones((64, 64), np.float32)
    rows = draws(spread(big, (Shard(0), Replicate())), lambda x: F.dropout(x, 0.5))
    by_place = {}
    for shard in rows.redistribute(mesh_of(), [Shard(0), Replicate()]).jax().addressable_shards:
        by_place.setdefault(str(shard.index), []).append(np.asarray(shard.data))
    parts = [*by_place.values()]
    assert len(parts) == 4
    for part in parts:
        assert len(part) == 2
        np.testing.assert_array_equal(*part)
    assert len({part[0].tobytes() for part in parts}) == 4


def test_tensors_on_two_meshes_of_other_devices_are_refused():
    devices = np.array(jax.devices())
    one, two = (jax.sharding.Mesh(each, ("data",)) for each in (devices[:4], devices[4:]))
    x, y = (distribute_tensor(flambeau.ones(8), each, [Shard(0)]) for each in (one, two))
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + y
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        flambeau.compile(lambda a, b: a + b)(x, y)


def test_tensors_on_two_meshes_of_the_same_devices_may_meet():
    x = spread()
    other = init_device_mesh("cpu", (8,), mesh_dim_names=("all",))
    y = distribute_tensor(flambeau.from_numpy(X), other, [Shard(1)])
    same(x + y, flambeau.from_numpy(2 * X))
    same(flambeau.compile(lambda a, b: a @ b)(x, y), flambeau.from_numpy(X @ X))
