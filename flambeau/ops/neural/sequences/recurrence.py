"""One direction of one recurrent layer: a scan over the steps, and its tangent.

JAX's own derivative of a scan would accumulate the gradient of the weights at each step. Here the
tangent is arranged so that this leaves the loop: the gradient of the weights over all steps is one
product. The slopes of all steps could also be computed at once. On a CPU the gradient computes them
in its loop, from the gates that the forward keeps: stored, they would be another array of that size
to write and read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from flambeau.core.devices.compiler import is_portable
from flambeau.ops.common import loops
from flambeau.ops.cpu_forms.linear_maps import LinearMap
from flambeau.ops.cpu_forms.trilinear import trilinear
from flambeau.ops.neural.sequences.recurrent_cells import CELLS, Slopes, State


class Shapes(NamedTuple):
    """The shapes of the two factors of a matrix product."""

    left: tuple[int, ...]
    right: tuple[int, ...]


def _weight_gradient(cotangent: Any, rows: Any, shapes: Shapes) -> Any:
    # XLA transposes the first factor, and the rows are shorter; left alone, it would exchange the
    # two if the gradient is transposed afterwards.
    return lax.optimization_barrier(rows.T @ cotangent)


_product = trilinear(
    "rows_by_weight",
    lambda rows, weight, shapes: rows @ weight,
    lambda rows, weight, shapes: rows @ weight,
    lambda cotangent, weight, shapes: cotangent @ weight.T,
    _weight_gradient,
)


def at_all_steps(array: Any, weight: Any) -> Any:
    """``(T, N, features)`` times ``(features, gates)``."""
    rows = array.reshape(-1, array.shape[-1])
    shapes = Shapes(rows.shape, weight.shape)
    # Converters of portable programs know JAX's own primitives.
    found = rows @ weight if is_portable() else _product(rows, weight, shapes)
    return found.reshape(*array.shape[:-1], weight.shape[1])


class Recurrent(NamedTuple):
    """The weights that multiply the hidden state.

    Attributes:
        weight: ``(H, gates)``.
        bias: ``(gates,)``, added to the hidden state's contribution, or ``None``.
        projection: ``(M, H)``, from a cell's output to its hidden state, or ``None``.
    """

    weight: Any
    bias: Any
    projection: Any

    def gates(self, hidden: Any) -> Any:
        """The hidden states' part of the gates."""
        product = hidden @ self.weight
        return product if self.bias is None else product + self.bias

    def project(self, state: State) -> State:
        """The state with its output projected to a hidden state."""
        return state if self.projection is None else (state[0] @ self.projection, *state[1:])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def recurrence(
    kind: str, reverse: bool, gates: Any, state: State, recurrent: Recurrent, active: Any
) -> tuple[Any, State]:
    """The hidden states of all steps, and the last state.

    Args:
        kind: A key of `CELLS`.
        reverse: Start with the last step.
        gates: ``(T, N, gates)``, the contribution of the inputs.
        state: The initial state, ``(N, H)`` each.
        recurrent: The weights.
        active: ``(T, N, 1)``, false where a sequence has no such step and keeps its state; or
            ``None``.

    Returns:
        ``(T, N, H)``, and the state.
    """
    cell = CELLS[kind]

    def step(state: State, inputs: Any) -> tuple[State, Any]:
        given, here = inputs
        own = cell.activate(cell.from_input(given) + cell.from_hidden(recurrent.gates(state[0])))
        state = _where(here, recurrent.project(cell.step(own, state)), state)
        return state, state[0]

    last, outputs = loops.scan(step, state, (gates, active), reverse=reverse)
    return outputs, last


@recurrence.defjvp
def _recurrence_jvp(kind: str, reverse: bool, primals: Any, tangents: Any) -> Any:
    _, first, recurrent, active = primals
    cell = CELLS[kind]
    outputs, last, states, gates = _course(kind, reverse, *primals)
    before = tuple(
        _shifted(each, start, reverse) for each, start in zip(states, first, strict=True)
    )
    d_gates, d_first, d_recurrent, _ = tangents
    # The tangents of the gates, with the hidden states held constant.
    d_hidden = at_all_steps(before[0], d_recurrent.weight)
    if recurrent.bias is not None:
        d_hidden = d_hidden + d_recurrent.bias
    d_pre = cell.from_input(d_gates) + cell.from_hidden(d_hidden)
    d_projected = None
    if recurrent.projection is not None:
        d_projected = cell.step(gates, before)[0] @ d_recurrent.projection
    # Transposed here, the weight has the layout that its product needs in the gradient's loop.
    fixed = (Step(gates, before, states, active), recurrent.weight.T, recurrent.projection)
    d_outputs, *d_last = _motion(kind, reverse)(fixed, (d_pre, d_projected, *d_first))
    return (outputs, last), (d_outputs, tuple(d_last))


class Step(NamedTuple):
    """The results of one step, or of several.

    Attributes:
        gates: The result of the cell's ``activate``.
        before: The state before the step.
        after: The state after the step.
        active: See `recurrence`.
    """

    gates: Any
    before: State
    after: State
    active: Any


@functools.cache
def _motion(kind: str, reverse: bool) -> LinearMap:
    """The tangents of the hidden states of all steps and of the last state.

    The linear arguments are the tangents of the pre-activations at all steps, of the hidden states
    due to the projection's tangent, or ``None``, and of the initial state.
    """
    return LinearMap(
        functools.partial(_motion_forward, kind, reverse),
        functools.partial(_motion_backward, kind, reverse),
    )


def _motion_forward(kind: str, reverse: bool, fixed: Any, linear: Any) -> Any:
    steps, weight, projection = fixed
    d_pre, d_projected, *d_first = linear

    def step(d_state: State, inputs: Any) -> tuple[State, Any]:
        slopes, active, d_pre, d_projected = inputs
        move = _motion_of_step(kind, slopes, active, weight, projection)
        d_state = move(d_state, d_pre, d_projected)
        return d_state, d_state[0]

    inputs = (_slopes(kind, steps), steps.active, d_pre, d_projected)
    d_last, d_outputs = loops.scan(step, tuple(d_first), inputs, reverse=reverse)
    return d_outputs, *d_last


def _motion_backward(kind: str, reverse: bool, fixed: Any, cotangents: Any) -> Any:
    steps, weight, projection = fixed
    of_outputs, *of_last = cotangents

    def step(of_state: State, inputs: Any) -> tuple[State, Any]:
        here, of_output = inputs
        of_state = (of_state[0] + of_output, *of_state[1:])
        move = _motion_of_step(kind, _slopes(kind, here), here.active, weight, projection)
        # Only the shapes matter: of the state, the pre-activations and the hidden state.
        like = (of_state, here.gates, None if projection is None else of_output)
        of_state, *of_inputs = jax.linear_transpose(move, *like)(of_state)
        return of_state, of_inputs

    of_first, of_inputs = loops.scan(step, tuple(of_last), (steps, of_outputs), reverse=not reverse)
    return *of_inputs, *of_first


def _slopes(kind: str, steps: Step) -> Slopes:
    return CELLS[kind].slopes(steps.gates, steps.before, steps.after)


def _motion_of_step(
    kind: str, slopes: Slopes, active: Any, weight: Any, projection: Any
) -> Callable[[State, Any, Any], State]:
    """The tangent of the state after a step, from those of the state before it and of the input.

    The function is linear and takes the tangents of the state before, of the pre-activations, and
    of the hidden state due to the projection's tangent, or ``None``.
    """
    cell = CELLS[kind]
    linear = Recurrent(weight.T, None, projection)

    def move(d_state: State, d_pre: Any, d_projected: Any) -> State:
        d_pre = d_pre + cell.from_hidden(linear.gates(d_state[0]))
        d_new = linear.project(cell.tangent(slopes, d_pre, d_state))
        if d_projected is not None:
            d_new = (d_new[0] + d_projected, *d_new[1:])
        return _where(active, d_new, d_state)

    return move


def _course(
    kind: str, reverse: bool, gates: Any, state: State, recurrent: Recurrent, active: Any
) -> tuple[Any, State, State, Any]:
    """`recurrence`, and the states and gates of all steps."""
    cell = CELLS[kind]

    def step(state: State, inputs: Any) -> tuple[State, Any]:
        given, here = inputs
        own = cell.activate(cell.from_input(given) + cell.from_hidden(recurrent.gates(state[0])))
        state = _where(here, recurrent.project(cell.step(own, state)), state)
        return state, (state, own)

    last, (states, own) = loops.scan(step, state, (gates, active), reverse=reverse)
    return states[0], last, states, own


def _where(here: Any, new: State, old: State) -> State:
    if here is None:
        return new
    return tuple(jnp.where(here, a, b) for a, b in zip(new, old, strict=True))


def _shifted(states: Any, first: Any, reverse: bool) -> Any:
    """The states before each step, from those after it."""
    if reverse:
        return jnp.concatenate([states[1:], first[None]])
    return jnp.concatenate([first[None], states[:-1]])
