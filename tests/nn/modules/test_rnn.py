"""Recurrent layers: their weights under all names, packed sequences, compiled programs."""

import pickle

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import parametrizations
from flambeau.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
)
from flambeau.ops.neural.sequences.recurrent import recurrent_layers


def steps(*shape):
    return flambeau.linspace(-1, 1, flambeau.zeros(shape).numel()).reshape(shape)


def close(found, expected):
    return flambeau.allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_weights_are_listed_by_layer_and_direction():
    layer = nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
    assert [len(each) for each in layer.all_weights] == [5, 5, 5, 5]
    assert layer.all_weights[1][0] is layer.weight_ih_l0_reverse
    assert layer.all_weights[2][4] is layer.weight_hr_l1
    assert layer._flat_weights == [each for one in layer.all_weights for each in one]
    assert layer._flat_weights_names[9] == "weight_hr_l0_reverse"


def test_a_weight_that_is_replaced_is_used():
    layer = nn.RNN(3, 4)
    before = layer(steps(2, 1, 3))[0]
    layer.weight_ih_l0 = nn.Parameter(flambeau.zeros(4, 3))
    assert layer._flat_weights[0] is layer.weight_ih_l0
    assert not close(layer(steps(2, 1, 3))[0], before)
    layer._flat_weights = [nn.Parameter(flambeau.ones_like(each)) for each in layer._flat_weights]
    assert layer.weight_hh_l0[0, 0] == 1


def test_flatten_parameters_changes_nothing():
    layer = nn.GRU(3, 4)
    expected = layer(steps(2, 1, 3))[0]
    layer.flatten_parameters()
    assert close(layer(steps(2, 1, 3))[0], expected)


def test_a_weight_can_be_parametrized():
    layer = nn.GRU(3, 4)
    expected = layer(steps(2, 1, 3))[0]
    parametrizations.weight_norm(layer, "weight_hh_l0")
    output = layer(steps(2, 1, 3))[0]
    assert close(output, expected)
    output.sum().backward()
    assert layer.parametrizations.weight_hh_l0.original0.grad is not None


def test_layers_can_be_pickled():
    layer = nn.LSTM(3, 4, proj_size=2)
    copy = pickle.loads(pickle.dumps(layer))
    assert close(copy(steps(2, 1, 3))[0], layer(steps(2, 1, 3))[0])


@pytest.mark.parametrize("cls", [nn.RNN, nn.LSTM, nn.GRU])
def test_a_packed_sequence_gives_what_each_sequence_gives_alone(cls):
    layer = cls(3, 4, bidirectional=True)
    input = steps(4, 3, 3)
    lengths = [2, 4, 1]
    packed = pack_padded_sequence(input, lengths, enforce_sorted=False)
    output, hidden = layer(packed)
    padded, found_lengths = pad_packed_sequence(output)
    assert found_lengths.tolist() == lengths
    for i, length in enumerate(lengths):
        alone, hidden_alone = layer(input[:length, i])
        assert close(padded[:length, i], alone)
        last = hidden[0] if cls is nn.LSTM else hidden
        last_alone = hidden_alone[0] if cls is nn.LSTM else hidden_alone
        assert close(last[:, i], last_alone)


def test_packed_sequences_of_similar_lengths_share_a_program(all_compiled):
    layer = nn.RNN(3, 4, dtype=flambeau.float64)
    input = steps(40, 2, 3).double()
    programs = set()
    with flambeau.no_grad():
        for length in (33, 34, 35, 36):
            layer(pack_padded_sequence(input[:length], [length, 7]))
            kernels = recurrent_layers.op.kernels.values()
            programs.add(sum(each.forward._cache_size() for each in kernels))
    assert len(programs) == 1


class Reader(nn.Module):
    """Packs, reads and pads, as a model of texts does."""

    def __init__(self, lengths, enforce_sorted):
        super().__init__()
        self.layer = nn.LSTM(3, 4, 2, bidirectional=True)
        self.lengths = lengths
        self.enforce_sorted = enforce_sorted

    def forward(self, x):
        packed = pack_padded_sequence(x, self.lengths, enforce_sorted=self.enforce_sorted)
        output, (hidden, _) = self.layer(packed)
        return pad_packed_sequence(output)[0], hidden


@pytest.mark.parametrize(("lengths", "enforce_sorted"), [([1, 3], False), ([3, 2], True)])
def test_compiled_packing_gives_the_eager_result(lengths, enforce_sorted):
    model = Reader(lengths, enforce_sorted)
    x = steps(3, 2, 3)
    compiled = flambeau.compile(model)
    for found, expected in zip(compiled(x), model(x), strict=True):
        assert close(found, expected)


def test_a_compiled_step_trains_as_an_eager_one():
    def make():
        flambeau.manual_seed(5)
        model = nn.GRU(3, 4, 2, bidirectional=True)
        optimizer = flambeau.optim.SGD(model.parameters(), lr=0.5)

        def step(x):
            optimizer.zero_grad()
            loss = (model(x)[0] ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        return model, step

    x = steps(3, 2, 3)
    (model, step), (other, other_step) = make(), make()
    compiled = flambeau.compile(other_step)
    for _ in range(3):
        assert compiled(x).item() == pytest.approx(step(x).item(), rel=1e-5)
    for found, expected in zip(other.parameters(), model.parameters(), strict=True):
        assert close(found, expected)


def test_a_compiled_function_takes_packed_sequences():
    layer = nn.GRU(3, 4)
    read = flambeau.compile(lambda packed: layer(packed))
    packed = pack_sequence([steps(2, 3), steps(3, 3)], enforce_sorted=False)
    (output, hidden), (expected, expected_hidden) = read(packed), layer(packed)
    assert close(output.data, expected.data)
    assert close(hidden, expected_hidden)


def test_a_compiled_function_takes_sorted_sequences_too():
    layer = nn.GRU(3, 4)
    packed = pack_sequence([steps(3, 3), steps(2, 3)])
    plain = PackedSequence(*packed)
    read = flambeau.compile(lambda packed: layer(packed)[1])
    assert close(read(packed), layer(packed)[1])
    assert close(read(plain), layer(packed)[1])


def test_a_compiled_function_cannot_count_sequences_that_it_makes_of_their_steps():
    layer = nn.GRU(3, 4)
    data, sizes, *_ = pack_sequence([steps(3, 3), steps(2, 3)])

    @flambeau.compile(fullgraph=True)
    def read(data, sizes, *state):
        return layer(PackedSequence(data, sizes), *state)[1]

    with pytest.raises(flambeau.CompileError, match="enforce_sorted=False"):
        read(data, sizes)
    assert close(read(data, sizes, flambeau.zeros(1, 2, 4)), layer(PackedSequence(data, sizes))[1])


def test_what_padding_holds_reaches_no_gradient():
    layer = nn.LSTM(3, 4, bidirectional=True)
    input = steps(4, 2, 3).clone()
    input[2:, 1] = float("nan")
    input.requires_grad_()
    output, _ = layer(pack_padded_sequence(input, [4, 2]))
    pad_packed_sequence(output)[0].sum().backward()
    assert all(each.grad.isfinite().all() for each in layer.parameters())
    assert input.grad[2:, 1].tolist() == [[0.0] * 3] * 2


def test_dropout_between_layers_is_for_training():
    layer = nn.GRU(3, 4, 2, dropout=0.9)
    x = steps(3, 2, 3)
    assert not close(layer(x)[0], layer(x)[0])
    layer.eval()
    assert close(layer(x)[0], layer(x)[0])


@pytest.mark.parametrize("cls", [nn.RNN, nn.LSTM, nn.GRU])
def test_a_first_state_of_no_tensors_is_refused(cls):
    layer, x = cls(2, 3), flambeau.zeros(4, 1, 2)
    count = 2 if cls is nn.LSTM else 1
    for input in (x, x[:, 0], pack_padded_sequence(x, [4])):
        for empty in ((), []):
            with pytest.raises(RuntimeError, match=rf"state of {count} tensor\(s\), got 0"):
                layer(input, empty)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_lstm_cell_takes_two_states(count):
    with pytest.raises(RuntimeError, match=f"two states, h and c, got {count}"):
        nn.LSTMCell(3, 4)(steps(2, 3), (steps(2, 4),) * count)


def test_a_cell_repeated_is_the_layer():
    layer = nn.LSTM(3, 4)
    cell = nn.LSTMCell(3, 4)
    state = {key.removesuffix("_l0"): value for key, value in layer.state_dict().items()}
    cell.load_state_dict(state)
    x = steps(3, 2, 3)
    expected, (hidden, memory) = layer(x)
    state = None
    for step, output in zip(x, expected, strict=True):
        state = cell(step, state)
        assert close(state[0], output)
    assert close(state[0], hidden[0])
    assert close(state[1], memory[0])
