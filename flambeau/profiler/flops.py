"""Formulas for the floating-point operations of operators; a multiply-add counts as two.

Like PyTorch, only matrix products, convolutions and attention are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Shape = tuple[int, ...]

#: The formulas by operator name: functions of the inputs' shapes (None for no tensor), the result's
#: shape, and the kernel's static arguments.
formulas: dict[str, Callable[..., float]] = {}
# The inputs that are factors: each one's gradient costs as much as the forward.
_FACTORS: dict[str, tuple[int, ...]] = {}


def formula(*names: str, factors: tuple[int, ...] = (0, 1)) -> Callable[[Any], Any]:
    """A decorator that registers an operator's formula."""

    def register(function: Callable[..., float]) -> Callable[..., float]:
        for name in names:
            formulas[name] = function
            _FACTORS[name] = factors
        return function

    return register


def flops_of(kernel: Any, inputs: Any, result: Any) -> int:
    """The operations of a kernel's forward; 0 if there is no formula."""
    counted = formulas.get(kernel.name)
    if counted is None:
        return 0
    shapes = [_shape(each) for each in inputs]
    first = result[0] if isinstance(result, tuple | list) else result
    return int(counted(shapes, _shape(first), _static(kernel)))


def backward_flops_of(node: Any, forward: int) -> int:
    """The operations of a backward node whose forward took ``forward``."""
    name = node.kernel.name
    if name == "scaled_dot_product_attention":
        # The scores are recomputed; then each of the two products has two gradients.
        return forward * 5 // 2
    factors = _FACTORS.get(name, ())
    wanted = [i for i in factors if i < len(node.edges) and node.edges[i] is not None]
    return forward * len(wanted)


def _shape(value: Any) -> Shape | None:
    shape = getattr(value, "shape", None)
    return None if shape is None else tuple(shape)


def _static(kernel: Any) -> tuple[Any, ...]:
    """The static arguments that are bound to an operator's kernel."""
    bound = getattr(kernel.function, "args", ())
    return bound[0] if bound and isinstance(bound[0], tuple) else ()


@formula("mm", "matmul", "bmm", "mv", "dot", "inner")
def _matmul(shapes: Any, result: Shape, static: Any) -> float:
    return 2 * math.prod(result) * (shapes[0][-1] if shapes[0] else 1)


@formula("addmm", "baddbmm", "addmv", factors=(1, 2))
def _added(shapes: Any, result: Shape, static: Any) -> float:
    return _matmul(shapes[1:], result, static)


@formula("addbmm", factors=(1, 2))
def _summed(shapes: Any, result: Shape, static: Any) -> float:
    return 2 * math.prod(shapes[1]) * shapes[2][-1]


@formula("linear")
def _linear(shapes: Any, result: Shape, static: Any) -> float:
    return 2 * math.prod(shapes[0]) * math.prod(shapes[1][:-1])


@formula("conv1d", "conv2d", "conv3d")
def _convolution(shapes: Any, result: Shape, static: Any) -> float:
    return 2 * math.prod(result) * math.prod(shapes[1][1:])


@formula("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _transposed(shapes: Any, result: Shape, static: Any) -> float:
    return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])


@formula("einsum", factors=(0, 1, 2, 3, 4, 5))
def _einsum(shapes: Any, result: Shape, static: Any) -> float:
    """The operations of pairwise contractions from left to right."""
    equation = next((each for each in static if isinstance(each, str)), "")
    operands = equation.replace(" ", "").partition("->")[0].split(",")
    if len(operands) != len(shapes) or "." in equation or len(operands) < 2:
        return 0
    sizes: dict[str, int] = {}
    for letters, shape in zip(operands, shapes, strict=True):
        sizes.update(zip(letters, shape, strict=True))
    wanted = equation.replace(" ", "").partition("->")[2]
    total, left = 0, set(operands[0])
    for i, letters in enumerate(operands[1:], 1):
        together = left | set(letters)
        total += 2 * math.prod(sizes[each] for each in together)
        left = together & set(wanted.join(operands[i + 1 :]) + wanted)
    return total


@formula("scaled_dot_product_attention", factors=(0, 1, 2))
def _attention(shapes: Any, result: Shape, static: Any) -> float:
    query, key, value = shapes[:3]
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


@formula("multi_head_attention", factors=(0, 3))
def _multi_head(shapes: Any, result: Shape, static: Any) -> float:
    """The operations of projections and attention; the matrices are among the inputs."""
    # The key may be the query, and the value the key.
    query = shapes[0]
    key = shapes[1] or query
    value = shapes[2] or key
    rows, columns, width = math.prod(query[:-1]), math.prod(key[:-1]), query[-1]
    projections = 2 * width * (2 * rows * width + columns * (key[-1] + value[-1]))
    return projections + 4 * rows * key[0] * width


@formula("recurrent", factors=(0, 1))
def _recurrent(shapes: Any, result: Shape | None, static: Any) -> float:
    steps = math.prod(shapes[0][:2])
    return sum(2 * steps * math.prod(each) for each in shapes[1:] if each and len(each) == 2)
