"""A backward that fails leaves every gradient as it was."""

import contextlib
import gc
import sys
import threading
import weakref

import pytest

import flambeau
from flambeau.core.tape.engine import Backward, running
from flambeau.core.values.cell import Cell


class Wrong(Exception):
    """What a hook raises."""


def fail(_):
    raise Wrong


def chain():
    """Two leaves, the second of which gets its gradient first, and a function of both."""
    first, second = (flambeau.ones(2, requires_grad=True) for _ in range(2))
    return first, second, lambda: ((first * 2) * second).sum()


def test_a_hook_that_raises_takes_back_the_gradients_before_it():
    first, second, total = chain()
    first.register_hook(fail)
    with pytest.raises(Wrong):
        total().backward()
    assert first.grad is None
    assert second.grad is None


def test_added_gradients_are_taken_back_and_stay_the_same_tensors():
    first, second, total = chain()
    total().backward()
    grad = second.grad
    first.register_hook(fail)
    with pytest.raises(Wrong):
        total().backward()
    assert second.grad is grad
    assert grad.tolist() == [2.0, 2.0]


def test_after_a_failure_gradients_accumulate_as_before():
    first, second, total = chain()
    handle = first.register_hook(fail)
    with pytest.raises(Wrong):
        total().backward()
    handle.remove()
    total().backward()
    total().backward()
    assert [first.grad.tolist(), second.grad.tolist()] == [[4.0, 4.0], [4.0, 4.0]]


def test_sparse_gradients_are_taken_back():
    weight = flambeau.ones(3, 2, requires_grad=True)
    first = flambeau.ones(2, requires_grad=True)
    rows = flambeau.nn.functional.embedding(flambeau.tensor([0, 2]), weight, sparse=True)
    total = (rows * (first * 2)).sum()
    total.backward(retain_graph=True)
    before = weight.grad
    first.register_hook(fail)
    with pytest.raises(Wrong):
        total.backward()
    assert weight.grad is before


def test_a_backward_inside_a_failing_one_is_taken_back_with_it():
    first, second, total = chain()
    other = flambeau.ones(2, requires_grad=True)

    other_total = (other * 3).sum()

    def run_another(_):
        other_total.backward()
        assert other.grad.tolist() == [3.0, 3.0]

    second.register_hook(run_another)
    first.register_hook(fail)
    with pytest.raises(Wrong):
        total().backward()
    assert other.grad is None


def test_a_failing_backward_inside_another_takes_back_its_own_only():
    first, second, total = chain()
    inner_first, inner_second, inner_total = chain()
    inner_first.register_hook(fail)
    inner = inner_total()

    def run_another(_):
        with pytest.raises(Wrong):
            inner.backward()

    first.register_hook(run_another)
    total().backward()
    assert inner_second.grad is None
    assert second.grad.tolist() == [2.0, 2.0]


def test_what_a_hook_has_done_after_the_accumulation_stays():
    first, second, total = chain()

    def scale(leaf):
        leaf.grad.mul_(10.0)

    second.register_post_accumulate_grad_hook(scale)
    first.register_hook(fail)
    with pytest.raises(Wrong):
        total().backward()
    assert second.grad.tolist() == [20.0, 20.0]


def test_what_another_thread_has_added_meanwhile_is_not_lost():
    first, second, total = chain()
    total().backward()

    def add_and_fail(_):
        adding = threading.Thread(target=lambda: (second * 5).sum().backward())
        adding.start()
        adding.join()
        raise Wrong

    first.register_hook(add_and_fail)
    with pytest.raises(Wrong):
        total().backward()
    assert second.grad.tolist() == [9.0, 9.0]


def is_an_old_gradient_kept():
    _, second, total = chain()
    # Arrays that wait have no weak references.
    with flambeau.compiler.gears(fuse=False):
        total().backward()
        old = weakref.ref(second.grad._read())
        total().backward()
    if old() is not None:
        gc.collect()
    return old() is not None


def test_old_gradients_are_not_kept_after_backward():
    assert not is_an_old_gradient_kept()


def lines_of(code):
    return sorted({line for *_, line in code.co_lines() if line is not None})


@pytest.mark.parametrize("line", lines_of(Backward.run.__code__))
def test_a_debugger_that_leaves_a_backward_at_any_line_keeps_no_gradients(line):
    _, _, total = chain()
    loss = total()

    def leave(frame, event, _):
        if frame.f_code is Backward.run.__code__ and frame.f_lineno == line and event == "line":
            raise Wrong
        return leave

    previous = sys.gettrace()
    sys.settrace(leave)
    try:
        with contextlib.suppress(Wrong):
            loss.backward()
    finally:
        sys.settrace(previous)
    assert not is_an_old_gradient_kept()
    assert running() is None


def test_a_write_that_was_not_counted_yet_is_taken_back(monkeypatch):
    first, second, total = chain()
    total().backward()
    loss, write = total(), Cell.write

    def half(cell, array):
        if cell is second.grad._cell:
            monkeypatch.setattr(Cell, "write", write)
            cell.array = array
            raise Wrong
        write(cell, array)

    monkeypatch.setattr(Cell, "write", half)
    with pytest.raises(Wrong):
        loss.backward()
    assert [first.grad.tolist(), second.grad.tolist()] == [[2.0, 2.0], [2.0, 2.0]]
