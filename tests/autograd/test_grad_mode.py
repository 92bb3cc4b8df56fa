"""Modes: what is this library's own; the rest is compared with PyTorch."""

from __future__ import annotations

import flambeau
from flambeau import enable_grad, inference_mode, no_grad, set_grad_enabled


def test_a_switch_says_what_it_is():
    assert repr(set_grad_enabled(True)) == "set_grad_enabled(mode=True)"


def test_a_decorated_function_keeps_its_name_and_text():
    @no_grad()
    def documented():
        """Text."""

    assert documented.__name__ == "documented"
    assert documented.__doc__ == "Text."


def test_one_context_can_be_entered_again():
    context = no_grad()
    for _ in range(2):
        with context:
            assert not flambeau.is_grad_enabled()
    assert flambeau.is_grad_enabled()


def test_nothing_is_recorded_in_inference_mode_even_when_asked():
    x = flambeau.ones(2, requires_grad=True)
    with inference_mode(), enable_grad():
        y = x * 2
        assert flambeau.is_grad_enabled()
    assert not y.requires_grad
    assert y.is_inference()


def test_a_compiled_function_follows_the_mode():
    x = flambeau.ones(2, requires_grad=True)
    double = flambeau.compile(lambda x: x * 2)
    assert double(x).requires_grad
    with no_grad():
        assert not double(x).requires_grad
    assert double(x).requires_grad
