"""Parametrized, normalized and orthogonal weights with both libraries."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch

import flambeau
from tests.conformance.expression import check
from tests.conformance.small_layers import INPUTS, layer_of, normal, tensor


def reparametrized(lib, kind, change):
    """All that can be seen of a layer whose weight has been reparametrized."""
    layer = change(layer_of(lib, kind))
    seen = [repr(layer), tuple(layer.state_dict()), type(layer).__name__]
    seen += [dict(each) for each in layer.state_dict()._metadata.values()]
    seen += list(layer.state_dict().values())
    for _ in range(2):
        output = layer(normal(lib, *INPUTS[kind]))
        (output * normal(lib, *output.shape, seed=1)).sum().backward()
        seen += [output, layer.weight]
        layer.eval()
    seen += [each.grad for each in layer.parameters()]
    seen += list(layer.buffers())
    with lib.no_grad():
        for each in layer.parameters():
            each.add_(0.1)
    return *seen, layer(normal(lib, *INPUTS[kind]))


def parametrization(tool, /, **options):
    def change(lib):
        return lambda layer: getattr(lib.nn.utils.parametrizations, tool)(layer, **options)

    return change


def older(tool, /, **options):
    def change(lib):
        return lambda layer: getattr(lib.nn.utils, tool)(layer, **options)

    return change


REPARAMETRIZED = {
    "weight_norm": ("linear", parametrization("weight_norm")),
    "weight_norm of columns": ("convolution", parametrization("weight_norm", dim=1)),
    "weight_norm of last": ("convolution", parametrization("weight_norm", dim=2)),
    "weight_norm of all": ("linear", parametrization("weight_norm", dim=None)),
    "weight_norm of a bias": ("linear", parametrization("weight_norm", name="bias")),
    "spectral_norm": ("linear", parametrization("spectral_norm")),
    "spectral_norm of columns": ("convolution", parametrization("spectral_norm", dim=1)),
    "spectral_norm twice": ("convolution", parametrization("spectral_norm", n_power_iterations=2)),
    "spectral_norm transposed": ("transposed", parametrization("spectral_norm")),
    "spectral_norm of a bias": ("linear", parametrization("spectral_norm", name="bias")),
    "orthogonal": ("linear", parametrization("orthogonal")),
    "orthogonal tall": ("wide", parametrization("orthogonal")),
    "orthogonal square": ("square", parametrization("orthogonal")),
    "orthogonal exponential": ("wide", parametrization("orthogonal", orthogonal_map="matrix_exp")),
    "orthogonal cayley": ("linear", parametrization("orthogonal", orthogonal_map="cayley")),
    "orthogonal direct": ("linear", parametrization("orthogonal", use_trivialization=False)),
    "orthogonal direct tall": ("wide", parametrization("orthogonal", use_trivialization=False)),
    "orthogonal direct cayley": (
        "square", parametrization("orthogonal", orthogonal_map="cayley", use_trivialization=False),
    ),
    "older weight_norm": ("linear", older("weight_norm")),
    "older weight_norm of all": ("convolution", older("weight_norm", dim=None)),
    "older spectral_norm": ("linear", older("spectral_norm")),
    "older spectral_norm twice": ("transposed", older("spectral_norm", n_power_iterations=2)),
}  # fmt: skip


@pytest.mark.parametrize("name", REPARAMETRIZED)
def test_reparametrized_layer(name):
    kind, change = REPARAMETRIZED[name]
    check(lambda lib: reparametrized(lib, kind, change(lib)), 1e-5)


def removed(lib, change, remove, **options):
    layer = change(layer_of(lib, "linear"))
    layer(normal(lib, 2, 4))
    remove(layer, **options)
    state = layer.state_dict()
    return repr(layer), tuple(state), *state.values(), layer.weight.requires_grad


def parametrize(lib):
    return lib.nn.utils.parametrize


class Doubled:
    """A parametrization, for either library."""

    def __new__(cls, lib, inverse=True):
        class Double(lib.nn.Module):
            def forward(self, x):
                return 2 * x

        class DoubleAndBack(Double):
            def right_inverse(self, x):
                return x / 2

        return DoubleAndBack() if inverse else Double()


class Split:
    """A parametrization by two tensors."""

    def __new__(cls, lib):
        class Sum(lib.nn.Module):
            def forward(self, x, y):
                return x + y

            def right_inverse(self, z):
                return z / 4, 3 * z / 4

        return Sum()


class Shaped:
    """A parametrization that gives another shape or dtype."""

    def __new__(cls, lib, change):
        class Changing(lib.nn.Module):
            def forward(self, x):
                return change(x)

        return Changing()


def registered(lib, *parametrizations, name="weight", **options):
    layer = layer_of(lib, "linear")
    for each in parametrizations:
        parametrize(lib).register_parametrization(layer, name, each, **options)
    return layer


def seen(lib, layer):
    state = layer.state_dict()
    return repr(layer), type(layer).__name__, tuple(state), *state.values(), layer.weight


def assigned(lib, *parametrizations):
    layer = registered(lib, *parametrizations)
    layer.weight = lib.full((3, 4), 6.0)
    return seen(lib, layer)


def chained(lib):
    layer = registered(lib, Doubled(lib), Doubled(lib, inverse=False))
    found = seen(lib, layer)
    try:
        layer.weight = lib.zeros(3, 4)
    except RuntimeError as error:
        found += (type(error).__name__,)
    return found


def buffer_parametrized(lib):
    layer = lib.nn.BatchNorm1d(3)
    parametrize(lib).register_parametrization(layer, "running_mean", Doubled(lib))
    return tuple(layer.state_dict()), tuple(n for n, _ in layer.named_buffers()), layer.running_mean


def cached_value(lib):
    layer = registered(lib, Doubled(lib))
    with parametrize(lib).cached():
        same = layer.weight is layer.weight
    return same, layer.weight is layer.weight


def copied(lib):
    layer = registered(lib, Doubled(lib))
    other = copy.deepcopy(layer)
    with lib.no_grad():
        layer.parametrizations.weight.original.zero_()
    return seen(lib, other)


def pickled(lib):
    return pickle.dumps(registered(lib, Doubled(lib)))


def loaded(lib):
    layer, other = registered(lib, Split(lib)), registered(lib, Split(lib))
    with lib.no_grad():
        layer.parametrizations.weight.original0.add_(1)
    return str(other.load_state_dict(layer.state_dict())), *seen(lib, other)


def older_loaded(lib):
    old = lib.nn.utils.weight_norm(layer_of(lib, "linear"))
    with lib.no_grad():
        old.weight_g.mul_(2)
    new = lib.nn.utils.parametrizations.weight_norm(layer_of(lib, "linear"))
    return str(new.load_state_dict(old.state_dict())), *seen(lib, new)


def transferred(lib, *parametrizations):
    source, target = registered(lib, *parametrizations), layer_of(lib, "linear")
    del target.weight
    parametrize(lib).transfer_parametrizations_and_params(source, target)
    found = seen(lib, target)
    with lib.no_grad():
        for each in source.parametrizations.weight.parameters():
            each.zero_()
    return *found, target.weight


def old_spectral_state(lib):
    layer = lib.nn.utils.spectral_norm(layer_of(lib, "wide"))
    state = layer.state_dict()
    state["weight"] = layer.weight.detach() / 3
    del state["weight_v"], state._metadata[""]["spectral_norm"]
    other = lib.nn.utils.spectral_norm(layer_of(lib, "wide"))
    return str(other.load_state_dict(state)), *other.state_dict().values()


def registered_types(lib):
    layer = layer_of(lib, "linear")
    tools = parametrize(lib)
    before = tools.is_parametrized(layer), tools.type_before_parametrizations(layer).__name__
    tools.register_parametrization(layer, "weight", Doubled(lib))
    return (
        *before,
        tools.is_parametrized(layer),
        tools.is_parametrized(layer, "weight"),
        tools.is_parametrized(layer, "bias"),
        tools.type_before_parametrizations(layer).__name__,
        isinstance(layer, lib.nn.Linear),
        [name for name, _ in layer.named_parameters()],
    )


def orthogonal_assigned(lib):
    layer = lib.nn.utils.parametrizations.orthogonal(layer_of(lib, "square"))
    layer.weight = lib.eye(4)
    return layer.weight


PARAMETRIZE = {
    "registered": lambda lib: seen(lib, registered(lib, Doubled(lib))),
    "without inverse": lambda lib: seen(lib, registered(lib, Doubled(lib, inverse=False))),
    "two tensors": lambda lib: seen(lib, registered(lib, Split(lib))),
    "two of one tensor": lambda lib: seen(lib, registered(lib, Doubled(lib), Doubled(lib))),
    "chained": chained,
    "assigned": lambda lib: assigned(lib, Doubled(lib)),
    "assigned chained": lambda lib: assigned(lib, Split(lib), Doubled(lib)),
    "assigned without inverse": lambda lib: assigned(lib, Doubled(lib, inverse=False)),
    "a buffer": buffer_parametrized,
    "cached": cached_value,
    "copied": copied,
    "pickled": pickled,
    "loaded": loaded,
    "loaded from the older": older_loaded,
    "types": registered_types,
    "transferred": lambda lib: transferred(lib, Doubled(lib)),
    "transferred two tensors": lambda lib: transferred(lib, Split(lib)),
    "training": lambda lib: (
        registered(lib, Doubled(lib)).eval().parametrizations.weight[0].training
    ),
    "unknown name": lambda lib: registered(lib, Doubled(lib), name="wait"),
    "another shape": lambda lib: registered(lib, Shaped(lib, lambda x: x.sum(0))),
    "another shape unsafe": lambda lib: (
        registered(lib, Shaped(lib, lambda x: x.sum(0)), unsafe=True).weight
    ),
    "another dtype": lambda lib: registered(lib, Shaped(lib, lambda x: x.double())),
    "no tensor": lambda lib: registered(lib, Shaped(lib, lambda x: 3)),
    "another shape chained": lambda lib: registered(
        lib, Doubled(lib), Shaped(lib, lambda x: x.sum(0))
    ),
    "assigned of another dtype": lambda lib: setattr(
        registered(lib, Doubled(lib)), "weight", lib.zeros(3, 4, dtype=lib.float64)
    ),
    "removed": lambda lib: removed(
        lib,
        lambda layer: parametrize(lib).register_parametrization(layer, "weight", Doubled(lib)),
        parametrize(lib).remove_parametrizations,
        tensor_name="weight",
    ),
    "removed without value": lambda lib: removed(
        lib,
        lambda layer: parametrize(lib).register_parametrization(layer, "weight", Doubled(lib)),
        parametrize(lib).remove_parametrizations,
        tensor_name="weight",
        leave_parametrized=False,
    ),
    "removed two tensors": lambda lib: removed(
        lib,
        lib.nn.utils.parametrizations.weight_norm,
        parametrize(lib).remove_parametrizations,
        tensor_name="weight",
    ),
    "removed two tensors without value": lambda lib: removed(
        lib,
        lib.nn.utils.parametrizations.weight_norm,
        parametrize(lib).remove_parametrizations,
        tensor_name="weight",
        leave_parametrized=False,
    ),
    "removed from nothing": lambda lib: parametrize(lib).remove_parametrizations(
        layer_of(lib, "linear"), "weight"
    ),
    "removed older weight_norm": lambda lib: removed(
        lib, lib.nn.utils.weight_norm, lib.nn.utils.remove_weight_norm
    ),
    "removed older spectral_norm": lambda lib: removed(
        lib, lib.nn.utils.spectral_norm, lib.nn.utils.remove_spectral_norm
    ),
    "removed no weight_norm": lambda lib: lib.nn.utils.remove_weight_norm(lib.nn.Linear(1, 1)),
    "removed no spectral_norm": lambda lib: lib.nn.utils.remove_spectral_norm(lib.nn.Linear(1, 1)),
    "weight_norm twice": lambda lib: lib.nn.utils.weight_norm(
        lib.nn.utils.weight_norm(lib.nn.Linear(1, 1))
    ),
    "spectral_norm twice": lambda lib: lib.nn.utils.spectral_norm(
        lib.nn.utils.spectral_norm(lib.nn.Linear(1, 1))
    ),
    "spectral_norm without iterations": lambda lib: lib.nn.utils.parametrizations.spectral_norm(
        lib.nn.Linear(1, 1), n_power_iterations=0
    ),
    "spectral_norm of no such dimension": lambda lib: lib.nn.utils.parametrizations.spectral_norm(
        lib.nn.Linear(1, 1), dim=2
    ),
    "weight_norm of no such dimension": lambda lib: lib.nn.utils.parametrizations.weight_norm(
        lib.nn.Linear(1, 1), dim=2
    ),
    "older weight_norm of no such dimension": lambda lib: lib.nn.utils.weight_norm(
        lib.nn.Linear(1, 1), dim=2
    ),
    "older weight_norm of no bias": lambda lib: lib.nn.utils.weight_norm(
        lib.nn.Linear(1, 1, bias=False), "bias"
    ),
    "spectral_norm of nothing": lambda lib: lib.nn.utils.parametrizations.spectral_norm(
        lib.nn.Linear(1, 1), "wait"
    ),
    "spectral_norm of an old state": old_spectral_state,
    "orthogonal of a vector": lambda lib: lib.nn.utils.parametrizations.orthogonal(
        lib.nn.Linear(1, 1), "bias"
    ),
    "orthogonal of nothing": lambda lib: lib.nn.utils.parametrizations.orthogonal(
        lib.nn.Linear(1, 1), "wait"
    ),
    "orthogonal by no such map": lambda lib: lib.nn.utils.parametrizations.orthogonal(
        lib.nn.Linear(1, 1), orthogonal_map="qr"
    ),
    "orthogonal assigned": orthogonal_assigned,
    "orthogonal assigned another shape": lambda lib: setattr(
        lib.nn.utils.parametrizations.orthogonal(layer_of(lib, "square")), "weight", lib.eye(3)
    ),
}


@pytest.mark.parametrize("name", PARAMETRIZE)
def test_parametrize(name):
    check(PARAMETRIZE[name], 1e-5)


def test_states_pass_between_the_libraries():
    changes = [
        parametrization("orthogonal"),
        parametrization("spectral_norm"),
        older("spectral_norm"),
    ]
    for change, (one, other) in itertools.product(changes, [(torch, flambeau), (flambeau, torch)]):
        source = change(one)(layer_of(one, "linear"))
        target = change(other)(layer_of(other, "linear"))
        state = {key: tensor(other, value.numpy()) for key, value in source.state_dict().items()}
        target.load_state_dict(state)
        found, expected = (
            each.eval()(normal(lib, 2, 4)).detach().numpy()
            for each, lib in ((target, other), (source, one))
        )
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
