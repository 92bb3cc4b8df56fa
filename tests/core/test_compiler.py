"""What programs are compiled for."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import export

import flambeau
from flambeau import nn
from flambeau.core.devices import compiler


@pytest.mark.parametrize(
    ("devices", "expected"),
    [(["cpu"], True), (["cpu", "cpu:1"], True), (["cpu", "cuda:0"], False)],
)
def test_only_cpu_asks_for_all_devices(monkeypatch, devices, expected):
    monkeypatch.setattr(compiler, "available_devices", lambda: devices)
    assert compiler.only_cpu.__wrapped__() is expected


@pytest.mark.parametrize(("only_cpu", "setting"), [(True, None), (True, "0"), (False, None)])
def test_forms_for_cpus_are_for_machines_without_accelerators_and_can_be_turned_off(
    monkeypatch, only_cpu, setting
):
    monkeypatch.setattr(compiler, "only_cpu", lambda: only_cpu)
    monkeypatch.delenv("FLAMBEAU_CPU_FORMS", raising=False)
    if setting is not None:
        monkeypatch.setenv("FLAMBEAU_CPU_FORMS", setting)
    assert compiler._takes_cpu_forms.__wrapped__() is (only_cpu and setting is None)


def test_cores_are_those_of_the_process(monkeypatch):
    monkeypatch.setattr(compiler.os, "sched_getaffinity", lambda pid: {3, 5}, raising=False)
    assert compiler.cores.__wrapped__() == 2


@pytest.mark.parametrize(("count", "expected"), [(8, 8), (None, 1)])
def test_where_a_process_has_no_cores_of_its_own_the_machines_count(monkeypatch, count, expected):
    monkeypatch.delattr(compiler.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(compiler.os, "cpu_count", lambda: count)
    assert compiler.cores.__wrapped__() == expected


class Heads(nn.Module):
    def forward(self, x):
        x = x.reshape(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).flatten(1)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(8, 16), "b, 8"),
        (nn.Conv2d(2, 4, 3, padding=1), "b, 2, 5, h"),
        (nn.Conv1d(4, 4, 3, groups=4), "b, 4, 9"),
        (nn.ZeroPad2d(1), "b, 1, 2, 2"),
        (Heads(), "b, n, 8"),
    ],
    ids=["linear", "convolution", "depthwise", "padding", "attention"],
)
def test_layers_are_exported_for_every_size(layer, shape):
    values = {name: each.jax() for name, each in layer.state_dict().items()}

    def function(x):
        result = flambeau.func.functional_call(layer, values, (flambeau.from_jax(x),))
        return result.jax() if isinstance(result, flambeau.Tensor) else result

    sizes = export.symbolic_shape(shape)
    program = export.export(jax.jit(function))(jax.ShapeDtypeStruct(sizes, np.float32))
    concrete = [size if isinstance(size, int) else 6 for size in sizes]
    x = np.random.default_rng(0).standard_normal(concrete).astype(np.float32)
    expected = layer(flambeau.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(program.call(x), expected, atol=1e-5)
