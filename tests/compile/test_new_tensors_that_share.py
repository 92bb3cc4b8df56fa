"""New tensors that share their elements when a function ends do so after a compiled one too."""

import pytest

import flambeau
from tests.compile.following import MAY_RUN_EAGERLY, check_as_eagerly


class Holder:
    """An object with attributes."""


def returns():
    return lambda x: [made := x * 2, made.detach()], lambda: None


def returns_with_history():
    weight = flambeau.ones(2, requires_grad=True)
    return lambda x: [made := weight * x, made.detach()], lambda: None


def assigns_attributes():
    holder = Holder()

    def step(x):
        holder.one = x * 2
        holder.other = holder.one.detach()
        return [holder.one]

    return step, lambda: holder


def exchanges_data():
    one, other = flambeau.zeros(2, 2), flambeau.zeros(2, 2)

    def step(x):
        one.data = other.data = made = x * 2
        return [made]

    return step, lambda: (one, other)


def sets_gradients():
    weights = [flambeau.ones(2, 2, requires_grad=True) for _ in range(3)]

    def step(x):
        weights[0].grad = weights[1].grad = x * 2
        weights[2].grad = weights[0].grad.detach()
        return [weights[0].grad]

    return step, lambda: weights


def sets_the_gradient_of_the_argument():
    other = flambeau.ones(2, 2, requires_grad=True)

    def step(x):
        x.grad = other.grad = x * 2
        return [x.grad]

    return step, lambda: other


CASES = [
    returns, returns_with_history, assigns_attributes, exchanges_data, sets_gradients,
    sets_the_gradient_of_the_argument,
]  # fmt: skip


@MAY_RUN_EAGERLY
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_they_share_as_eagerly(case):
    def write(result):
        with flambeau.no_grad():
            result[-1].add_(1.0)

    check_as_eagerly(case, 0 if case is exchanges_data else 1, after=write)


# New tensors that get the elements of a tensor from outside, which changes afterwards


def copied(keep):
    def make():
        state, holder = flambeau.zeros(2, 2), Holder()

        def step(x):
            made = flambeau.empty(2, 2)
            made.copy_(state)
            state.add_(1)
            return keep(holder, made, x)

        return step, lambda: (state, holder)

    return make


def returned(holder, made, x):
    return [made, made.view(4)]


def kept(holder, made, x):
    holder.last = (made, {"again": made})
    return [x * 2]


def kept_as_gradient(holder, made, x):
    x.grad = made
    return [x * 2]


@MAY_RUN_EAGERLY
@pytest.mark.parametrize("keep", [returned, kept, kept_as_gradient], ids=lambda e: e.__name__)
def test_a_copy_of_a_tensor_from_outside_is_of_the_call(keep):
    check_as_eagerly(copied(keep), 1)
