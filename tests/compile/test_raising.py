"""A function that raises while it is traced leaves no tracer behind, wherever it has put one."""

from __future__ import annotations

import pytest
from jax.core import Tracer

import flambeau
from flambeau import nn


class Broken(Exception):
    """What the functions raise."""


class Holder:
    """An object of the user's."""


def registered(model, x):
    model.register_buffer("made", x * 2)


def attribute(model, x):
    model.made = x * 2


def attribute_of_an_object(holder, x):
    holder.made = x * 2


def in_a_list(found, x):
    found.append(x * 2)


def in_a_dictionary(found, x):
    found["made"] = x * 2


def called(model, x):
    model(flambeau.cat([x, x * 2]))


def backward(model, x):
    model(x).sum().backward()


def parameter(model, x):
    model.weight = nn.Parameter(model.weight * x.sum())


def data(model, x):
    model.weight.data = model.weight * x.sum()


def appended(model, x):
    model.append(nn.Linear(2, 2))
    model(x)


def stepped(pair, x):
    model, optimizer = pair
    model(x).sum().backward()
    optimizer.step()


def model_and_optimizer():
    model = nn.Linear(2, 2)
    return model, flambeau.optim.Adam(model.parameters())


CASES = [
    (registered, lambda: nn.Linear(2, 2)), (attribute, lambda: nn.Linear(2, 2)),
    (attribute_of_an_object, Holder), (in_a_list, list), (in_a_dictionary, dict),
    (called, lambda: nn.LazyLinear(3)), (called, lambda: nn.BatchNorm1d(2)),
    (called, lambda: nn.LazyBatchNorm1d()), (backward, lambda: nn.Linear(2, 2)),
    (parameter, lambda: nn.Linear(2, 2)), (data, lambda: nn.Linear(2, 2)),
    (appended, lambda: nn.Sequential(nn.Linear(2, 2))), (stepped, model_and_optimizer),
]  # fmt: skip


def tensors_of(place, seen):
    """All tensors that can be reached from ``place``, gradients included."""
    if id(place) in seen:
        return
    seen[id(place)] = place
    if isinstance(place, flambeau.Tensor):
        yield place
    members = place if isinstance(place, list | tuple) else vars(place).values() if hasattr(
        place, "__dict__"
    ) else place.values() if isinstance(place, dict) else ()  # fmt: skip
    for each in list(members):
        yield from tensors_of(each, seen)


@pytest.mark.filterwarnings("ignore::flambeau.compile.errors.CompileWarning")
@pytest.mark.parametrize(("change", "make"), CASES, ids=lambda each: getattr(each, "__name__", ""))
def test_no_tracer_is_left(change, make):
    holder = make()

    @flambeau.compile
    def broken(x):
        change(holder, x)
        raise Broken

    # The calls before the trace run eagerly where something is made that lives on.
    for _ in range(3):
        with pytest.raises(Broken):
            broken(flambeau.ones(1, 2))
    for tensor in tensors_of(holder, {}):
        assert not isinstance(tensor._cell.array, Tracer)
        tensor.tolist() if not isinstance(tensor, nn.UninitializedParameter) else None
