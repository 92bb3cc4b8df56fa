"""Boxes whose array may be made when it is first read."""

import copy
import pickle
import threading

import jax
import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.core.values.cell import Cell
from flambeau.random import sample


@pytest.fixture
def uploads(monkeypatch):
    """The shapes of the arrays of random numbers that have gone to a device."""
    shapes = []
    upload = sample.upload

    def counted(array, where):
        shapes.append(array.shape)
        return upload(array, where)

    monkeypatch.setattr(sample, "upload", counted)
    return shapes


def test_an_array_is_made_when_it_is_first_read():
    made = []
    cell = Cell("old")
    cell.write_later(lambda: made.append("new") or "new")
    assert cell.version == 1
    assert not made
    assert (cell.array, cell.array) == ("new", "new")
    assert made == ["new"]


def test_what_is_written_over_is_never_made():
    cell = Cell("old")
    cell.write_later(lambda: pytest.fail("made"))
    cell.write_later(lambda: pytest.fail("made"))
    cell.write("new")
    assert (cell.array, cell.version) == ("new", 3)


def test_a_failure_leaves_the_array_to_be_made_once_more():
    attempts = iter([MemoryError("full"), "new"])

    def make():
        result = next(attempts)
        if isinstance(result, Exception):
            raise result
        return result

    cell = Cell("old")
    cell.write_later(make)
    with pytest.raises(MemoryError, match="full"):
        _ = cell.array
    assert cell.array == "new"


def test_another_thread_may_make_it_first():
    cell = Cell("old")

    def make():
        if threading.current_thread() is threading.main_thread():
            other = threading.Thread(target=lambda: cell.array)
            other.start()
            other.join()
        return "new"

    cell.write_later(make)
    assert cell.array == "new"
    assert cell.array == "new"


def test_other_names_are_no_attributes():
    cell = Cell("old")
    with pytest.raises(AttributeError, match="elements"):
        _ = cell.elements
    cell.write_later(lambda: "new")
    with pytest.raises(AttributeError, match="elements"):
        _ = cell.elements


def test_a_new_layer_has_put_nothing_on_its_device(uploads):
    layers = nn.Linear(4, 4), nn.Conv2d(2, 3, 3)
    assert uploads == []
    assert layers[0].bias.isfinite().all()
    assert uploads == [(4,)]


def test_what_is_replaced_never_goes_to_the_device(uploads):
    layer = nn.Linear(4, 4)
    layer.weight.data = flambeau.ones(4, 4)
    layer.bias = None
    assert layer(flambeau.ones(1, 4)).tolist() == [[4.0] * 4]
    assert uploads == []


def test_numbers_are_drawn_at_once_and_do_not_change():
    flambeau.manual_seed(0)
    late, after = nn.Linear(4, 4), flambeau.rand(3)
    flambeau.manual_seed(0)
    early = nn.Linear(4, 4)
    assert early.weight.equal(late.weight)
    assert early.bias.equal(late.bias)
    assert flambeau.rand(3).equal(after)


@pytest.mark.parametrize("read", ["eager", "compiled", "jax"])
def test_whoever_reads_first_sees_them(read):
    flambeau.manual_seed(0)
    expected = nn.Linear(4, 4).weight.detach().numpy().copy()
    flambeau.manual_seed(0)
    layer = nn.Linear(4, 4)
    read_weight = {
        "eager": lambda: layer.weight.detach() * 1.0,
        "compiled": flambeau.compile(lambda: layer.weight.detach() * 1.0),
        "jax": jax.jit(lambda: layer.weight._read() * 1.0),
    }[read]
    np.testing.assert_array_equal(np.asarray(read_weight()), expected)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), expected)


def test_views_and_recorded_draws_are_written_at_once(uploads):
    matrix = flambeau.zeros(4, 4)
    matrix[0].uniform_()
    assert uploads == [(4,)]
    factor = flambeau.ones(4, requires_grad=True)
    (factor * 1.0).uniform_()
    assert uploads == [(4,), (4,)]


def test_a_copy_is_a_cell_of_its_own():
    cell = Cell(0)
    cell.write_later(lambda: np.ones(2))
    for copied in (copy.copy(cell), copy.deepcopy(cell), pickle.loads(pickle.dumps(cell))):
        assert copied.array.tolist() == [1, 1]
        copied.write_later(lambda: np.zeros(2))
        assert copied.array.tolist() == [0, 0]
        assert (copied.version, cell.version) == (1, 1)
    assert copy.copy(cell).array is cell.array
    assert copy.deepcopy(cell).array is not cell.array


def test_a_cell_that_is_not_made_yet_has_no_array():
    with pytest.raises(AttributeError, match="_make"):
        _ = Cell.__new__(Cell).array
