"""Rules for primitives that move elements and compute nothing: shapes, parts, padding, copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flambeau.core.interpreter.equation import Computation, Equation, Rule, Unknown


def reshape(equation: Equation) -> Computation:
    if equation.params.get("dimensions") is not None:
        raise Unknown("reshape with dimensions")
    return _to_shape(equation)


def _to_shape(equation: Equation) -> Computation:
    shape = equation.shape
    return lambda x: x.reshape(shape)


def transpose(equation: Equation) -> Computation:
    order = tuple(equation.params["permutation"])
    return lambda x: x.transpose(order)


def broadcast(equation: Equation) -> Computation:
    shape, sizes = equation.shape, [1] * equation.outputs[0].ndim
    for size, place in zip(
        equation.inputs[0].shape, equation.params["broadcast_dimensions"], strict=True
    ):
        sizes[place] = size
    between = tuple(sizes)
    return lambda x, *_: np.broadcast_to(x.reshape(between), shape)


def part(equation: Equation) -> Computation:
    params = equation.params
    strides = params["strides"] or [1] * equation.inputs[0].ndim
    places = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    where = tuple(slice(*each) for each in places)
    return lambda x: x[where]


def reversal(equation: Equation) -> Computation:
    dimensions = tuple(equation.params["dimensions"])
    return lambda x: np.flip(x, dimensions)


def repetition(equation: Equation) -> Computation:
    repetitions = tuple(equation.params["reps"])
    return lambda x: np.tile(x, repetitions)


def concatenation(equation: Equation) -> Computation:
    dimension = equation.params["dimension"]
    return lambda *arrays: np.concatenate(arrays, dimension)


def stacking(equation: Equation) -> Computation:
    axis = equation.params["axis"]
    return lambda *arrays: np.stack(arrays, axis)


def splitting(equation: Equation) -> Computation:
    axis, ends = equation.params["axis"], np.cumsum(equation.params["sizes"])[:-1].tolist()
    return lambda x: np.split(x, ends, axis)


def unstacking(equation: Equation) -> Computation:
    axis = equation.params["axis"]
    return lambda x: list(np.moveaxis(x, axis, 0))


def counting(equation: Equation) -> Computation:
    if equation.inputs:
        raise Unknown("iota of a size that is not known")
    shape, dimension = equation.shape, equation.params["dimension"]
    sizes = [1] * len(shape)
    sizes[dimension] = shape[dimension]
    numbers = np.arange(shape[dimension]).astype(equation.dtype)
    found = np.broadcast_to(numbers.reshape(sizes), shape)
    return lambda: found


def padding(equation: Equation) -> Computation:
    shape, config = equation.shape, equation.params["padding_config"]
    # The parts of the operand that stay, and where they go.
    source, target = [], []
    for size, whole, (low, _, interior) in zip(
        equation.inputs[0].shape, shape, config, strict=True
    ):
        stride = interior + 1
        first = max(0, -(low // stride)) if low < 0 else 0
        last = min(size, (whole - 1 - low) // stride + 1)
        source.append(slice(first, max(first, last)))
        start = low + first * stride
        target.append(slice(start, max(start, low + (last - 1) * stride + 1), stride))
    from_, to = tuple(source), tuple(target)

    def padded(x: np.ndarray, value: np.ndarray) -> np.ndarray:
        found = np.full(shape, value, x.dtype)
        found[to] = x[from_]
        return found

    return padded


def dynamic_part(equation: Equation) -> Computation:
    sizes = equation.params["slice_sizes"]
    limits = [n - k for n, k in zip(equation.inputs[0].shape, sizes, strict=True)]

    def found(x: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        return x[_window(starts, limits, sizes)]

    return found


def dynamic_update(equation: Equation) -> Computation:
    shape, sizes = equation.shape, equation.inputs[1].shape
    limits = [n - k for n, k in zip(shape, sizes, strict=True)]

    def found(x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        new = np.array(x)
        new[_window(starts, limits, sizes)] = update
        return new

    return found


def _window(
    starts: Sequence[np.ndarray], limits: Sequence[int], sizes: Sequence[int]
) -> tuple[slice, ...]:
    """The part of an array that begins at ``starts``, moved inside where it would not fit."""
    return tuple(
        slice(at := min(max(int(start), 0), limit), at + size)
        for start, limit, size in zip(starts, limits, sizes, strict=True)
    )


#: Rules by primitives.
RULES: dict[str, Rule] = {
    "broadcast_in_dim": broadcast,
    "concatenate": concatenation,
    "dynamic_slice": dynamic_part,
    "dynamic_update_slice": dynamic_update,
    "iota": counting,
    "pad": padding,
    "reshape": reshape,
    "rev": reversal,
    "slice": part,
    "split": splitting,
    "squeeze": _to_shape,
    "stack": stacking,
    "tile": repetition,
    "unstack": unstacking,
    "transpose": transpose,
}
