"""The operators of recurrent layers: their gradients of any order, and what they keep."""

import numpy as np
import pytest

import flambeau
from flambeau import func
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.ops.neural.sequences.packed_sequences import Layout, fill_behind
from flambeau.ops.neural.sequences.recurrent import run_layers

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "gru": 3}
LENGTHS = [3, 2]


def operands(kind, projected=False):
    """An input of 3 steps of 2 sequences, first states and weights, in double precision."""
    random = np.random.default_rng(4)
    rows, hidden = 2 * GATES[kind], 1 if projected else 2
    shapes = [(3, 2, 2), (1, 2, hidden)]
    shapes += [(1, 2, 2)] if kind == "lstm" else []
    shapes += [(rows, 2), (rows, hidden), (rows,), (rows,)]
    shapes += [(1, 2)] if projected else []
    return [flambeau.tensor(random.normal(size=each), requires_grad=True) for each in shapes]


def course(kind, lengths=None):
    """The layer as a function of its tensors."""

    def compute(input, *others):
        count = 2 if kind == "lstm" else 1
        states, weights = others[:count], others[count:]
        layout = None
        if lengths is not None:
            layout = Layout.of_lengths(np.array(lengths), True, input.device)
        found = run_layers(kind, input, states, weights, True, 1, 0.0, False, False, False, layout)
        if layout is None:
            return found
        # What is behind the end of a sequence is nobody's.
        return fill_behind(found[0], layout.lengths, 3, 0.0, False), *found[1:]

    return compute


@pytest.mark.parametrize("kind", GATES)
def test_gradients_are_finite_differences(kind):
    assert gradcheck(course(kind), tuple(operands(kind)))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_gradients_of_packed_sequences_are_finite_differences(kind):
    assert gradcheck(course(kind, LENGTHS), tuple(operands(kind)))


def test_gradients_of_a_projected_state_are_finite_differences():
    assert gradcheck(course("lstm"), tuple(operands("lstm", projected=True)))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_second_gradients_are_finite_differences(kind):
    tensors = operands(kind, projected=kind == "lstm")
    # The input and the recurrent weight; each further tensor would cost seconds.
    place = 4 if kind == "lstm" else 3
    others = [each.detach() for each in tensors]

    def compute(input, weight):
        others[0], others[place] = input, weight
        return course(kind)(*others)[0]

    assert gradgradcheck(compute, (tensors[0], tensors[place]), atol=1e-4)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_forward_and_reverse_derivatives_agree(kind):
    tensors = operands(kind)
    tangents = [flambeau.ones_like(each) for each in tensors]
    _, (output, *_) = func.jvp(course(kind), tuple(tensors), tuple(tangents))
    found = course(kind)(*tensors)[0]
    cotangent = flambeau.linspace(-1, 1, found.numel(), dtype=flambeau.float64).reshape(found.shape)
    gradients = flambeau.autograd.grad(found, tensors, cotangent)
    assert (output * cotangent).sum().item() == pytest.approx(
        sum(each.sum().item() for each in gradients)
    )


def test_backward_does_not_run_the_sequence_again():
    output, *_ = course("gru")(*operands("gru"))
    assert output.grad_fn.vjp is not None
    output.sum().backward()
    assert output.grad_fn.vjp is None


def test_steps_beyond_the_end_leave_the_state_alone():
    input, *others = operands("lstm")
    _, hidden, cell = course("lstm", LENGTHS)(input, *others)
    short = [others[0][:, 1:], others[1][:, 1:], *others[2:]]
    _, alone, cell_alone = course("lstm")(input[:2, 1:], *short)
    assert flambeau.allclose(hidden[:, 1:], alone)
    assert flambeau.allclose(cell[:, 1:], cell_alone)


def test_a_function_names_its_arguments():
    with pytest.raises(TypeError, match=r"input, hx, params, has_biases"):
        flambeau.lstm(flambeau.zeros(1, 1, 1))


def test_weights_must_fit_the_number_of_layers():
    input, hidden = flambeau.zeros(1, 1, 1), flambeau.zeros(2, 1, 1)
    weights = [flambeau.zeros(3, 1)] * 3
    with pytest.raises(RuntimeError, match="3 weights for 2 layers"):
        flambeau.gru(input, hidden, weights, False, 2, 0.0, False, False, False)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_first_state_of_an_lstm_is_two_tensors(count):
    input, hidden = flambeau.zeros(1, 1, 1), flambeau.zeros(1, 1, 1)
    weights = [flambeau.zeros(4, 1)] * 2
    options = (weights, False, 1, 0.0, False, False)
    with pytest.raises(RuntimeError, match=f"a first state of 2 tensors, got {count}"):
        flambeau.lstm(input, [hidden] * count, *options, False)
    with pytest.raises(RuntimeError, match=f"a first state of 2 tensors, got {count}"):
        flambeau.lstm(input[0], flambeau.tensor([1]), [hidden] * count, *options)
