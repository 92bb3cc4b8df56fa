"""Rows that build and call one layer with either library, and compare all that is seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

import flambeau
from flambeau.core.values.convert import make

random = np.random.default_rng(11)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def uniform(*shape):
    return random.uniform(0.05, 0.95, shape).astype(np.float32)


def signs(*shape):
    return np.where(random.uniform(size=shape) < 0.5, -1.0, 1.0).astype(np.float32)


def integers(high, *shape):
    return random.integers(0, high, shape)


class Constant(NamedTuple):
    """An input that takes no gradient."""

    array: Any


class Row(NamedTuple):
    """One way to build and to call a layer.

    Attributes:
        build: Called with either library.
        inputs: Arrays, of which those of floating point take gradients.
        tolerance: Relative and absolute.
        call: Keyword arguments of the call; arrays become tensors.
        modes: In which modes it is called.
    """

    build: Callable[[Any], Any]
    inputs: tuple[Any, ...]
    tolerance: float = 2e-5
    call: Mapping[str, Any] = MappingProxyType({})
    modes: tuple[str, ...] = ("training", "evaluation")


ROWS: dict[str, Row] = {}


def row(name: str, build: Callable[[Any], Any], *inputs: Any, **options: Any) -> None:
    assert name not in ROWS
    ROWS[name] = Row(build, inputs, **options)


class Outcome(NamedTuple):
    """All that can be seen of a layer; everything in it is compared."""

    first_repr: str
    last_repr: str
    constants: tuple[str, ...]
    attributes: dict[str, Any]
    version: Any
    state: dict[str, Any]
    results: dict[str, Any]


def run(lib, to_tensor, each: Row) -> Outcome:
    lib.manual_seed(5)
    layer = each.build(lib)
    first_repr = repr(layer)
    attributes = own_attributes(lib, layer)
    results: dict[str, Any] = {}
    state = dict(layer.state_dict()) if "Lazy" not in type(layer).__name__ else {}
    for mode in each.modes:
        layer.train(mode == "training")
        inputs = [to_input(to_tensor, one) for one in each.inputs]
        lib.manual_seed(7)
        keywords = {
            name: to_tensor(np.array(one)) if isinstance(one, np.ndarray) else one
            for name, one in each.call.items()
        }
        outputs = flattened(layer(*inputs, **keywords))
        for number, output in enumerate(outputs):
            results[f"{mode}: output {number}"] = output
        wanting = [output for output in outputs if output.requires_grad]
        if wanting:
            cotangents = np.random.default_rng(3)
            total = sum(
                (one * to_tensor(cotangents.standard_normal(tuple(one.shape)).astype("f4"))).sum()
                for one in wanting
            )
            layer.zero_grad()
            total.backward()
        for number, one in enumerate(inputs):
            results[f"{mode}: input {number} afterwards"] = one
            if one.requires_grad and wanting:
                results[f"{mode}: gradient of input {number}"] = one.grad
        for name, parameter in layer.named_parameters():
            results[f"{mode}: gradient of {name}"] = parameter.grad
        for name, value in layer.state_dict().items():
            results[f"{mode}: {name} afterwards"] = value
    metadata = {name: dict(one) for name, one in layer.state_dict()._metadata.items()}
    return Outcome(
        first_repr,
        repr(layer),
        tuple(getattr(layer, "__constants__", ())),
        attributes,
        metadata,
        {name: as_numpy(value) for name, value in state.items()},
        {name: as_numpy(value) for name, value in results.items()},
    )


def own_attributes(lib, layer):
    """What a layer has besides what every module has: names, and values that are plain."""
    plain = bool | int | float | str | tuple | list | None
    return {
        name: value if isinstance(value, plain) else None
        for name, value in sorted(vars(layer).items())
        if name not in vars(lib.nn.Module()) and name != "_forward_pre_hooks"
    }


def flattened(value):
    """The tensors in nested tuples."""
    if isinstance(value, tuple):
        return [leaf for each in value for leaf in flattened(each)]
    return [] if value is None else [value]


def to_input(to_tensor, one):
    if isinstance(one, Constant):
        return to_tensor(np.array(one.array))
    tensor = to_tensor(np.array(one))
    return tensor.requires_grad_() if one.dtype.kind == "f" else tensor


def as_numpy(value):
    return None if value is None else value.detach().numpy()


def check(each: Row) -> None:
    """Compare everything that is seen of the layer in both libraries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = run(torch, torch.from_numpy, each)
        ours = run(flambeau, make, each)
    assert ours.first_repr == theirs.first_repr
    assert ours.last_repr == theirs.last_repr
    assert ours.constants == theirs.constants
    assert ours.attributes == theirs.attributes
    assert ours.version == theirs.version
    assert list(ours.state) == list(theirs.state)
    for key, value in theirs.state.items():
        assert ours.state[key].dtype == value.dtype
        np.testing.assert_allclose(ours.state[key], value, rtol=1e-6, atol=1e-7, err_msg=key)
    assert list(ours.results) == list(theirs.results)
    for key, value in theirs.results.items():
        found = ours.results[key]
        if value is None or found is None:
            assert found is value, key
            continue
        assert found.dtype == value.dtype, key
        assert found.shape == value.shape, key
        np.testing.assert_allclose(
            found, value, rtol=each.tolerance, atol=each.tolerance, err_msg=key
        )
