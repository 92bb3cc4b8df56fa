"""Long short-term memory by native kernels: one direction of one layer, all steps in one call.

The kernels compute the inputs' contributions too, so that these are never written to memory, and
divide the samples among threads. The gradients of the weights are another kernel, a product over
all steps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

from flambeau.ops.common import loops
from flambeau.ops.cpu_forms.linear_maps import LinearMap
from flambeau.ops.native.call import call_kernel, has_kernel
from flambeau.ops.native.derivative import derivative, moving

__all__: list[str] = []

# The weights are copied for each call, so XLA is faster for fewer steps, or fewer steps of all
# samples.
_FEWEST_STEPS = 2
_FEWEST_ROWS = 16

#: Outputs, last hidden states and last memories of ``(input, hidden, memory, input's weights,
#: hidden state's weights, bias, is_reverse)``, which JAX can differentiate.
Plain = Callable[..., tuple[Any, Any, Any]]


def takes(kind: str, input: Any, active: Any, projection: Any) -> bool:
    """Whether the kernels support this recurrence.

    Args:
        kind: The cell.
        input: ``(T, N, features)``.
        active: The steps that each sequence has; ``None`` for all.
        projection: The weight of a projection, or ``None``.
    """
    return (
        kind == "lstm"
        and has_kernel("lstm", input)
        and input.dtype == jnp.float32
        and active is None
        and projection is None
        and input.shape[0] >= _FEWEST_STEPS
        and input.shape[0] * input.shape[1] >= _FEWEST_ROWS
    )


class _How(NamedTuple):
    """The properties of a layer's program besides its arrays.

    Attributes:
        plain: The layer by XLA's operators.
        samples_first: Whether arrays are ``(N, T, width)`` instead of ``(T, N, width)``.
        is_reverse: Start with the last step.
    """

    plain: Plain
    samples_first: bool
    is_reverse: bool

    @property
    def time(self) -> int:
        """The dimension of the steps."""
        return 1 if self.samples_first else 0

    def turned(self, steps: Any) -> Any:
        """``(T, N, width)`` converted to or from the layout of the arrays."""
        return jnp.swapaxes(steps, 0, 1) if self.samples_first else steps

    def otherwise(self, input: Any, *others: Any) -> Any:
        outputs, *last = self.plain(self.turned(input), *others, self.is_reverse)
        return self.turned(outputs), *last

    def end(self, outputs: Any) -> Any:
        """The last of the hidden states."""
        return lax.index_in_dim(outputs, 0 if self.is_reverse else -1, self.time, keepdims=False)

    def call(self, name: str, shapes: Any, *arrays: Any, **options: Any) -> Any:
        attributes = {"samples_first": self.samples_first, "is_reverse": self.is_reverse}
        return call_kernel(name, shapes, *arrays, **options, **attributes)


def lstm(
    plain: Plain,
    input: Any,
    state: tuple[Any, Any],
    by_input: Any,
    by_hidden: Any,
    bias: Any,
    *,
    is_reverse: bool,
    batch_first: bool,
) -> tuple[Any, tuple[Any, Any]]:
    """The hidden states of all steps, and the last state.

    Args:
        plain: The same function by XLA's operators, for derivatives of the derivatives.
        input: ``(T, N, features)``, in single precision.
        state: The initial hidden state and memory, ``(N, H)`` each.
        by_input: The input's weights, ``(4 * H, features)``.
        by_hidden: The hidden state's weights, ``(4 * H, H)``.
        bias: ``(4 * H,)`` or ``None``.
        is_reverse: Start with the last step.
        batch_first: Whether ``input`` is the transpose of an array ``(N, T, features)``.
    """
    bias = jnp.zeros(by_hidden.shape[:1], input.dtype) if bias is None else bias
    # Over several devices a call is partitioned along its first dimension.
    how = _How(plain, batch_first or jax.device_count() > 1, is_reverse)
    outputs, *last = _lstm(how.turned(input), *state, by_input, by_hidden, bias, how, False)
    return how.turned(outputs), tuple(last)


@functools.partial(jax.custom_jvp, nondiff_argnums=(6, 7))
def _lstm(
    input: Any, hidden: Any, memory: Any, by_input: Any, by_hidden: Any, bias: Any, how: _How,
    keeps: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Outputs, the last hidden states and memories, and the residuals for the gradient if kept."""
    arrays = input, hidden, memory, by_input, by_hidden, bias
    outputs, last, *kept = _run(how, keeps)(*arrays)
    results = outputs, how.end(outputs), last
    return (*results, *kept) if keeps else results


def _moved(how: _How, keeps: bool, primals: Any, tangents: Any) -> Any:
    results = _lstm(*primals, how, True)
    outputs, _, _, *kept = results
    tangents = moving(tangents)
    fixed = *primals, outputs, *kept
    moved = _derivative(how, tangents[0] is not None)(fixed, tangents)
    if not keeps:
        return results[:3], moved
    # The residuals' tangents are never used.
    return results, (*moved, *map(jnp.zeros_like, kept))


_lstm.defjvp(_moved, symbolic_zeros=True)


@functools.cache
def _run(how: _How, keeps: bool) -> Callable[..., Any]:
    """Outputs, the last memory, and if requested, gates and memories of all steps."""

    @_over_samples(how, whole=(3, 4, 5))
    def run(input: Any, hidden: Any, memory: Any, *weights: Any) -> Any:
        steps, size = input.shape[:2], hidden.shape[-1] if keeps else 0
        outputs = *steps, hidden.shape[-1]
        shapes = outputs, memory.shape, (*steps, 4 * size), (*steps, size)
        return how.call("lstm", shapes, input, hidden, memory, *weights, whole=(3, 4, 5))

    return run


@functools.cache
def _pull(how: _How, wants_input: bool) -> Callable[..., Any]:
    """The cotangents of pre-activations, biases, initial states and inputs.

    The cotangents of biases are ``(N, 4 * H)``, not yet summed over samples.
    """

    @_over_samples(how, whole=(6, 7))
    def pull(outputs: Any, hidden: Any, memory: Any, gates: Any, *others: Any) -> Any:
        memories, first_memory, by_input, by_hidden = others
        if not wants_input:
            by_input = by_input[:, :0]
        inputs = *gates.shape[:2], by_input.shape[1]
        biases = gates.shape[1 - how.time], gates.shape[2]
        shapes = gates.shape, biases, hidden.shape, memory.shape, inputs
        given = outputs, hidden, memory, gates, memories, first_memory, by_input, by_hidden
        # The cotangents overwrite the gates, whose memory is available.
        return how.call("lstm_gradient", shapes, *given, whole=(6, 7), aliases=((3, 0),))

    return pull


@functools.cache
def _derivative(how: _How, wants_input: bool) -> LinearMap:
    def gradients(fixed: Any, cotangents: Any) -> Any:
        input, hidden, memory, by_input, by_hidden, _, outputs, gates, memories = fixed
        slopes, of_biases, of_hidden, of_memory, of_input = _pull(how, wants_input)(
            *cotangents, gates, memories, memory, by_input, by_hidden
        )
        of_weights = _weights(how)(input, hidden, outputs, slopes)
        return of_input, of_hidden, of_memory, *of_weights, of_biases.sum(0)

    return derivative(how.otherwise, gradients, batches=True)


@functools.cache
def _weights(how: _How) -> Callable[..., Any]:
    """The cotangents of both weights, which are sums over all steps and samples."""

    @custom_vmap
    def weights(input: Any, hidden: Any, outputs: Any, slopes: Any) -> Any:
        shapes = [(slopes.shape[2], each.shape[2]) for each in (input, outputs)]
        arrays = input, hidden, outputs, slopes
        return how.call("lstm_weights", shapes, *arrays, summed=(0, 1))

    @weights.def_vmap
    def more(size: int, are_batched: Any, *arrays: Any) -> Any:
        return _one_by_one(weights, are_batched, arrays), (True, True)

    return weights


def _over_samples(
    how: _How, whole: tuple[int, ...]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Fold a batch into the samples of one call, or, for batched weights, call once for each.

    Args:
        how: The layout of arrays with steps, which are those of three dimensions.
        whole: The positions of the weights.
    """
    place = 0 if how.samples_first else 1

    def folded(array: Any) -> Any:
        if array.ndim == 3:
            return array.reshape(-1, array.shape[2])
        array = jnp.moveaxis(array, 0, place)
        sizes = array.shape
        return array.reshape(*sizes[:place], sizes[place] * sizes[place + 1], *sizes[place + 2 :])

    def unfolded(size: int, array: Any) -> Any:
        if array.ndim == 2:
            return array.reshape(size, -1, array.shape[1])
        sizes = array.shape
        parts = *sizes[:place], size, sizes[place] // size, *sizes[place + 1 :]
        return jnp.moveaxis(array.reshape(parts), place, 0)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        once = custom_vmap(function)

        @once.def_vmap
        def more(size: int, are_batched: Any, *arrays: Any) -> Any:
            if any(are_batched[each] for each in whole):
                found = _one_by_one(once, are_batched, arrays)
            else:
                given = [
                    each
                    if position in whole
                    else folded(each if is_one else jnp.broadcast_to(each, (size, *each.shape)))
                    for position, (each, is_one) in enumerate(zip(arrays, are_batched, strict=True))
                ]
                found = tuple(unfolded(size, each) for each in once(*given))
            return found, tuple(True for _ in found)

        return once

    return decorate


def _one_by_one(function: Callable[..., Any], are_batched: Any, arrays: Any) -> Any:
    """A batch of a function's results, in a loop."""
    places = [place for place, is_one in enumerate(are_batched) if is_one]

    def call(members: Any) -> Any:
        given = dict(zip(places, members, strict=True))
        return function(*(given.get(place, each) for place, each in enumerate(arrays)))

    return loops.map(call, tuple(arrays[place] for place in places))
