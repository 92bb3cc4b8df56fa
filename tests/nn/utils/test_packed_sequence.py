"""A `PackedSequence` is a named tuple, whether its steps have been packed yet or not."""

import copy
import operator
import pickle

import jax
import pytest

import flambeau
from flambeau import func, nn
from flambeau.nn.utils import rnn
from tests.nn.utils.looks import matched, spread

LENGTHS = [3, 4, 1]


def batch():
    return flambeau.arange(24.0).reshape(4, 3, 2)


def waiting(input=None):
    """Sequences whose steps nobody has asked for yet."""
    input = batch() if input is None else input
    return rnn.pack_padded_sequence(input, LENGTHS, enforce_sorted=False)


def values(found):
    """What an expression gave, with lists for tensors."""
    if isinstance(found, flambeau.Tensor):
        return found.tolist()
    if isinstance(found, list | tuple):
        return type(found), [values(each) for each in found]
    return found


LOOKS = {
    "unpacked": lambda p: spread(*p),
    "by index": lambda p: (p[0], p[-1], p[1:3], p[::-1], operator.itemgetter(0, 3)(p)),
    "iterated": lambda p: [*p, *reversed(p)],
    "matched": matched,
    "length": len,
    "joined": lambda p: (p + (1,), (1,) + p, p * 2, 2 * p),  # noqa: RUF005
    "shown": repr,
    "replaced": lambda p: p._replace(data=flambeau.ones(8, 2)),
    "made": lambda p: type(p)._make([*p[:2], None, None]),
    "as a dictionary": lambda p: list(p._asdict().items()),
    "pickled": lambda p: pickle.loads(pickle.dumps(p)),
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
    "converted": lambda p: p.double().to(flambeau.int64),
}


@pytest.mark.parametrize("name", LOOKS)
def test_it_looks_the_same_before_and_after_its_steps_are_packed(name):
    plain = rnn.PackedSequence(*waiting())
    assert values(LOOKS[name](waiting())) == values(LOOKS[name](plain))


def test_it_equals_the_tuple_of_its_elements():
    packed = waiting()
    elements = tuple(packed)
    assert packed == elements
    assert elements == packed
    assert (packed != elements) is False
    assert packed != 3
    assert hash(packed) == hash(tuple(packed))
    assert not packed < packed
    # No element before these is compared, since they are the same objects.
    assert packed.data in packed
    assert packed.index(packed.data) == 0


def test_its_parts_stay_the_same_objects():
    packed = waiting()
    output, _ = nn.GRU(2, 3)(packed)
    for name in ("batch_sizes", "sorted_indices", "unsorted_indices"):
        assert getattr(packed, name) is getattr(output, name)
        assert getattr(packed, name) is getattr(packed.double(), name)
    assert packed.data is packed.data is packed[0]


@pytest.mark.parametrize("mode", [flambeau.no_grad, flambeau.inference_mode])
def test_its_steps_have_their_history_wherever_they_are_first_looked_at(mode):
    input = batch().requires_grad_()
    packed = waiting(input)
    with mode():
        assert packed.data.shape == (8, 2)
    assert not packed.data.is_inference()
    packed.data.sum().backward()
    assert input.grad.sum() == 16


def test_later_writes_to_the_padded_batch_do_not_reach_it():
    input = batch()
    packed, expected = waiting(input), waiting().data
    input.zero_()
    assert packed.data.tolist() == expected.tolist()


def test_later_writes_to_the_lengths_do_not_reach_it():
    lengths = flambeau.tensor([4, 2, 1])
    packed = rnn.pack_padded_sequence(batch(), lengths)
    lengths.fill_(1)
    assert packed.batch_sizes.tolist() == [3, 2, 1, 1]
    _, found = rnn.pad_packed_sequence(packed)
    found.fill_(1)
    assert rnn.pad_packed_sequence(packed)[1].tolist() == [4, 2, 1]


def test_writes_to_its_steps_count():
    packed, layer = waiting(), nn.GRU(2, 3)
    packed.data.mul_(2)
    expected, _ = layer(waiting(batch() * 2))
    assert flambeau.allclose(layer(packed)[0].data, expected.data)


def test_its_steps_can_take_a_gradient():
    packed = waiting()
    packed.data.requires_grad_()
    output, _ = nn.GRU(2, 3)(packed)
    rnn.pad_packed_sequence(output)[0].sum().backward()
    assert packed.data.grad.shape == (8, 2)
    assert packed.data.grad.abs().min() > 0


def test_gradients_come_through_both_forms():
    def gradient(look):
        flambeau.manual_seed(2)
        input = batch().requires_grad_()
        packed, layer = waiting(input), nn.GRU(2, 3, bidirectional=True)
        output, hidden = layer(packed)
        padded, _ = rnn.pad_packed_sequence(output)
        loss = (padded**2).sum() + hidden.sum()
        if look:
            loss = loss + (output.data**3).sum() + (packed.data**2).sum()
        else:
            inside = flambeau.arange(4)[:, None, None] < flambeau.tensor(LENGTHS)[:, None]
            loss = loss + (padded**3).sum() + (input**2 * inside).sum()
        loss.backward()
        return input.grad

    assert flambeau.allclose(gradient(True), gradient(False), rtol=1e-5)


def test_looking_inside_a_function_that_jax_transforms_keeps_nothing():
    packed = waiting()
    assert jax.jit(lambda x: packed.data._read().sum() + x)(1.0) == packed.data.sum() + 1
    input = batch().requires_grad_()
    packed = waiting(input)
    func.vmap(lambda x: packed.data.sum() + x)(flambeau.ones(2))
    packed.data.sum().backward()
    assert input.grad.sum() == 16


def test_a_tree_of_tensors_is_put_together_again():
    packed = waiting()
    doubled = jax.tree.map(lambda each: each * 2 if each.dtype.kind == "f" else each, packed)
    assert type(doubled) is rnn.PackedSequence
    assert doubled.data.tolist() == (waiting().data * 2).tolist()
    plain = rnn.PackedSequence(*packed)
    assert values(jax.tree.map(lambda each: each, plain)) == values(plain)


def test_a_compiled_function_takes_sequences_of_other_lengths_in_one_program():
    layer = nn.GRU(2, 3)
    read = flambeau.compile(lambda packed: {"found": layer(packed)})
    for lengths in (LENGTHS, [1, 2, 2], [4, 4, 4]):
        packed = rnn.pack_padded_sequence(batch(), lengths, enforce_sorted=False)
        output, hidden = read(packed)["found"]
        expected, expected_hidden = layer(packed)
        assert flambeau.allclose(output.data, expected.data, atol=1e-6)
        assert output.batch_sizes.tolist() == expected.batch_sizes.tolist()
        assert output.sorted_indices.tolist() == expected.sorted_indices.tolist()
        assert flambeau.allclose(hidden, expected_hidden, atol=1e-6)
        padded, found = rnn.pad_packed_sequence(output)
        assert padded.shape == (max(lengths), 3, 3)
        assert found.tolist() == lengths
    assert read.program_count == 1


def test_a_compiled_function_takes_steps_that_are_packed_already():
    read = flambeau.compile(lambda packed: packed.data * 2, fullgraph=True)
    packed = waiting()
    with pytest.raises(flambeau.CompileError, match="before the call"):
        read(packed)
    assert read.program_count == 0
    expected = packed.data * 2
    assert read(packed).tolist() == expected.tolist()


def test_a_compiled_function_sees_what_is_written_to_steps_that_it_closes_over():
    packed, layer = waiting(), nn.GRU(2, 3)
    read = flambeau.compile(lambda: layer(packed)[1])
    first = read()
    packed.data.mul_(2)
    assert flambeau.allclose(read(), layer(packed)[1], atol=1e-6)
    assert not flambeau.allclose(read(), first)


def test_gradients_leave_a_compiled_function_through_steps_that_it_closes_over():
    input = batch().requires_grad_()
    packed, layer = waiting(input), nn.GRU(2, 3)
    read = flambeau.compile(lambda scale: layer(packed)[1].sum() * scale)
    read(flambeau.ones(())).backward()
    expected = batch().requires_grad_()
    layer(waiting(expected))[1].sum().backward()
    assert flambeau.allclose(input.grad, expected.grad, atol=1e-6)


def test_a_functional_call_inside_a_program_takes_lengths_that_are_not_known():
    layer = nn.GRU(2, 3)
    weights = dict(layer.named_parameters())

    @flambeau.compile
    def read(lengths):
        packed = rnn.pack_padded_sequence(batch(), lengths, enforce_sorted=False)
        output, hidden = func.functional_call(layer, weights, (packed,))
        return rnn.pad_packed_sequence(output)[0], hidden

    padded, hidden = read(flambeau.tensor(LENGTHS))
    output, expected = layer(waiting())
    assert flambeau.allclose(padded, rnn.pad_packed_sequence(output)[0], atol=1e-6)
    assert flambeau.allclose(hidden, expected, atol=1e-6)


def test_jax_transforms_functions_of_lengths():
    layer = nn.GRU(2, 3)
    weights = dict(layer.named_parameters())

    def loss(weights, lengths):
        packed = rnn.pack_padded_sequence(batch(), lengths, enforce_sorted=False)
        return func.functional_call(layer, weights, (packed,))[1].sum()

    several = flambeau.tensor([LENGTHS, [1, 1, 2]])
    expected = [loss(weights, each).item() for each in several]
    mapped = func.vmap(lambda lengths: loss(weights, lengths))(several)
    assert mapped.tolist() == pytest.approx(expected, rel=1e-5)
    arrays = {name: each.jax() for name, each in weights.items()}
    jitted = jax.jit(lambda lengths: loss(arrays, flambeau.from_jax(lengths)))
    assert [jitted(each.jax()) for each in several] == pytest.approx(expected, rel=1e-5)


def test_sequences_on_the_meta_device_have_shapes():
    packed = waiting(batch().to("meta"))
    output, hidden = nn.GRU(2, 3, device="meta")(packed)
    assert output.data.shape == (8, 3)
    assert hidden.shape == (1, 3, 3)
    assert rnn.pad_packed_sequence(output)[0].shape == (4, 3, 3)
    assert waiting().to("meta").data.shape == (8, 2)
