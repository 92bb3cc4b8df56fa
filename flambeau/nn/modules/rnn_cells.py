"""The cells of recurrent layers as separate layers: one step per call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.nn import init
from flambeau.nn.common_types import DeviceLike, DTypeLike
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.ops.factories.creation import empty, zeros
from flambeau.ops.neural.sequences.recurrent import (
    gru_cell,
    lstm_cell,
    rnn_relu_cell,
    rnn_tanh_cell,
)

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """The base of recurrent cells: their weights, and the checks of their arguments.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the hidden state.
        bias: Whether there are biases; otherwise they are ``None``.
        num_chunks: The number of gates.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Attributes:
        weight_ih: ``(gates * hidden_size, input_size)``; like all parameters, uniform in
            ``±1/sqrt(hidden_size)`` at first.
        weight_hh: ``(gates * hidden_size, hidden_size)``.
        bias_ih: ``(gates * hidden_size,)``.
        bias_hh: ``(gates * hidden_size,)``.
    """

    __constants__: list[str] = ["input_size", "hidden_size", "bias"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih: Parameter = Parameter(empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh: Parameter = Parameter(
            empty((rows, hidden_size), device=device, dtype=dtype)
        )
        if bias:
            self.bias_ih: Parameter = Parameter(empty(rows, device=device, dtype=dtype))
            self.bias_hh: Parameter = Parameter(empty(rows, device=device, dtype=dtype))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Redraw all parameters."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        return shown if self.bias is True else f"{shown}, bias={self.bias}"

    def _step(
        self, compute: Callable[..., Any], input: Tensor, states: tuple[Tensor, ...], count: int
    ) -> tuple[Tensor, ...]:
        """The next states, for a batch or for a single input without a batch dimension."""
        for each in (input, *states):
            if each.dim() not in (1, 2):
                raise ValueError(
                    f"{type(self).__name__} takes inputs and states of 1 or 2 dimensions, "
                    f"got shape {list(each.shape)}"
                )
        if not states:
            shape = (*input.shape[:-1], self.hidden_size)
            states = (zeros(shape, dtype=input.dtype, device=input.device),) * count
        unbatched = input.dim() == 1
        if unbatched:
            input, states = input.unsqueeze(0), tuple([each.unsqueeze(0) for each in states])
        hx = states if count > 1 else states[0]
        found = compute(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        found = found if count > 1 else (found,)
        return tuple([each.squeeze(0) for each in found]) if unbatched else found


class RNNCell(RNNCellBase):
    """``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``, or ReLU in place of tanh.

    Shapes: ``(N, input_size)`` and, optionally, ``(N, hidden_size)`` to ``(N, hidden_size)``; also
    without N.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the hidden state.
        bias: Whether there are biases.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        device: The device of the parameters.
        dtype: The dtype of the parameters.
    """

    __constants__: list[str] = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next hidden state; ``hx`` is the present state, by default zeros.

        Raises:
            ValueError: A tensor has another number of dimensions.
            RuntimeError: The sizes do not match, or ``nonlinearity`` is unknown.
        """
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(
                f"RNNCell's nonlinearity must be 'tanh' or 'relu', got {self.nonlinearity!r}"
            )
        compute = rnn_tanh_cell if self.nonlinearity == "tanh" else rnn_relu_cell
        return self._step(compute, input, () if hx is None else (hx,), 1)[0]

    def extra_repr(self) -> str:
        shown = super().extra_repr()
        return (
            shown if self.nonlinearity == "tanh" else f"{shown}, nonlinearity={self.nonlinearity}"
        )


class LSTMCell(RNNCellBase):
    """One step of an `nn.LSTM`: ``c' = σ(f) c + σ(i) tanh(g)`` and ``h' = σ(o) tanh(c')``.

    Shapes: ``(N, input_size)`` and, optionally, two states ``(N, hidden_size)`` to two states; also
    without N.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the state.
        bias: Whether there are biases.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    >>> import flambeau
    >>> from flambeau import nn
    >>> hidden, cell = nn.LSTMCell(10, 20)(flambeau.zeros(3, 10))
    >>> hidden.shape
    flambeau.Size([3, 20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """The next states ``(h, c)``; ``hx`` holds the present states, by default zeros.

        Raises:
            ValueError: A tensor has another number of dimensions.
            RuntimeError: The sizes do not match.
        """
        if hx is not None and len(hx) != 2:
            raise RuntimeError(f"LSTMCell takes two states, h and c, got {len(hx)}")
        hidden, cell = self._step(lstm_cell, input, () if hx is None else tuple(hx), 2)
        return hidden, cell


class GRUCell(RNNCellBase):
    """One step of an `nn.GRU`: ``h' = (1 - z) n + z h``.

    Shapes: as for `RNNCell`.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the hidden state.
        bias: Whether there are biases.
        device: The device of the parameters.
        dtype: The dtype of the parameters.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next hidden state; ``hx`` is the present state, by default zeros.

        Raises:
            ValueError: A tensor has another number of dimensions.
            RuntimeError: The sizes do not match.
        """
        return self._step(gru_cell, input, () if hx is None else (hx,), 1)[0]
