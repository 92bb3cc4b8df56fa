"""Transformations of modules, and of each other, do what `torch.func` does.

One transformation at a time, and its errors, are among the scenarios of `test_autograd.py`.
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.func

import flambeau
import flambeau.func
from tests.conformance.scenario import Entry, Table, compare, observe

scenario = Table()
Pair = namedtuple("Pair", "left right")


def numbers(lib, *shape, start=1):
    """Different numbers between -1 and 1, in double precision."""
    count = 1
    for size in shape:
        count *= size
    values = [((start + i) * 37 % 101) / 50 - 1 for i in range(count)]
    return lib.tensor(values, dtype=lib.float64).reshape(shape)


def filled(lib, module):
    """A module in double precision with the same numbers in both libraries."""
    module = module.double()
    with lib.no_grad():
        for place, each in enumerate(module.parameters()):
            each.copy_(numbers(lib, *each.shape, start=7 * place))
    return module


def network(lib):
    nn = lib.nn
    return filled(lib, nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)))


def values_of(module):
    return {name: each.detach() for name, each in module.named_parameters()}


def loss_of(lib, net):
    """The loss of parameters, inputs and targets."""

    def loss(params, x, y):
        return (lib.func.functional_call(net, params, (x,)) - y).pow(2).mean()

    return loss


def data(lib):
    return numbers(lib, 4, 2), numbers(lib, 4, 1, start=50)


def row(name, call, *facts):
    """A scenario that calls `func` on a network, its parameters and data."""

    def run(lib, kit):
        net = network(lib)
        return call(lib.func, loss_of(lib, net), values_of(net), *data(lib))

    run.__name__ = name
    scenario(*facts)(run) if facts else scenario(run)


# Each transformation over a module's parameters, and over its inputs

row("grad_by_parameters", lambda f, loss, p, x, y: f.grad(loss)(p, x, y))
row("grad_by_parameters_and_inputs", lambda f, loss, p, x, y: f.grad(loss, (0, 1))(p, x, y))
row("grad_by_inputs_counted_from_the_end", lambda f, loss, p, x, y: f.grad(loss, (-1, -2))(p, x, y))
row("grad_and_value_of_a_module", lambda f, loss, p, x, y: f.grad_and_value(loss)(p, x, y))
row(
    "grad_and_value_with_aux_by_two",
    lambda f, loss, p, x, y: f.grad_and_value(
        lambda p, x: (loss(p, x, y), {"x": x * 2, "k": (x,)}), (0, 1), has_aux=True
    )(p, x),
)
row("vjp_of_a_module", lambda f, loss, p, x, y: f.vjp(loss, p, x, y)[1](x.sum()))
row("jvp_of_a_module", lambda f, loss, p, x, y: f.jvp(loss, (p, x, y), (p, x, y)))
row(
    "jvp_of_a_module_with_aux",
    lambda f, loss, p, x, y: f.jvp(
        lambda p: (loss(p, x, y), {"p": p["0.bias"] * 2, "x": x}), (p,), (p,), has_aux=True
    ),
)
row("jacrev_of_a_module", lambda f, loss, p, x, y: f.jacrev(loss)(p, x, y))
row("jacfwd_of_a_module", lambda f, loss, p, x, y: f.jacfwd(loss)(p, x, y))
row("jacrev_of_a_module_by_all", lambda f, loss, p, x, y: f.jacrev(loss, (0, 1, 2))(p, x, y))
row("jacfwd_of_a_module_by_all", lambda f, loss, p, x, y: f.jacfwd(loss, (0, 1, 2))(p, x, y))
row("hessian_of_a_modules_loss", lambda f, loss, p, x, y: f.hessian(loss)(p, x, y))
row("hessian_by_inputs", lambda f, loss, p, x, y: f.hessian(loss, 1)(p, x, y))
row("hessian_by_two_arguments", lambda f, loss, p, x, y: f.hessian(loss, (1, 2))(p, x, y))

for name in ("jacrev", "jacfwd"):
    row(
        f"{name}_in_structures",
        lambda f, loss, p, x, y, name=name: getattr(f, name)(
            lambda d: {"a": d.left * d.right["b"], "b": [d.left.sum()]}
        )(Pair(x[0], {"b": x[1]})),
    )
    row(
        f"{name}_with_aux_in_structures",
        lambda f, loss, p, x, y, name=name: getattr(f, name)(
            lambda x: ((x * x, x.sum()), {"x": (x * 3,)}), has_aux=True
        )(x[0]),
    )
for name in ("grad", "grad_and_value", "jacrev", "jacfwd", "hessian"):
    for argnums in ((0, 0), (1, -1)):
        row(
            f"{name}_by_the_repeated_{argnums}",
            lambda f, loss, p, x, y, name=name, argnums=argnums: getattr(f, name)(
                lambda a, b: (a * b).sum(), argnums
            )(x, x),
        )
for chunk_size in (1, 2, 3, 100):
    row(
        f"jacrev_of_a_module_by_{chunk_size}",
        lambda f, loss, p, x, y, n=chunk_size: f.jacrev(lambda x: x * x.sum(), chunk_size=n)(x[0]),
    )
    row(
        f"vmap_of_a_module_by_{chunk_size}",
        lambda f, loss, p, x, y, n=chunk_size: f.vmap(loss, (None, 0, 0), chunk_size=n)(p, x, y),
    )

# Compositions

row("vmap_of_grad", lambda f, loss, p, x, y: f.vmap(f.grad(loss), (None, 0, 0))(p, x, y))
row(
    "vmap_of_grad_and_value",
    lambda f, loss, p, x, y: f.vmap(f.grad_and_value(loss), (None, 0, 0))(p, x, y),
)
row(
    "grad_of_vmap",
    lambda f, loss, p, x, y: f.grad(lambda p: f.vmap(loss, (None, 0, 0))(p, x, y).sum())(p),
)
row(
    "jvp_of_grad",
    lambda f, loss, p, x, y: f.jvp(lambda p: f.grad(loss)(p, x, y), (p,), (p,)),
)
row(
    "grad_of_jvp",
    lambda f, loss, p, x, y: f.grad(lambda p: f.jvp(lambda x: loss(p, x, y), (x,), (x,))[1])(p),
)
row(
    "vjp_of_grad",
    lambda f, loss, p, x, y: f.vjp(lambda p: f.grad(loss)(p, x, y), p)[1](p),
)
row(
    "grad_of_grad",
    lambda f, loss, p, x, y: f.grad(lambda x: f.grad(loss, 1)(p, x, y).pow(2).sum())(x),
)
row("jacfwd_of_jacrev", lambda f, loss, p, x, y: f.jacfwd(f.jacrev(loss, 1), 1)(p, x, y))
row("jacrev_of_jacfwd", lambda f, loss, p, x, y: f.jacrev(f.jacfwd(loss, 1), 1)(p, x, y))
row("jacrev_of_jacrev", lambda f, loss, p, x, y: f.jacrev(f.jacrev(loss, 1), 1)(p, x, y))
row("jacfwd_of_jacfwd", lambda f, loss, p, x, y: f.jacfwd(f.jacfwd(loss, 1), 1)(p, x, y))
row("jacrev_of_grad", lambda f, loss, p, x, y: f.jacrev(f.grad(loss, 1), 1)(p, x, y))
row("jacfwd_of_grad", lambda f, loss, p, x, y: f.jacfwd(f.grad(loss, 1), 1)(p, x, y))
row("grad_of_hessian", lambda f, loss, p, x, y: (
    f.grad(lambda x: f.hessian(loss, 1)(p, x, y).pow(2).sum())(x)
))  # fmt: skip
row("vmap_of_hessian", lambda f, loss, p, x, y: (
    f.vmap(f.hessian(loss, 1), (None, 0, 0))(p, x, y)
))  # fmt: skip
row("vmap_of_jacrev", lambda f, loss, p, x, y: f.vmap(f.jacrev(loss), (None, 0, 0))(p, x, y))
row("vmap_of_jacfwd", lambda f, loss, p, x, y: f.vmap(f.jacfwd(loss), (None, 0, 0))(p, x, y))
row("vmap_of_jvp", lambda f, loss, p, x, y: (
    f.vmap(lambda x, y: f.jvp(lambda x: loss(p, x, y), (x,), (x,)))(x, y)
))  # fmt: skip
row("vmap_of_vmap_of_grad", lambda f, loss, p, x, y: (
    f.vmap(lambda y: f.vmap(f.grad(loss), (None, 0, None))(p, x, y))(y)
))  # fmt: skip
row("jacrev_of_vmap", lambda f, loss, p, x, y: (
    f.jacrev(lambda x: f.vmap(loss, (None, 0, 0))(p, x, y))(x)
))  # fmt: skip
row("jacfwd_of_vmap", lambda f, loss, p, x, y: (
    f.jacfwd(lambda x: f.vmap(loss, (None, 0, 0))(p, x, y))(x)
))  # fmt: skip
row("hessian_of_vmap", lambda f, loss, p, x, y: (
    f.hessian(lambda x: f.vmap(loss, (None, 0, 0))(p, x, y).sum())(x[:, :])
))  # fmt: skip
row("a_product_with_the_hessian", lambda f, loss, p, x, y: (
    f.jvp(f.grad(lambda x: loss(p, x, y)), (x,), (x * 2,))[1]
))  # fmt: skip
row("a_linear_approximation", lambda f, loss, p, x, y: (
    f.linearize(lambda x: loss(p, x, y), x)[1](x)
))  # fmt: skip

# Batch dimensions in structures

row("in_dims_in_structures", lambda f, loss, p, x, y: (
    f.vmap(
        lambda a, b: (a.left * b["y"][0] + a.right).sum(),
        (Pair(0, None), {"y": (1,), "z": None}),
    )(Pair(x, x[0]), {"y": (y.t(),), "z": 3})
))  # fmt: skip
row("out_dims_in_structures", lambda f, loss, p, x, y: (
    f.vmap(lambda x: {"a": x, "b": [x[None], x.sum()]}, out_dims={"a": 1, "b": [2, 0]})(x)
))  # fmt: skip
row("out_dims_from_the_end", lambda f, loss, p, x, y: (
    f.vmap(lambda x: (x[None], x), out_dims=(-1, -2))(x)
))  # fmt: skip
row("out_dims_for_a_whole_branch", lambda f, loss, p, x, y: (
    f.vmap(lambda x: ((x, x * 2), x.sum()), out_dims=(1, 0))(x)
))  # fmt: skip
row("keywords_are_not_mapped", lambda f, loss, p, x, y: (
    f.vmap(lambda x, *, k: x * k["a"][0])(x, k={"a": x})
))  # fmt: skip
row("an_ordered_dictionary_of_outputs", lambda f, loss, p, x, y: (
    f.vmap(lambda x: OrderedDict(b=x, a=x * 2))(x)
))  # fmt: skip
row("in_dims_of_another_structure", lambda f, loss, p, x, y: (
    f.vmap(lambda d: d["a"], ({"b": 0},))({"a": x})
))  # fmt: skip
row("in_dims_that_are_no_numbers", lambda f, loss, p, x, y: f.vmap(lambda x: x, (0.0,))(x))
row("different_batch_sizes", lambda f, loss, p, x, y: f.vmap(loss, (None, 0, 0))(p, x, y[:3]))
row("a_negative_chunk_size", lambda f, loss, p, x, y: f.vmap(lambda x: x, chunk_size=-1)(x))

# Random numbers: what is drawn for whom

for randomness in ("error", "same", "different"):
    for chunk_size in (None, 3):

        @scenario
        def dropout(lib, kit, randomness=randomness, chunk_size=chunk_size):
            lib.manual_seed(0)
            layer = lib.nn.Dropout(0.5)
            mapped = lib.func.vmap(layer, randomness=randomness, chunk_size=chunk_size)
            rows = [tuple(each) for each in mapped(lib.ones(4, 32)).tolist()]
            return len(set(rows)), sorted({value for each in rows for value in each})

        scenario[-1] = scenario[-1]._replace(name=f"dropout_{randomness}_by_{chunk_size}")

    @scenario
    def random_gradients(lib, kit, randomness=randomness):
        layer = lib.nn.Dropout(0.5)
        mapped = lib.func.vmap(lib.func.grad(lambda x: layer(x).sum()), randomness=randomness)
        return len({tuple(each) for each in mapped(lib.ones(4, 32)).tolist()})

    @scenario
    def random_jacobians(lib, kit, randomness=randomness):
        layer = lib.nn.Dropout(0.5)
        found = lib.func.jacfwd(layer, randomness=randomness)(lib.ones(4))
        return found.shape, (found - found.diagonal().diag()).abs().sum()

    scenario[-2] = scenario[-2]._replace(name=f"random_gradients_{randomness}")
    scenario[-1] = scenario[-1]._replace(name=f"random_jacobians_{randomness}")


@scenario
def the_same_draws_are_those_of_one_example(lib, kit):
    lib.manual_seed(3)
    expected = lib.rand(5)
    lib.manual_seed(3)
    mapped = lib.func.vmap(lambda x: x * 0 + lib.rand(5), randomness="same")
    return expected, mapped(lib.zeros(2, 5)), lib.rand(2)


# Recipes


@scenario
def per_sample_gradients_of_a_convolutional_network(lib, kit):
    nn, f = lib.nn, lib.func
    net = filled(
        lib,
        nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
        ),
    )
    images, labels = numbers(lib, 3, 1, 6, 6), lib.tensor([0, 2, 1])
    params = values_of(net)
    buffers = {name: each.detach() for name, each in net.named_buffers()}

    def loss(params, buffers, sample, target):
        found = f.functional_call(net, (params, buffers), (sample.unsqueeze(0),))
        return nn.functional.cross_entropy(found, target.unsqueeze(0))

    found = f.vmap(f.grad(loss), in_dims=(None, None, 0, 0))(params, buffers, images, labels)
    nn.functional.cross_entropy(net(images), labels, reduction="sum").backward()
    return found, {name: each.grad for name, each in net.named_parameters()}


@scenario
def an_ensemble_of_models(lib, kit):
    f = lib.func
    models = []
    for place in range(3):
        model = network(lib)
        with lib.no_grad():
            for each in model.parameters():
                each.mul_(place + 1)
        models.append(model)
    params, buffers = f.stack_module_state(models)
    base = models[0]

    def call(params, buffers, x):
        return f.functional_call(base, (params, buffers), (x,))

    x = numbers(lib, 3, 4, 2)
    own = f.vmap(call)(params, buffers, x)
    shared = f.vmap(call, in_dims=(0, 0, None))(params, buffers, x[0])
    shared.pow(2).sum().backward()
    return own.detach(), shared.detach(), {name: each.grad for name, each in params.items()}, [
        model(x[0]).detach() for model in models
    ]  # fmt: skip


@scenario
def an_ensemble_is_trained(lib, kit):
    f = lib.func
    base = network(lib)
    params, _ = f.stack_module_state([network(lib) for _ in range(2)])
    params = {name: each.detach() for name, each in params.items()}
    x, y = data(lib)
    loss = loss_of(lib, base)
    for _ in range(2):
        gradients = f.vmap(f.grad(loss), (0, None, None))(params, x, y)
        params = {name: each - 0.1 * gradients[name] for name, each in params.items()}
    return params


@scenario
def an_ensemble_with_running_statistics(lib, kit):
    nn, f = lib.nn, lib.func
    models = [nn.BatchNorm1d(2).double() for _ in range(2)]
    params, buffers = f.stack_module_state(models)
    params = {name: each.detach() for name, each in params.items()}

    def call(params, buffers, x):
        return f.functional_call(models[0], (params, buffers), (x,))

    found = f.vmap(call)(params, buffers, numbers(lib, 2, 3, 2))
    return found, buffers, models[0].running_mean


@scenario
def a_gradient_with_running_statistics(lib, kit):
    f = lib.func
    norm = lib.nn.BatchNorm1d(2).double()
    params, x = values_of(norm), numbers(lib, 3, 2)
    buffers = {name: each.clone() for name, each in norm.named_buffers()}

    def loss(params, buffers):
        return f.functional_call(norm, (params, buffers), (x,)).pow(2).sum()

    # Buffers that are no argument of the transformed function cannot be written there.
    try:
        f.grad(lambda params: loss(params, buffers))(params)
    except RuntimeError:
        refused = True
    else:
        refused = False
    given = {name: each.clone() for name, each in norm.named_buffers()}
    return refused, buffers, f.functional_call(norm, (params, given), (x,)), given


@scenario
def running_statistics_made_inside(lib, kit):
    f = lib.func
    norm = lib.nn.BatchNorm1d(2).double()
    params, x = values_of(norm), numbers(lib, 3, 2)

    def loss(params):
        buffers = {name: each.clone() for name, each in norm.named_buffers()}
        found = f.functional_call(norm, (params, buffers), (x,))
        return found.pow(3).sum(), buffers

    return f.grad(loss, has_aux=True)(params)


@scenario
def a_neural_tangent_kernel(lib, kit):
    f = lib.func
    net = network(lib)
    params, (x, _) = values_of(net), data(lib)

    def jacobian(x):
        return f.vmap(
            f.jacrev(lambda p, x: f.functional_call(net, p, (x,))), (None, 0)
        )(params, x)  # fmt: skip

    parts = [
        lib.einsum("naf,mbf->nmab", one.flatten(2), other.flatten(2))
        for one, other in zip(jacobian(x).values(), jacobian(x[:2]).values(), strict=True)
    ]
    return sum(parts)


@scenario
def a_step_of_gradient_descent_is_differentiated(lib, kit):
    f = lib.func
    net = network(lib)
    loss, (x, y) = loss_of(lib, net), data(lib)

    def after_a_step(params):
        gradients = f.grad(loss)(params, x[:2], y[:2])
        moved = {name: each - 0.1 * gradients[name] for name, each in params.items()}
        return loss(moved, x[2:], y[2:])

    return f.grad(after_a_step)(values_of(net))


@scenario
def gradients_flow_through_everything_to_the_tape(lib, kit):
    f = lib.func
    net = network(lib)
    x, _ = data(lib)
    slopes = f.vmap(f.grad(lambda x: net(x).sum()))(x)
    bends = f.vmap(f.hessian(lambda x: net(x).sum()))(x)
    (slopes.pow(2).sum() + bends.pow(2).sum()).backward()
    # The last bias has no influence: its gradient is None in PyTorch, and zeros here.
    return {name: each.grad for name, each in net.named_parameters() if name != "2.bias"}


ENTRIES = [pytest.param(entry, id=entry.name) for entry in scenario]


@pytest.fixture(autouse=True)
def _recording() -> Iterator[None]:
    """Leave both libraries as they were."""
    yield
    for lib in (torch, flambeau):
        lib.set_grad_enabled(True)


@pytest.mark.parametrize("entry", ENTRIES)
def test_flambeau_does_what_torch_func_does(entry: Entry) -> None:
    compare(entry, torch, flambeau)


def test_most_scenarios_do_not_fail_in_torch_func() -> None:
    """A table of failures would compare nothing but types of errors."""
    failing = [each.name for each in scenario if observe(each.run, torch).message]
    assert len(failing) < len(scenario) / 4, failing


def test_scenario_names_are_unique() -> None:
    names: list[Any] = [entry.name for entry in scenario]
    assert len(names) == len(set(names))
