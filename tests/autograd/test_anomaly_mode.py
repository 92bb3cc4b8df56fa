"""`detect_anomaly`: where the operator behind a bad gradient was recorded."""

from __future__ import annotations

import pytest

import flambeau
from flambeau.autograd import (
    Function,
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)


def root(x):
    return x.sqrt()  # the line that the note shows


def zero():
    return flambeau.tensor(0.0, requires_grad=True)


def test_the_note_shows_the_line():
    with detect_anomaly(), pytest.raises(RuntimeError, match="SqrtBackward0 gave nan") as caught:
        (root(zero()) * 0.0).backward()
    (note,) = caught.value.__notes__
    assert "the line that the note shows" in note
    assert "flambeau/core" not in note


def test_a_graph_from_before_has_no_lines():
    y = root(zero()) * 0.0
    with detect_anomaly(), pytest.raises(RuntimeError, match="SqrtBackward0") as caught:
        y.backward()
    assert "outside detect_anomaly" in caught.value.__notes__[0]


def test_errors_get_the_note_too():
    class Failing(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("mine")

    with detect_anomaly(check_nan=False), pytest.raises(KeyError) as caught:
        Failing.apply(zero()).backward()
    assert "FailingBackward was recorded here" in caught.value.__notes__[0]


def test_nan_is_let_pass_on_demand():
    x = zero()
    with detect_anomaly(check_nan=False):
        (root(x) * 0.0).backward()
    assert bool(x.grad.isnan())


def test_the_watch_ends_with_its_block():
    with detect_anomaly():
        assert is_anomaly_enabled()
        assert is_anomaly_check_nan_enabled()
        with set_detect_anomaly(False):
            assert not is_anomaly_enabled()
        assert is_anomaly_enabled()
    assert not is_anomaly_enabled()


def test_the_watch_can_be_switched():
    switch = set_detect_anomaly(True, check_nan=False)
    try:
        assert is_anomaly_enabled()
        assert not is_anomaly_check_nan_enabled()
    finally:
        switch.__exit__()
    assert not is_anomaly_enabled()


def test_the_watch_decorates():
    @detect_anomaly()
    def probe():
        return is_anomaly_enabled()

    assert probe()
    assert not is_anomaly_enabled()


def test_good_gradients_pass_the_watch():
    x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    with detect_anomaly():
        (first,) = flambeau.autograd.grad((x**3).sum(), x, create_graph=True)
        first.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]
