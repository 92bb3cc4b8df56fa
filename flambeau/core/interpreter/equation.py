"""The arguments of rules: a primitive, its parameters, and the types of its arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from flambeau.core.types import Kwargs, Shape


class Unknown(Exception):
    """Some part of a function has no rule, so XLA computes it."""


class Array(NamedTuple):
    """The shape and dtype of an array; another type's where NumPy has no such."""

    shape: Shape
    dtype: Any

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


class Equation(NamedTuple):
    """One equation of a jaxpr.

    Attributes:
        name: The primitive's.
        params: Its parameters.
        inputs: The types of what it is given.
        outputs: The types of its results.
    """

    name: str
    params: Kwargs
    inputs: list[Array]
    outputs: list[Array]

    @property
    def shape(self) -> Shape:
        """The shape of the first result."""
        return self.outputs[0].shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the first result."""
        return self.outputs[0].dtype

    @property
    def kind(self) -> str:
        """NumPy's letter for the kind of the first input: ``b``, ``i``, ``u`` or ``f``."""
        return self.inputs[0].dtype.kind


#: A function of NumPy arrays that computes an equation: its result, or a sequence of results.
Computation: TypeAlias = Callable[..., Any]
#: Gives the function that computes an equation, or raises `Unknown`.
Rule: TypeAlias = Callable[[Equation], Computation]
