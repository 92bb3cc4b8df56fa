"""Modules for several devices, on one; and batches that are cut and put together."""

import collections

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import parallel
from flambeau.nn.parallel.scatter_gather import scatter_kwargs

Pair = collections.namedtuple("Pair", "x y")


def test_a_module_is_called_as_it_is():
    net = nn.DataParallel(nn.Linear(2, 3), device_ids=["cpu"])
    x = flambeau.ones(4, 2)
    assert flambeau.equal(net(x), net.module(x))
    assert list(net.state_dict()) == ["module.weight", "module.bias"]
    found = parallel.data_parallel(net.module, x, module_kwargs={})
    assert flambeau.equal(found, net(x))
    net(x).sum().backward()
    assert net.module.weight.grad is not None


def test_several_devices_are_refused():
    for make in (nn.DataParallel, lambda net, ids: parallel.data_parallel(net, None, ids)):
        with pytest.raises(RuntimeError, match="JAX's sharding"):
            make(nn.Linear(2, 3), [0, 1])
    assert not isinstance(nn.Linear(2, 3), parallel.DistributedDataParallel)


def test_batches_are_cut_and_put_together():
    x = flambeau.arange(4)
    batch = [{"x": x, "name": "a"}, (Pair(x, x), None)]
    parts = parallel.scatter(batch, ["cpu", "cpu"])
    assert [part[0]["x"].tolist() for part in parts] == [[0, 1], [2, 3]]
    assert parts[1][0]["name"] == "a"
    assert parts[1][1][0].y.tolist() == [2, 3]
    assert type(parts[0][1]) is tuple
    outputs = [{"x": part[0]["x"], "pair": part[1][0], "none": None} for part in parts]
    whole = parallel.gather(outputs, "cpu")
    assert whole["x"].tolist() == [0, 1, 2, 3]
    assert whole["pair"].y.tolist() == [0, 1, 2, 3]
    assert whole["none"] is None
    assert parallel.gather([x.sum(), x.sum()], "cpu").tolist() == [6, 6]
    with pytest.raises(ValueError, match="same keys"):
        parallel.gather([{"a": x}, {"b": x}], "cpu")


def test_there_are_no_more_parts_than_elements():
    x = flambeau.arange(2)
    by_order, by_name = scatter_kwargs((x, 3), {"y": x}, ["cpu"] * 3)
    assert [part[0].tolist() for part in by_order] == [[0], [1]]
    assert [part["y"].tolist() for part in by_name] == [[0], [1]]
    assert scatter_kwargs((), {"y": x}, ["cpu"])[0] == ((),)
    assert scatter_kwargs((x,), None, ["cpu"])[1] == ({},)
