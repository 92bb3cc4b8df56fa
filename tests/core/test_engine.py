"""The engine: what runs, in which order, and what it leaves behind."""

from __future__ import annotations

import threading

import pytest

import flambeau
from flambeau.core.kernels.kernel import Kernel
from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.core.tape import engine


def leaf(*values):
    return flambeau.tensor(values or (1.0, 2.0), requires_grad=True)


def order_of(tensors):
    """Hooks that note in which order the gradients of tensors become known."""
    seen = []
    for name, tensor in tensors.items():
        tensor.register_hook(lambda grad, name=name: seen.append(name))
    return seen


def test_nodes_run_from_the_newest_to_the_oldest():
    x = leaf()
    a = x * 2
    b = x * 3
    c = a * b
    d = a + 1
    seen = order_of({"a": a, "b": b, "c": c, "d": d, "x": x})
    (c + d).sum().backward()
    assert seen == ["d", "c", "b", "a", "x"]


def test_an_accumulator_runs_as_soon_as_its_last_gradient_is_there():
    x, w = leaf(), leaf()
    a = x * 2
    b = w * 3
    seen = order_of({"a": a, "b": b, "x": x, "w": w})
    (a * b).sum().backward()
    assert seen == ["b", "w", "a", "x"]


def test_a_root_that_is_a_leaf_runs_first():
    x, w = leaf(), leaf()
    y = w * 2
    seen = order_of({"x": x, "y": y})
    flambeau.autograd.backward([y, x], [flambeau.ones(2), flambeau.ones(2)])
    assert seen == ["x", "y"]


def test_grad_computes_only_what_leads_to_its_inputs(monkeypatch):
    x, w = leaf(), leaf(3.0, 4.0)
    y = (x * w).sum()
    asked = []
    gradient = Kernel.gradient

    def spy(self, needs, given, saved):
        asked.append((self.name, needs))
        return gradient(self, needs, given, saved)

    monkeypatch.setattr(Kernel, "gradient", spy)
    flambeau.autograd.grad(y, w)
    assert asked[-1] == ("mul", (False, True))


def test_grad_does_not_run_what_leads_elsewhere():
    x, w = leaf(), leaf(3.0, 4.0)
    y, z = x * x, w * w
    flambeau.autograd.grad((y + z).sum(), x)
    assert y.grad_fn.spent
    assert not z.grad_fn.spent


def test_an_error_in_the_middle_leaves_the_modes_as_they_were():
    x = leaf()
    y = x * x
    y.register_hook(lambda grad: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()
    assert flambeau.is_grad_enabled()
    with pytest.raises(RuntimeError, match="no backward is running"):
        engine.current()


def test_an_inner_backward_is_the_current_one_while_it_runs():
    x, w = leaf(), leaf()
    seen = []

    def inner(grad):
        outer = engine.current()
        with flambeau.enable_grad():
            y = (w * 2).sum()
        w.register_hook(lambda grad: seen.append(engine.current() is not outer))
        y.backward()
        seen.append(engine.current() is outer)

    x.register_hook(inner)
    (x * 2).sum().backward()
    assert seen == [True, True]


def test_two_threads_run_backward_through_one_graph():
    x = leaf()
    y = (x * x).sum()
    barrier = threading.Barrier(2)

    def run():
        barrier.wait()
        found.append(flambeau.autograd.grad(y, x, retain_graph=True)[0].tolist())

    found: list = []
    threads = [threading.Thread(target=run) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [[2.0, 4.0]] * 2


def test_a_gradient_is_not_shared_between_two_leaves():
    x, w = leaf(), leaf()
    (x + w).sum().backward()
    x.grad.mul_(10)
    assert w.grad.tolist() == [1.0, 1.0]


def test_captured_gradients_are_tensors_of_their_own():
    x = leaf()
    first, second = flambeau.autograd.grad(x.sum(), [x, x])
    first.mul_(10)
    assert second.tolist() == [1.0, 1.0]


def test_an_operator_that_keeps_residuals_is_differentiated_to_the_second_order():
    @op(keep_residuals=True, name="cube_for_this_test")
    def cube(input: Array) -> Array:
        return input**3

    x = leaf()
    (first,) = flambeau.autograd.grad(cube(x).sum(), x, create_graph=True)
    (second,) = flambeau.autograd.grad(first.sum(), x)
    assert first.tolist() == [3.0, 12.0]
    assert second.tolist() == [6.0, 12.0]


def test_gradients_of_a_tensor_that_has_been_resized_are_refused():
    weight = flambeau.ones(2, 3, requires_grad=True)
    least = weight.min(-1)[0]
    with flambeau.no_grad(), pytest.warns(UserWarning, match="was resized"):
        flambeau.add(least, least, out=weight)
    with pytest.raises(RuntimeError, match=r"the size of the leaf must match"):
        ((weight * weight).sum() + least.sum()).backward()


def test_a_gradient_of_a_former_shape_is_refused():
    x = flambeau.ones(2, 3, requires_grad=True)
    total = (x * 2).sum()
    x.data = flambeau.zeros(2, 3)
    total.backward(retain_graph=True)
    x.data = flambeau.zeros(3)
    x.grad = None
    with pytest.raises(RuntimeError, match=r"\[2, 3\] was given the shape \[3\] in place"):
        total.backward()
    assert x.grad is None
