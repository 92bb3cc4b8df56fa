"""Clipping gradients: all of them, or none if it fails; one operator; in compiled steps."""

import pytest

import flambeau
from flambeau import nn
from flambeau.core.operators import dispatch
from flambeau.nn.utils import clip_grad_norm_, clip_grad_value_, get_total_norm


def parameters(*grads):
    made = []
    for each in grads:
        parameter = nn.Parameter(flambeau.zeros(len(each)))
        parameter.grad = flambeau.tensor(each)
        made.append(parameter)
    return made


def test_gradients_count_as_one_vector():
    first, second = parameters([3.0, 0.0], [4.0])
    assert clip_grad_norm_([first, second], 1.0).item() == pytest.approx(5.0)
    assert first.grad.tolist() == pytest.approx([0.6, 0.0])
    assert second.grad.tolist() == pytest.approx([0.8])


def test_a_refused_norm_leaves_all_gradients_alone():
    first, second = parameters([3.0], [float("inf")])
    with pytest.raises(RuntimeError, match=r"norm of order 2\.0 .* is inf"):
        clip_grad_norm_([first, second], 1.0, error_if_nonfinite=True)
    assert first.grad.tolist() == [3.0]


def test_clipping_is_one_dispatch(monkeypatch):
    given = parameters([3.0], [4.0], [5.0])
    clip_grad_norm_(given, 1.0)
    names = []
    run = dispatch.run

    def noting(kernel, inputs):
        names.append(kernel.name)
        return run(kernel, inputs)

    monkeypatch.setattr("flambeau.core.operators.op.run", noting)
    clip_grad_norm_(given, 1.0)
    clip_grad_value_(given, 0.5)
    assert names == ["clipped_to_norm", "clipped_to_value"]


def test_gradients_stay_the_same_tensors():
    (parameter,) = parameters([3.0])
    grad = parameter.grad
    clip_grad_norm_(parameter, 1.0)
    assert parameter.grad is grad
    assert grad.requires_grad is False


def test_the_norm_of_half_precision_does_not_overflow():
    grads = [flambeau.full((100,), 100.0, dtype=flambeau.float16) for _ in range(2)]
    assert get_total_norm(grads).item() == pytest.approx(1414, rel=1e-2)


def test_an_empty_generator_is_suspicious():
    with pytest.warns(UserWarning, match="empty generator"):
        clip_grad_norm_((each for each in []), 1.0)


def test_a_compiled_step_clips():
    weight = nn.Parameter(flambeau.tensor([3.0, 4.0]))

    @flambeau.compile
    def step(x):
        weight.grad = None
        (weight * x).sum().backward()
        return clip_grad_norm_(weight, 1.0)

    assert step(flambeau.tensor([3.0, 4.0])).item() == pytest.approx(5.0)
    assert weight.grad.tolist() == pytest.approx([0.6, 0.8])
    assert step(flambeau.tensor([0.0, 0.5])).item() == pytest.approx(0.5)
    assert weight.grad.tolist() == pytest.approx([0.0, 0.5])


@pytest.mark.parametrize("order", [2.0, 1.0, 3.0, -1.0, float("inf"), -float("inf"), 0.0])
def test_many_short_tensors_have_the_norm_of_their_norms(order):
    generator = flambeau.Generator().manual_seed(0)
    shapes = [(4,)] * 10 + [(2, 3)]
    tensors = [flambeau.randn(shape, generator=generator) for shape in shapes]
    tensors += [each.to(flambeau.float64) for each in tensors[:9]] + [flambeau.zeros(4)]
    norms = [flambeau.linalg.vector_norm(each, order).double() for each in tensors]
    expected = flambeau.linalg.vector_norm(flambeau.stack(norms), order).item()
    assert get_total_norm(tensors, order).item() == pytest.approx(expected, rel=1e-6)
