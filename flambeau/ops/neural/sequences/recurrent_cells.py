"""The cells of recurrent layers: one step of each, and its tangent.

The formulas are those of PyTorch's documentation of RNN, LSTM and GRU. Long short-term memory:
https://doi.org/10.1162/neco.1997.9.8.1735; with a projected state: https://arxiv.org/abs/1402.1128.
Gated recurrent units: https://arxiv.org/abs/1406.1078.

A cell computes its gates elementwise from its pre-activations, the sum of the contributions of the
input and of the hidden state. Given the gates it acts elementwise on the state, so its derivatives
are elementwise too, for one step or for all steps at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.ops.common.derivatives import where_chosen

#: The state of a cell: the hidden state first, then its other memory.
State = tuple[Any, ...]


class Slopes(NamedTuple):
    """The derivatives of one step.

    Attributes:
        gates: The derivative of the cell's memory, or its hidden state, by each pre-activation.
        memory: The derivative of the same by its value before the step; ``None`` if it does not
            depend on it.
        output: The derivative of the hidden state by the memory; ``None`` if they are identical.
    """

    gates: Any
    memory: Any = None
    output: Any = None


class RnnCell:
    """``h' = tanh(pre)`` or ``relu(pre)``."""

    gates = 1
    states = 1

    def __init__(self, nonlinearity: str) -> None:
        self.relu: bool = nonlinearity == "relu"

    def from_input(self, gates: Any) -> Any:
        """The input's part of the pre-activations."""
        return gates

    def from_hidden(self, gates: Any) -> Any:
        """The hidden state's part of the pre-activations."""
        return gates

    def activate(self, pre: Any) -> Any:
        """The gates."""
        return jnp.where(pre <= 0, 0, pre) if self.relu else jnp.tanh(pre)

    def step(self, gates: Any, state: State) -> State:
        """The next state."""
        return (gates,)

    def slopes(self, gates: Any, before: State, after: State) -> Slopes:
        """The derivatives of `step` after `activate`, from the states before and after it."""
        if self.relu:
            # NaN passes its gradient on, as in the activation of this name.
            return Slopes((~(gates <= 0)).astype(gates.dtype))
        return Slopes(1 - jnp.square(gates))

    def tangent(self, slopes: Slopes, pre: Any, state: State) -> State:
        """The tangent of the next state, from those of the pre-activations and the state."""
        if self.relu:
            return (where_chosen(slopes.gates != 0, pre),)
        return (slopes.gates * pre,)


class LstmCell:
    """``c' = f c + i g`` and ``h' = o tanh(c')``, the gates in the order i, f, g, o."""

    gates = 4
    states = 2

    def from_input(self, gates: Any) -> Any:
        """The input's part of the pre-activations."""
        return gates

    def from_hidden(self, gates: Any) -> Any:
        """The hidden state's part of the pre-activations."""
        return gates

    def activate(self, pre: Any) -> Any:
        """The gates: hyperbolic tangents for g, logistic functions for the others.

        Both functions are computed for all gates in one loop: loops over quarters of rows take four
        times as long.
        """
        gates = jnp.where(_is_candidate(pre), jnp.tanh(pre), jax.nn.sigmoid(pre))
        return lax.optimization_barrier(gates)

    def step(self, gates: Any, state: State) -> State:
        """The next state."""
        i, f, g, o = jnp.split(gates, 4, -1)
        memory = lax.optimization_barrier(f * state[1] + i * g)
        return o * jnp.tanh(memory), memory

    def slopes(self, gates: Any, before: State, after: State) -> Slopes:
        """The derivatives of `step` after `activate`, from the states before and after it."""
        i, f, g, o = jnp.split(gates, 4, -1)
        memory, shown = before[1], jnp.tanh(after[1])
        slope = jnp.where(_is_candidate(gates), 1 - jnp.square(gates), gates * (1 - gates))
        factors = lax.optimization_barrier(jnp.concatenate((g, memory, i, shown), -1))
        return Slopes(factors * slope, f, o * (1 - jnp.square(shown)))

    def tangent(self, slopes: Slopes, pre: Any, state: State) -> State:
        """The tangent of the next state, from those of the pre-activations and the state."""
        i, f, g, o = jnp.split(slopes.gates * pre, 4, -1)
        memory = slopes.memory * state[1] + i + f + g
        return o + slopes.output * memory, memory


def _is_candidate(gates: Any) -> Any:
    """A mask of the candidate's gate, the third quarter."""
    return np.arange(gates.shape[-1]) // (gates.shape[-1] // 4) == 2


class GruCell:
    """``h' = (1 - z) n + z h``, the gates in the order r, z, n.

    The reset gate r multiplies the hidden state's contribution to n, so there are four
    pre-activations: of r, of z, and for n the separate contributions of the input and the hidden
    state.
    """

    gates = 3
    states = 1

    def from_input(self, gates: Any) -> Any:
        """The input's part of the pre-activations."""
        size = gates.shape[-1] // 3
        return jnp.concatenate([gates, jnp.zeros_like(gates[..., :size])], -1)

    def from_hidden(self, gates: Any) -> Any:
        """The hidden state's part of the pre-activations."""
        size = gates.shape[-1] // 3
        nothing = jnp.zeros_like(gates[..., :size])
        return jnp.concatenate([gates[..., : 2 * size], nothing, gates[..., 2 * size :]], -1)

    def activate(self, pre: Any) -> Any:
        """The pre-activations: n depends on r."""
        return pre

    def step(self, gates: Any, state: State) -> State:
        """The next state."""
        _, z, n, _ = _gru_gates(gates)
        return ((1 - z) * n + z * state[0],)

    def slopes(self, gates: Any, before: State, after: State) -> Slopes:
        """The derivatives of `step`, from the states before and after it."""
        r, z, n, hidden = _gru_gates(gates)
        by_n = (1 - z) * (1 - jnp.square(n))
        by_gate = (by_n * hidden * r * (1 - r), (before[0] - n) * z * (1 - z), by_n, by_n * r)
        return Slopes(jnp.concatenate(by_gate, -1), z)

    def tangent(self, slopes: Slopes, pre: Any, state: State) -> State:
        """The tangent of the next state, from those of the pre-activations and the state."""
        return (slopes.memory * state[0] + sum(jnp.split(slopes.gates * pre, 4, -1)),)


def _gru_gates(pre: Any) -> tuple[Any, Any, Any, Any]:
    """The gates r, z and n, and the hidden state's contribution to n before it is scaled by r."""
    r, z, n, hidden = jnp.split(pre, 4, -1)
    r = jax.nn.sigmoid(r)
    return r, jax.nn.sigmoid(z), jnp.tanh(n + r * hidden), hidden


CELLS: dict[str, Any] = {
    "rnn_tanh": RnnCell("tanh"),
    "rnn_relu": RnnCell("relu"),
    "lstm": LstmCell(),
    "gru": GruCell(),
}
