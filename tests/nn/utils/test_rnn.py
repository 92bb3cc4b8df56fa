"""Packed and padded sequences: there and back, and what does not depend on how they are made."""

import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau
from flambeau import nn, optim
from flambeau.nn.utils import rnn

LENGTHS = st.lists(st.integers(1, 4), min_size=1, max_size=3)


def sequences(lengths, **options):
    return [
        flambeau.arange(float(length)).mul(i + 1).reshape(length, 1).to(**options)
        for i, length in enumerate(lengths, 1)
    ]


@settings(max_examples=15)
@given(LENGTHS)
def test_unpacking_gives_what_was_packed(lengths):
    given = sequences(lengths, dtype=flambeau.float64)
    found = rnn.unpack_sequence(rnn.pack_sequence(given, enforce_sorted=False))
    assert [each.tolist() for each in found] == [each.tolist() for each in given]


@settings(max_examples=15)
@given(LENGTHS, st.booleans())
def test_padding_and_unpadding_give_what_was_padded(lengths, batch_first):
    given = sequences(lengths, dtype=flambeau.float64)
    padded = rnn.pad_sequence(given, batch_first, padding_value=7.0)
    found = rnn.unpad_sequence(padded, lengths, batch_first)
    assert [each.tolist() for each in found] == [each.tolist() for each in given]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_recorded_and_plain_sequences_are_padded_alike(side, batch_first):
    given = sequences([2, 3, 1])
    plain = rnn.pad_sequence(given, batch_first, -1.0, side)
    recorded = rnn.pad_sequence([each.requires_grad_() for each in given], batch_first, -1.0, side)
    assert recorded.requires_grad
    assert recorded.tolist() == plain.tolist()


def test_unpadding_leaves_the_padded_batch_alone():
    padded = flambeau.arange(6).reshape(3, 2)
    first, _ = rnn.unpad_sequence(padded, [2, 3])
    first.zero_()
    assert padded.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_lengths_beyond_the_padding_are_refused():
    with pytest.raises(RuntimeError, match=r"from 1 to 2, the padded length, got \[3, 1\]"):
        rnn.pack_padded_sequence(flambeau.zeros(2, 2), [3, 1])


def test_batch_sizes_must_be_on_the_cpu():
    with pytest.raises(ValueError, match="meta"):
        rnn.PackedSequence(flambeau.zeros(3), flambeau.zeros(2, device="meta"))


def test_a_converted_sequence_keeps_its_order():
    packed = rnn.pack_sequence(sequences([1, 3]), enforce_sorted=False)
    converted = packed.to(flambeau.float64)
    assert converted.data.dtype is flambeau.float64
    assert converted.batch_sizes is packed.batch_sizes
    padded, lengths = rnn.pad_packed_sequence(converted)
    assert lengths.tolist() == [1, 3]
    assert padded.dtype is flambeau.float64


def test_packing_inside_a_compiled_function():
    @flambeau.compile
    def there_and_back(x):
        packed = rnn.pack_padded_sequence(x, [1, 3], enforce_sorted=False)
        return rnn.pad_packed_sequence(packed, padding_value=9)

    padded, lengths = there_and_back(flambeau.arange(6).reshape(3, 2))
    assert padded.tolist() == [[0, 1], [9, 3], [9, 5]]
    assert lengths.tolist() == [1, 3]


class Tagger(nn.Module):
    """Packs, reads, pads and scores, as a model of texts does."""

    def __init__(self, total_length=None, **options):
        super().__init__()
        flambeau.manual_seed(3)
        self.layer = nn.LSTM(2, 3, 2, bidirectional=True, batch_first=True, **options)
        self.score = nn.Linear(6, 1)
        self.total_length = total_length

    def forward(self, x, lengths):
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, (hidden, _) = self.layer(packed)
        padded, lengths = rnn.pad_packed_sequence(
            output, batch_first=True, total_length=self.total_length
        )
        inside = flambeau.arange(padded.size(1)) < lengths[:, None]
        return (self.score(padded)[:, :, 0] * inside).square().sum() + hidden.sum(), lengths


def training(model, compiled=False):
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x, lengths):
        optimizer.zero_grad()
        loss, lengths = model(x, lengths)
        loss.backward()
        optimizer.step()
        return loss, lengths

    return flambeau.compile(step) if compiled else step


EACH_OTHER = [[5, 3, 1], [1, 2, 5], [5, 5, 5], [4, 5, 2]]


@pytest.mark.parametrize("as_tensor", [False, True], ids=["list", "tensor"])
@pytest.mark.parametrize("total_length", [None, 6])
def test_other_lengths_compile_nothing(total_length, as_tensor, compilations):
    step = training(Tagger(total_length, dropout=0.5))
    x = flambeau.randn(3, 5, 2)
    step(x, EACH_OTHER[0])
    step(x, EACH_OTHER[0])
    compilations.reset()
    for lengths in EACH_OTHER:
        _, found = step(x, flambeau.tensor(lengths) if as_tensor else lengths)
        assert found.tolist() == lengths
    assert (compilations.count, compilations.traced) == (0, 0)
    # What would have been counted.
    jax.jit(lambda x: x * 2)(1.0)
    assert compilations.count == compilations.traced == 1


@pytest.mark.parametrize("cls", [nn.RNN, nn.GRU])
def test_collecting_sequences_of_other_lengths_compiles_nothing(cls, compilations):
    layer = cls(1, 3)
    counts = []
    of_lengths = [sequences(lengths) for lengths in ([2, 4], [4, 1], [3, 4])]
    for steps in [[each.clone() for each in sequence] for sequence in of_lengths]:
        compilations.reset()
        packed = rnn.pack_sequence(steps, enforce_sorted=False)
        layer.zero_grad()
        layer(packed)[1].sum().backward()
        counts.append(compilations.count)
    assert counts[0] > 0
    assert counts[1:] == [0, 0]


@pytest.mark.parametrize("total_length", [None, 5, 7])
def test_a_compiled_step_is_one_program_for_all_lengths(total_length):
    model, other = Tagger(total_length), Tagger(total_length)
    step, compiled = training(model), training(other, compiled=True)
    x = flambeau.randn(3, 5, 2)
    for lengths in [*EACH_OTHER, [2, 1, 3]]:
        expected, _ = step(x, flambeau.tensor(lengths))
        loss, found = compiled(x, flambeau.tensor(lengths))
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
        assert found.tolist() == lengths
    assert compiled.program_count == 1
    for found, expected in zip(other.parameters(), model.parameters(), strict=True):
        assert flambeau.allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_gradients_outside_a_program_that_takes_lengths():
    model = Tagger()
    compiled = flambeau.compile(model)
    x = flambeau.randn(3, 5, 2, requires_grad=True)
    for lengths in ([5, 3, 1], [1, 2, 5]):
        gradients = []
        for run in (model, compiled):
            x.grad = None
            run(x, flambeau.tensor(lengths))[0].backward()
            gradients.append(x.grad)
        assert flambeau.allclose(*gradients, rtol=1e-4, atol=1e-6)
    assert compiled.program_count == 1


def test_unknown_lengths_pad_to_the_length_before():
    @flambeau.compile
    def there_and_back(x, lengths, total_length=None):
        packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return rnn.pad_packed_sequence(packed, padding_value=9, total_length=total_length)

    x, lengths = flambeau.arange(8).reshape(4, 2), flambeau.tensor([1, 3])
    assert there_and_back(x, lengths)[0].tolist() == [[0, 1], [9, 3], [9, 5], [9, 9]]
    assert there_and_back(x, lengths, 3)[0].tolist() == [[0, 1], [9, 3], [9, 5]]
    assert there_and_back(x, lengths, 5)[0].tolist() == [[0, 1], [9, 3], [9, 5], [9, 9], [9, 9]]


def test_the_order_of_unknown_lengths():
    @flambeau.compile
    def order(x, lengths):
        packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices

    for lengths in ([1, 3, 2], [2, 1, 2]):
        x = flambeau.zeros(4, 3)
        sizes, *indices = order(x, flambeau.tensor(lengths))
        _, expected, *expected_indices = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        assert sizes.tolist() == expected.tolist() + [0] * (4 - len(expected))
        for found, expected in zip(indices, expected_indices, strict=True):
            assert found.tolist() == expected.tolist()


def test_unknown_lengths_must_be_as_many_as_the_sequences():
    pack = flambeau.compile(rnn.pack_padded_sequence)
    with pytest.raises(RuntimeError, match="2 lengths for a batch of 3"):
        pack(flambeau.zeros(4, 3), flambeau.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="one-dimensional"):
        pack(flambeau.zeros(4, 3), flambeau.tensor([[1, 2, 3]]))


@pytest.mark.parametrize("look", [lambda p: p.data, lambda p: p[0], tuple, repr])
def test_packed_steps_of_unknown_lengths_are_refused(look):
    pack = flambeau.compile(
        lambda x, lengths: look(rnn.pack_padded_sequence(x, lengths)), fullgraph=True
    )
    with pytest.raises(flambeau.CompileError, match="list of integers"):
        pack(flambeau.zeros(3, 2), flambeau.tensor([3, 2]))


def test_known_lengths_can_be_packed_in_a_program():
    pack = flambeau.compile(lambda x: rnn.pack_padded_sequence(x, [3, 2]).data)
    assert pack(flambeau.arange(6).reshape(3, 2)).tolist() == [0, 1, 2, 3, 4]


def test_sequences_shorter_than_their_padding_are_computed_no_further():
    layer, x = nn.GRU(2, 3), flambeau.randn(40, 2, 2)
    output, hidden = layer(rnn.pack_padded_sequence(x, [18, 5]))
    expected, expected_hidden = layer(rnn.pack_padded_sequence(x[:18], [18, 5]))
    assert output._padded.batch.size(0) == 20
    assert flambeau.allclose(output.data, expected.data, atol=1e-6)
    assert flambeau.allclose(hidden, expected_hidden, atol=1e-6)
