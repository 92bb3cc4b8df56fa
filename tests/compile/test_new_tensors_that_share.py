"""New tensors that share their elements when a function ends do so after a compiled one too."""

from __future__ import annotations

import pytest

import flambeau


class Holder:
    """An object with attributes."""


def returns():
    weight = flambeau.ones(3)

    def step():
        made = weight * 2
        return made, made.detach()

    return step, lambda results: results


def returns_with_history():
    weight = flambeau.ones(3, requires_grad=True)

    def step():
        made = weight * 2
        return made, made.detach()

    return step, lambda results: results


def assigns_attributes():
    weight, holder = flambeau.ones(3), Holder()

    def step():
        holder.one = weight * 2
        holder.other = holder.one.detach()
        return holder.one

    return step, lambda result: (holder.one, holder.other, result)


def exchanges_data():
    weight, one, other = flambeau.ones(3), flambeau.zeros(3), flambeau.zeros(3)

    def step():
        made = weight * 2
        one.data = made
        other.data = made
        return made

    return step, lambda result: (one, other, result)


def sets_gradients():
    weight = flambeau.ones(3)
    one, other, third = (flambeau.ones(3, requires_grad=True) for _ in range(3))

    def step():
        one.grad = other.grad = weight * 2
        third.grad = one.grad.detach()
        return one.grad

    return step, lambda result: (one.grad, other.grad, third.grad, result)


def sets_gradients_of_arguments():
    weight = flambeau.ones(3)
    one, other = (flambeau.ones(3, requires_grad=True) for _ in range(2))

    def call(step):
        return step(one, other)

    def step(one, other):
        one.grad = other.grad = weight * 2

    return step, lambda _: (one.grad, other.grad), call


CASES = [
    returns, returns_with_history, assigns_attributes, exchanges_data, sets_gradients,
    sets_gradients_of_arguments,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_they_share_as_eagerly(case):
    seen = []
    for wrap in (lambda function: function, flambeau.compile):
        step, found, *call = case()
        step = wrap(step)
        observed = []
        for _ in range(3):
            tensors = found(call[0](step) if call else step())
            with flambeau.no_grad():
                tensors[-1].add_(1.0)
            observed.append(
                [(each.tolist(), [each is other for other in tensors]) for each in tensors]
            )
        seen.append(observed)
    assert seen[1] == seen[0]
    assert {tuple(values) for values, _ in seen[0][0]} == {(3.0, 3.0, 3.0)}
