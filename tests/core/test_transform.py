"""What transformations need of the core: insides, captured tensors, values that are not known."""

from __future__ import annotations

import jax
import pytest

import flambeau
from flambeau.core.tape.transform import Capture, Inside, lifted
from flambeau.core.values.tracers import constant


def leaf(*values):
    return flambeau.tensor(values or (1.0, 2.0), requires_grad=True)


def test_what_is_outside_cannot_be_written_inside():
    outside = flambeau.zeros(2)
    with Inside(), pytest.raises(RuntimeError, match="outside"):
        outside.add_(1)
    assert outside.tolist() == [0.0, 0.0]
    assert outside.add_(1).tolist() == [1.0, 1.0]


def test_a_view_of_what_is_outside_cannot_be_written_inside():
    outside = flambeau.zeros(2)
    with Inside(), pytest.raises(RuntimeError, match="outside"):
        outside[0] = 1.0
    assert outside.tolist() == [0.0, 0.0]


def test_a_refused_write_leaves_the_history_alone():
    outside, x = flambeau.zeros(2), leaf()
    with Inside(), pytest.raises(RuntimeError, match="outside"):
        outside.add_(x)
    assert not outside.requires_grad


def test_what_is_made_inside_can_be_written_there_and_afterwards():
    with Inside():
        made = flambeau.zeros(2)
        made[0] = 3.0
    made[1] = 4.0
    assert made.tolist() == [3.0, 4.0]


def test_insides_nest():
    with Inside():
        outer = flambeau.zeros(1)
        with Inside(), pytest.raises(RuntimeError, match="outside"):
            outer.add_(1)
        outer.add_(1)
    assert outer.item() == 1.0


def test_captured_tensors_are_noted_once_and_replaced():
    x, plain = leaf(), flambeau.ones(2)
    with Capture() as capture:
        y = x * plain + x
    assert capture.tensors == [x]
    assert not y.requires_grad
    assert y.tolist() == [2.0, 4.0]


def test_what_requires_grad_inside_is_not_captured():
    with Capture() as capture:
        x = leaf()
        (x * x).sum().backward()
    assert capture.tensors == []
    assert x.grad.tolist() == [2.0, 4.0]


def test_nothing_is_captured_under_no_grad():
    x = leaf()
    with Capture() as capture, flambeau.no_grad():
        x * 2
    assert capture.tensors == []


def test_a_second_run_takes_other_values():
    x = leaf()
    values = [jax.numpy.asarray([10.0, 20.0], "float32")]
    with Capture(values):
        y = x * 2
    assert y.tolist() == [20.0, 40.0]


def test_a_second_run_that_captures_something_else_is_refused():
    x = leaf()
    with Capture([]), pytest.raises(RuntimeError, match="other tensors"):
        x * 2


def test_outside_a_transformation_operands_stay_as_they_are():
    x = leaf()
    assert lifted((x, 3)) == (x, 3)


def test_no_gradient_of_jax_passes_a_constant():
    gradient = jax.grad(lambda x: x * constant(x))(3.0)
    assert gradient == 3.0
    assert constant(5) == 5


def test_no_gradient_of_jax_passes_detach_or_data():
    def function(array):
        x = flambeau.from_jax(array)
        return (x * x.detach() * x.data).jax()

    assert jax.grad(function)(jax.numpy.float32(3.0)) == 9.0


@pytest.mark.parametrize("ask", [bool, float, int, lambda x: x.item()])
def test_a_value_that_is_not_known_is_refused(ask):
    def function(array):
        return ask(flambeau.from_jax(array))

    with pytest.raises(RuntimeError, match=r"not known.*where"):
        jax.vmap(function)(jax.numpy.ones(2))


def test_a_value_that_is_known_is_given():
    def function(array):
        x = flambeau.from_jax(array)
        return (x * x.item()).jax()

    output, tangent = jax.jvp(function, (jax.numpy.float32(3.0),), (jax.numpy.float32(1.0),))
    assert (output, tangent) == (9.0, 3.0)
