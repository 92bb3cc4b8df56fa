"""A row of the tables: a function that runs an operator, and where its gradient is checked.

The inputs are few, and their shapes fewer, since every operator is compiled for each shape. Their
elements lie evenly between two numbers, in an order that looks random: no two are near each other,
and none is near a place where a derivative jumps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import flambeau
from flambeau import Tensor


class Row(NamedTuple):
    """A function of tensors whose gradient is compared with finite differences.

    Attributes:
        operator: The operator that it runs, as ``"module.function"`` of the catalogue, or the
            name of its kernel where it is made otherwise.
        case: Which use of the operator it is, where there are several rows.
        compute: Gives a tensor or a tuple of tensors.
        inputs: What it takes; those of floating point and complex dtypes are differentiated.
        twice: Whether the gradient's gradient is compared too.
    """

    operator: str
    case: str
    compute: Callable[..., Any]
    inputs: tuple[Tensor, ...]
    twice: bool = False

    @property
    def name(self) -> str:
        """What the test is called."""
        return f"{self.operator}, {self.case}" if self.case else self.operator


def rows(module: str, *entries: Any, twice: str = "") -> list[Row]:
    """The rows of one module's operators.

    Args:
        module: The module of the catalogue.
        entries: ``(name, compute, *inputs)``, the name being ``"function"`` or
            ``"function, case"``.
        twice: The functions whose first row is also checked for the second derivative.
    """
    wanted = twice.split()
    made = []
    for name, compute, *inputs in entries:
        function, _, case = name.partition(", ")
        again = function in wanted
        if again:
            wanted.remove(function)
        made.append(Row(f"{module}.{function}", case, compute, tuple(inputs), again))
    assert not wanted, f"no rows for {wanted} of {module}"
    return made


def spread(*shape: int, low: float = -1.7, high: float = 1.9, seed: int = 0) -> Tensor:
    """Numbers at equal distances from ``low`` to ``high``, in some order, in double precision."""
    count = int(np.prod(shape))
    order = np.random.default_rng(seed).permutation(count)
    return flambeau.tensor(np.linspace(low, high, count)[order].reshape(shape))


A, B = spread(2, 3), spread(2, 3, low=-1.32, high=2.11, seed=1)
C = spread(2, 3, low=-2.07, high=1.41, seed=2)
POSITIVE = spread(2, 3, low=0.3, high=2.2, seed=3)
UNIT = spread(2, 3, low=-0.85, high=0.9, seed=4)
PROBABILITY = spread(2, 3, low=0.1, high=0.85, seed=5)
Z, U = flambeau.complex(A, C), flambeau.complex(B, UNIT)
V, W = spread(3, seed=6), spread(3, low=-1.1, high=1.3, seed=7)
SCALAR = spread(1, low=0.6).reshape(())
EYE = flambeau.eye(3, dtype=flambeau.float64)
SQUARE = 0.4 * spread(3, 3, seed=8) + 2 * EYE
OTHER_SQUARE = spread(3, 3, seed=9)
BATCH, OTHER_BATCH = spread(2, 3, 3, seed=10), spread(2, 3, 3, seed=11)
SIGNAL, SIGNAL_KERNEL = spread(1, 2, 5, seed=12), spread(2, 2, 3, seed=13)
IMAGE, IMAGE_KERNEL = spread(1, 2, 4, 4, seed=14), spread(2, 2, 3, 3, seed=15)
VOLUME, VOLUME_KERNEL = spread(1, 1, 3, 3, 3, seed=16), spread(1, 1, 2, 2, 2, seed=17)
INDEX = flambeau.tensor([[0, 2, 1], [1, 1, 0]])
LABELS = flambeau.tensor([2, 0])
SIGNS = flambeau.tensor([1.0, -1.0], dtype=flambeau.float64)
MASK = flambeau.tensor([[True, False, True], [False, True, True]])
