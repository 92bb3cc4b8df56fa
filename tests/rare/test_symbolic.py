"""Numbers that stand for sizes are Python's."""

import math

import pytest

import flambeau
from flambeau import types


def test_functions_of_sizes_are_pythons():
    assert (flambeau.sym_int(-2.7), flambeau.sym_float(2)) == (-2, 2.0)
    assert repr(flambeau.sym_max(3, 2.0)) == "3.0"
    assert repr(flambeau.sym_min(3, 2)) == "2"
    assert flambeau.sym_not(False)
    assert not flambeau.sym_not(2)
    assert flambeau.sym_ite(False, 1, 2) == 2
    assert flambeau.sym_sqrt(4) == math.sqrt(4)
    assert flambeau.sym_sum((1, 2.5)) == flambeau.sym_sum(1, 2.5) == 3.5
    with pytest.raises(AssertionError, match="type mismatch"):
        flambeau.sym_ite(True, 1, 2.0)


def test_nothing_is_symbolic():
    assert not isinstance(flambeau.ones(2).shape[0], (flambeau.SymInt, *types.py_sym_types))
    assert isinstance(3, types.IntLikeType | types.Number)
    assert flambeau._shape_as_tensor(flambeau.ones(2, 3)).tolist() == [2, 3]
