import math

import pytest

import flambeau
from flambeau import segment_reduce

DATA = [[1.0, 2.0], [0.0, 5.0], [3.0, 5.0], [3.0, 0.0]]
LENGTHS = flambeau.tensor([1, 0, 3])


@pytest.mark.parametrize(
    ("reduce", "expected", "empty"),
    [
        ("sum", [6.0, 10.0], 0.0),
        ("mean", [2.0, 10 / 3], math.nan),
        ("prod", [0.0, 0.0], 1.0),
        ("max", [3.0, 5.0], -math.inf),
        ("amin", [0.0, 0.0], math.inf),
    ],
)
def test_each_segment_is_combined(reduce, expected, empty):
    found = segment_reduce(flambeau.tensor(DATA), reduce, lengths=LENGTHS)
    assert found[0].tolist() == [1.0, 2.0]
    assert found[2].tolist() == pytest.approx(expected)
    assert found[1].tolist() == pytest.approx([empty, empty], nan_ok=True)


def test_a_segment_begins_with_the_initial_number():
    data = flambeau.tensor(DATA, requires_grad=True)
    found = segment_reduce(data, "max", lengths=LENGTHS, initial=3.0)
    assert found.tolist() == [[3.0, 3.0], [3.0, 3.0], [3.0, 5.0]]
    found.sum().backward()
    assert data.grad.tolist() == [[0.0, 0.0], [0.0, 0.5], [0.5, 0.5], [0.5, 0.0]]
    mean = segment_reduce(flambeau.tensor(DATA), "mean", lengths=LENGTHS, initial=3.0)
    assert mean[:, 0].tolist() == [4.0, 3.0, 3.0]


def test_offsets_leave_out_what_lies_outside():
    found = segment_reduce(flambeau.tensor(DATA), "sum", offsets=flambeau.tensor([1, 1, 3]))
    assert found.tolist() == [[0.0, 0.0], [3.0, 10.0]]


def test_rows_have_segments_of_their_own():
    lengths = flambeau.tensor([[1, 1], [2, 0]])
    found = segment_reduce(flambeau.tensor(DATA[:2]), "sum", lengths=lengths, axis=1)
    assert found.tolist() == [[1.0, 2.0], [5.0, 0.0]]


def test_a_program_takes_lengths_as_data():
    run = flambeau.compile(lambda data, lengths: segment_reduce(data, "sum", lengths=lengths))
    data = flambeau.tensor(DATA)
    assert run(data, LENGTHS)[:, 0].tolist() == [1.0, 0.0, 6.0]
    assert run(data, LENGTHS.flip(0))[:, 0].tolist() == [4.0, 0.0, 3.0]
    assert run.program_count == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Either lengths or offsets must be defined"),
        ({"indices": LENGTHS}, "indices based reduction is not supported"),
        ({"lengths": flambeau.tensor([1, 1])}, "Expected all rows of lengths"),
        ({"lengths": flambeau.tensor([-1, 5])}, "contains negative value"),
        ({"lengths": LENGTHS, "axis": 1}, "Expected axis to be the last dimension of lengths"),
        ({"lengths": LENGTHS, "reduce": "median"}, "reduce argument must be either"),
        ({"lengths": LENGTHS.float()}, "int32 or int64"),
    ],
)
def test_it_refuses(arguments, message):
    with pytest.raises(RuntimeError, match=message):
        segment_reduce(flambeau.tensor(DATA), arguments.pop("reduce", "sum"), **arguments)


def test_data_are_floating_point_numbers():
    with pytest.raises(NotImplementedError, match="convert the data"):
        segment_reduce(flambeau.tensor([1, 2]), "sum", lengths=flambeau.tensor([2]))
