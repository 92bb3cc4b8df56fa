"""Modes: gradient recording and inference, as context managers, decorators, per thread."""

import threading

import pytest

import flambeau

X = flambeau.ones(2, requires_grad=True)


def records():
    return (X * 2).requires_grad


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (flambeau.no_grad, False),
        (flambeau.enable_grad, True),
        (flambeau.inference_mode, False),
        (lambda: flambeau.inference_mode(False), True),
        (lambda: flambeau.set_grad_enabled(False), False),
        (lambda: flambeau.set_grad_enabled(True), True),
    ],
)
def test_context_manager_and_decorator(mode, expected):
    with mode():
        assert records() is expected
    assert records()
    assert mode()(records)() is expected
    assert records()


def test_without_parentheses():
    @flambeau.no_grad
    def f():
        """Its own text."""
        return records()

    assert not f()
    assert f.__doc__ == "Its own text."
    assert f.__name__ == "f"


def test_nesting():
    with flambeau.no_grad():
        with flambeau.enable_grad():
            assert records()
        assert not records()


def test_as_a_function():
    try:
        flambeau.set_grad_enabled(False)
        assert not flambeau.is_grad_enabled()
    finally:
        flambeau.set_grad_enabled(True)
    assert flambeau.is_grad_enabled()


def test_an_error_ends_the_mode():
    with pytest.raises(ValueError, match="mine"), flambeau.no_grad():
        raise ValueError("mine")
    assert records()


def test_a_recursive_function_keeps_its_modes_apart():
    @flambeau.no_grad()
    def descend(n):
        return records() or (n > 0 and descend(n - 1))

    assert descend(3) is False
    assert records()


def test_generators_hold_the_mode_while_they_run_only():
    @flambeau.no_grad()
    def steps():
        received = yield records()
        try:
            yield received
        except KeyError:
            yield records()

    generator = steps()
    assert next(generator) is False
    assert records()
    assert generator.send("sent") == "sent"
    assert generator.throw(KeyError()) is False
    assert records()


def test_modes_belong_to_their_thread():
    seen = []
    with flambeau.no_grad():
        thread = threading.Thread(target=lambda: seen.append(records()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_inference_tensors_take_no_part_in_recorded_computations():
    with flambeau.inference_mode():
        y = flambeau.ones(2) * 2
    assert y.is_inference()
    assert flambeau.is_inference_mode_enabled() is False
    with pytest.raises(RuntimeError, match="clone"):
        X * y
    assert (X * y.clone()).requires_grad
    with pytest.raises(RuntimeError, match="inference"):
        y.add_(1)
