"""Padded batches and packed steps: one is the other, whatever the lengths and their order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau
from flambeau.ops.neural.sequences.packed_sequences import (
    Layout,
    batch_steps,
    pack_steps,
    pad_steps,
    steps_for,
)

STEPS = 4
LENGTHS = st.lists(st.integers(1, STEPS), min_size=3, max_size=3)


def steps(lengths):
    """A padded batch with zeros behind each sequence, packed, and its layout."""
    layout = Layout.of_lengths(np.array(lengths), False, "cpu")
    batch = flambeau.arange(1.0, 1 + STEPS * 3).reshape(STEPS, 3)
    batch = batch_steps(batch, layout.lengths, STEPS, False)
    return batch, pack_steps(batch, layout.sizes(STEPS), layout.order, layout.count()), layout


@settings(max_examples=15)
@given(LENGTHS)
def test_padding_what_was_packed_gives_the_batch(lengths):
    batch, packed, layout = steps(lengths)
    assert sorted(packed.tolist()) == sorted(batch[batch > 0].tolist())
    padded = pad_steps(packed, layout.sizes(STEPS), layout.rank, 3, STEPS)
    assert padded.tolist() == batch.tolist()


@settings(max_examples=15)
@given(LENGTHS)
def test_what_is_drawn_for_packed_steps_is_spread_as_they_are(lengths):
    batch, packed, layout = steps(lengths)
    assert layout.spread(packed.numpy(), STEPS).tolist() == batch.tolist()


@settings(max_examples=15)
@given(LENGTHS)
def test_the_layout_of_packed_steps_is_that_of_the_batch(lengths):
    _, _, layout = steps(lengths)
    found = Layout.of_sizes(layout.sizes(STEPS), layout.order, layout.rank, None, "cpu")
    assert found.known.tolist() == found.lengths.tolist() == lengths
    assert found.count() == sum(lengths)


@pytest.mark.parametrize(
    ("padded", "longest", "expected"),
    [(7, 1, 7), (32, 1, 32), (64, 33, 64), (64, 32, 32), (100, 20, 26), (33, 33, 36)],
)
def test_long_padding_is_cut_by_half(padded, longest, expected):
    assert steps_for(padded, longest) == expected


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_compiled_length_out_of_range_makes_its_sequence_nan_and_no_other(batch_first):
    rnn = flambeau.nn.utils.rnn
    layer = flambeau.nn.GRU(2, 3, batch_first=batch_first)
    batch = flambeau.randn(3, STEPS, 2) if batch_first else flambeau.randn(STEPS, 3, 2)

    def run(batch, lengths):
        packed = rnn.pack_padded_sequence(batch, lengths, batch_first, enforce_sorted=False)
        out, hidden = layer(packed)
        out, _ = rnn.pad_packed_sequence(out, batch_first)
        return hidden[0], out if batch_first else out.transpose(0, 1)

    compiled = flambeau.compile(run)
    expected, outputs = run(batch, flambeau.tensor([2, STEPS, 1]))
    for bad in (0, -1, STEPS + 1):
        lengths = flambeau.tensor([2, STEPS, bad])
        with pytest.raises(RuntimeError, match="lengths"):
            run(batch, lengths)
        hidden, found = compiled(batch, lengths)
        np.testing.assert_allclose(hidden[:2].detach(), expected[:2].detach(), 1e-5)
        np.testing.assert_allclose(found[:2].detach(), outputs[:2].detach(), 1e-5)
        assert hidden[2].isnan().all()
        assert found[2, 0].isnan().all()
