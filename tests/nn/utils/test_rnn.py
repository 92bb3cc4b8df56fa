"""Packed and padded sequences: there and back, and what does not depend on how they are made."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau
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


def test_lengths_that_a_compiled_function_computes_are_refused():
    pack = flambeau.compile(lambda x, lengths: rnn.pack_padded_sequence(x, lengths).data)
    with pytest.raises(flambeau.CompileError, match="list of integers"):
        pack(flambeau.zeros(3, 2), flambeau.tensor([3, 2]))
