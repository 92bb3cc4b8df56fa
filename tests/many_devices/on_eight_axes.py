"""Operators, their gradients and optimizers on arrays that the user has spread over a mesh."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import flambeau
from flambeau import nn, optim
from flambeau.core.programs import compiled as programs
from flambeau.core.support.statistics import statistics
from flambeau.nn import functional as F

KINDS = pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])


def mesh_of(kind, shape=(4, 2), names=("data", "model")):
    return jax.make_mesh(shape, names, axis_types=(kind,) * len(names))


def spread(array, kind, *spec):
    sharding = NamedSharding(mesh_of(kind), P(*spec))
    return flambeau.from_jax(jax.device_put(np.asarray(array), sharding))


def numbers(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


@KINDS
def test_linear_takes_operands_that_are_divided_in_conflicting_ways(kind):
    x, weight, bias = numbers(8, 4), numbers(6, 4), numbers(6)
    found = F.linear(
        spread(x, kind, "data", "model"), spread(weight, kind, "model", "data"), spread(bias, kind)
    )
    np.testing.assert_allclose(found.numpy(), x @ weight.T + bias, rtol=1e-5)
    assert len(found.jax().devices()) == 8


@KINDS
def test_gradients_of_spread_tensors_are_those_of_one_device(kind):
    def gradients(x, weight):
        x.requires_grad_(), weight.requires_grad_()
        y = F.layer_norm(F.gelu(x @ weight.t()), (8,))
        F.cross_entropy(y, flambeau.arange(8) % 4).backward()
        return x.grad.numpy(), weight.grad.numpy()

    x, weight = numbers(8, 4), numbers(8, 4)
    one = gradients(flambeau.from_numpy(x), flambeau.from_numpy(weight))
    many = gradients(spread(x, kind, "data", None), spread(weight, kind, "model", "data"))
    for a, b in zip(many, one, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@KINDS
@pytest.mark.parametrize("compiled", [False, True])
def test_an_optimizer_leaves_parameters_and_state_as_they_are_spread(kind, compiled):
    weight = nn.Parameter(spread(numbers(8, 4), kind, "model", "data"))
    lies = weight.jax().sharding
    optimizer = optim.AdamW([weight], lr=0.1)
    x = spread(numbers(8, 4), kind, "data")

    def step():
        (F.linear(x, weight) ** 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    run = flambeau.compile(step) if compiled else step
    for _ in range(3):
        run()
    assert weight.jax().sharding == lies
    state = optimizer.state[weight]
    assert state["exp_avg"].jax().sharding == lies


@KINDS
def test_a_tensor_on_one_device_is_copied_to_the_mesh_of_the_other(kind):
    x = spread(numbers(8, 4), kind, "data")
    found = x + flambeau.arange(4.0)
    np.testing.assert_allclose(found.numpy(), numbers(8, 4) + np.arange(4.0, dtype=np.float32))
    assert len(found.jax().devices()) == 8


def test_a_jax_array_with_explicit_axes_may_be_an_operand():
    x = spread(numbers(8, 4), AxisType.Auto, "data")
    other = jax.device_put(
        numbers(8, 4), NamedSharding(mesh_of(AxisType.Explicit), P(None, "data"))
    )
    np.testing.assert_allclose((x * other).numpy(), numbers(8, 4) ** 2)


def test_operators_work_while_the_user_has_set_a_mesh_with_explicit_axes():
    x = spread(numbers(8, 4), AxisType.Explicit, "data")
    with jax.set_mesh(mesh_of(AxisType.Explicit)):
        found = F.softmax(x @ x.t() + 1, -1) + flambeau.ones(8)
    np.testing.assert_allclose(found.numpy().sum(-1), np.full(8, 9), rtol=1e-5)


def test_tensors_on_devices_that_no_mesh_joins_are_refused():
    left, right = jax.devices()[:4], jax.devices()[4:]
    x, y = (
        flambeau.from_jax(
            jax.device_put(numbers(4), NamedSharding(jax.sharding.Mesh(each, "a"), P("a")))
        )
        for each in (left, right)
    )
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + y


def test_programs_for_several_devices_are_kept_on_disk_by_how_their_arguments_lie(
    tmp_path, monkeypatch
):
    from flambeau.core.programs.store import Store

    kept = Store(tmp_path, 2**30)
    monkeypatch.setattr(programs, "store", lambda: kept)
    lying = [("data",), (None, "data"), ("model",), ("data", "model")]
    x = numbers(8, 4)

    def run(function):
        return [function(spread(x, AxisType.Auto, *each).jax()) for each in lying]

    run(programs.compiled(jax.numpy.tanh, "tanh"))
    before = dict(statistics.compiled)
    assert "tanh" not in statistics.loaded
    again = run(programs.compiled(jax.numpy.tanh, "tanh"))
    assert dict(statistics.compiled) == before
    assert statistics.loaded["tanh"][0] == len(lying)
    for found, spec in zip(again, lying, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.tanh(x), rtol=1e-6)
        assert found.sharding.is_equivalent_to(spread(x, AxisType.Auto, *spec).jax().sharding, 2)


def test_an_order_of_devices_is_a_program_of_its_own(tmp_path, monkeypatch):
    from flambeau.core.programs.store import Store

    kept = Store(tmp_path, 2**30)
    monkeypatch.setattr(programs, "store", lambda: kept)
    x, devices = numbers(8, 4), np.array(jax.devices())
    for order in (devices, devices[::-1], np.roll(devices, 1)):
        sharding = NamedSharding(jax.sharding.Mesh(order, "a"), P("a"))
        for _ in range(2):
            add = programs.compiled(jax.numpy.cumsum, "cumsum")
            found = add(jax.device_put(x, sharding))
            np.testing.assert_allclose(np.asarray(found), np.cumsum(x), rtol=1e-5, atol=1e-6)
