"""One direction of one recurrent layer: a scan over the steps, and its tangent.

JAX's own derivative of a scan would add to the gradient of the weights at each step. The tangent
here is arranged so that only the part that is truly sequential stays in the loop: the derivatives
of all steps are computed at once before it, and the gradient of the weights at once after it.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from flambeau.ops.recurrent_cells import CELLS, State
from flambeau.ops.trilinear import trilinear


class Shapes(NamedTuple):
    """The shapes of the two factors of a product of matrices."""

    left: tuple[int, ...]
    right: tuple[int, ...]


def _weight_gradient(cotangent: Any, rows: Any, shapes: Shapes) -> Any:
    # XLA turns the first factor round, and the rows are the shorter; left alone, it would exchange
    # the two where the gradient is turned round afterwards.
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
    found = _product(rows, weight, Shapes(rows.shape, weight.shape))
    return found.reshape(*array.shape[:-1], weight.shape[1])


class Recurrent(NamedTuple):
    """What multiplies the hidden state.

    Attributes:
        weight: ``(H, gates)``.
        bias: ``(gates,)``, added to what the hidden state contributes, or ``None``.
        projection: ``(M, H)``, from a cell's output to its hidden state, or ``None``.
    """

    weight: Any
    bias: Any
    projection: Any

    def gates(self, hidden: Any) -> Any:
        """What hidden states contribute to the gates."""
        product = hidden @ self.weight
        return product if self.bias is None else product + self.bias

    def project(self, state: State) -> State:
        """The state with its output turned into a hidden state."""
        return state if self.projection is None else (state[0] @ self.projection, *state[1:])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def recurrence(
    kind: str, reverse: bool, gates: Any, state: State, recurrent: Recurrent, active: Any
) -> tuple[Any, State]:
    """The hidden states of all steps, and the last state.

    Args:
        kind: A key of `CELLS`.
        reverse: Begin with the last step.
        gates: ``(T, N, gates)``, what the inputs contribute.
        state: The first state, of ``(N, H)`` each.
        recurrent: The weights.
        active: ``(T, N, 1)``, false where a sequence has no such step and its state stays; or
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

    last, outputs = lax.scan(step, state, (gates, active), reverse=reverse)
    return outputs, last


@recurrence.defjvp
def _recurrence_jvp(kind: str, reverse: bool, primals: Any, tangents: Any) -> Any:
    _, first, recurrent, active = primals
    cell = CELLS[kind]
    outputs, last, states, gates = _course(kind, reverse, *primals)
    before = tuple(
        _shifted(each, start, reverse) for each, start in zip(states, first, strict=True)
    )
    slopes = cell.slopes(gates, before)
    d_gates, d_first, d_recurrent, _ = tangents
    # What moves while the hidden states stay where they are.
    d_hidden = at_all_steps(before[0], d_recurrent.weight)
    if recurrent.bias is not None:
        d_hidden = d_hidden + d_recurrent.bias
    d_pre = cell.from_input(d_gates) + cell.from_hidden(d_hidden)
    d_projected = None
    if recurrent.projection is not None:
        d_projected = cell.step(gates, before)[0] @ d_recurrent.projection
    linear = recurrent._replace(bias=None)

    def step(d_state: State, inputs: Any) -> tuple[State, Any]:
        slopes, d_pre, d_projected, here = inputs
        d_pre = d_pre + cell.from_hidden(linear.gates(d_state[0]))
        d_new = linear.project(cell.tangent(slopes, d_pre, d_state))
        if d_projected is not None:
            d_new = (d_new[0] + d_projected, *d_new[1:])
        d_state = _where(here, d_new, d_state)
        return d_state, d_state[0]

    inputs = (slopes, d_pre, d_projected, active)
    d_last, d_outputs = lax.scan(step, d_first, inputs, reverse=reverse)
    return (outputs, last), (d_outputs, d_last)


def _course(
    kind: str, reverse: bool, gates: Any, state: State, recurrent: Recurrent, active: Any
) -> tuple[Any, State, State, Any]:
    """`recurrence`, and the states and gates of all steps besides."""
    cell = CELLS[kind]

    def step(state: State, inputs: Any) -> tuple[State, Any]:
        given, here = inputs
        own = cell.activate(cell.from_input(given) + cell.from_hidden(recurrent.gates(state[0])))
        state = _where(here, recurrent.project(cell.step(own, state)), state)
        return state, (state, own)

    last, (states, own) = lax.scan(step, state, (gates, active), reverse=reverse)
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
