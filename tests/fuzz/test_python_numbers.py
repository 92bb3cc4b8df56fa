"""More random functions of Python's numbers than `make test` compiles."""

from __future__ import annotations

import random

import pytest

from tests.compile.test_counting import check_random
from tests.compile.test_numbers import check_arithmetic
from tests.fuzz.slices import SLICE_OF_A_SEARCH

pytestmark = [
    SLICE_OF_A_SEARCH,
    pytest.mark.filterwarnings("ignore::flambeau.compile.errors.CompileWarning"),
]


@pytest.mark.parametrize("seed", range(8, 24))
def test_random_functions_that_count(seed: int) -> None:
    check_random(random.Random(seed))


@pytest.mark.parametrize("seed", range(10, 30))
def test_random_arithmetic_gives_what_python_gives(seed: int) -> None:
    check_arithmetic(random.Random(seed))
