"""Recurrent layers, and their cells.

https://docs.pytorch.org/docs/2.13/nn.html#recurrent-layers
"""

from __future__ import annotations

from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.nn.common_types import DeviceLike, DTypeLike
from flambeau.nn.modules.rnn_base import Batch, RNNBase
from flambeau.nn.modules.rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]


class RNN(RNNBase):
    """Elman's recurrent layers: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``.

    Shapes: ``(T, N, input_size)`` and, optionally, an initial state ``(layers, N, hidden_size)`` to
    ``(T, N, directions * hidden_size)`` and the last state. ``(T, input_size)`` is a single
    sequence; a `PackedSequence` gives a `PackedSequence`. ``layers`` is ``num_layers`` times the
    number of directions.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the hidden state.
        num_layers: See `RNNBase`, as for all following arguments.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        bias: Whether there are biases.
        batch_first: Whether batches are ``(N, T, features)``.
        dropout: The probability of dropping elements between layers.
        bidirectional: Whether each layer also runs backward.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Raises:
        ValueError: ``nonlinearity`` is unknown, or ``proj_size`` is given; see also `RNNBase`.

    >>> import flambeau
    >>> from flambeau import nn
    >>> output, hidden = nn.RNN(10, 20, num_layers=2)(flambeau.zeros(5, 3, 10))
    >>> output.shape, hidden.shape
    (flambeau.Size([5, 3, 20]), flambeau.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        proj_size: object = None,
    ) -> None:
        _refuse_projection("RNN", proj_size)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first,
            dropout, bidirectional, 0, device, dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity

    def forward(self, input: Batch, hx: Tensor | None = None) -> tuple[Batch, Tensor]:
        """The hidden states of the last layer at all steps, and the final states of all layers."""
        output, (hidden,) = self._run(input, hx)
        return output, hidden


class LSTM(RNNBase):
    """Layers of long short-term memory, https://doi.org/10.1162/neco.1997.9.8.1735.

    ``c' = σ(f) c + σ(i) tanh(g)`` and ``h' = σ(o) tanh(c')``, where the four gates i, f, g, o are
    ``W_ih x + b_ih + W_hh h + b_hh``. With ``proj_size``, ``h'`` is multiplied by ``W_hr``
    (https://arxiv.org/abs/1402.1128).

    Shapes: ``(T, N, input_size)`` and, optionally, initial states ``(layers, N, H)`` and ``(layers,
    N, hidden_size)`` to ``(T, N, directions * H)`` and the last states, H being ``proj_size`` or
    ``hidden_size``. ``(T, input_size)`` is a single sequence; a `PackedSequence` gives a
    `PackedSequence`. ``layers`` is ``num_layers`` times the number of directions.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the state.
        num_layers: See `RNNBase`, as for all following arguments.
        bias: Whether there are biases.
        batch_first: Whether batches are ``(N, T, features)``.
        dropout: The probability of dropping elements between layers.
        bidirectional: Whether each layer also runs backward.
        proj_size: Features of the hidden state, if it is projected.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Raises:
        ValueError: See `RNNBase`.

    >>> import flambeau
    >>> from flambeau import nn
    >>> output, (hidden, cell) = nn.LSTM(10, 20)(flambeau.zeros(5, 3, 10))
    >>> output.shape, cell.shape
    (flambeau.Size([5, 3, 20]), flambeau.Size([1, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, proj_size, device, dtype,
        )  # fmt: skip

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the initial cell state."""
        return self._state_shapes(self._batch_of(input, batch_sizes))[1]

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """A pair of states with their batch permuted."""
        if permutation is None:
            return hx
        hidden, cell = hx
        return hidden.index_select(1, permutation), cell.index_select(1, permutation)

    def forward(
        self, input: Batch, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Batch, tuple[Tensor, Tensor]]:
        """The hidden states of the last layer at all steps, and the final states of all layers."""
        output, (hidden, cell) = self._run(input, hx)
        return output, (hidden, cell)


class GRU(RNNBase):
    """Layers of gated recurrent units, https://arxiv.org/abs/1406.1078.

    ``h' = (1 - z) n + z h``, where ``r`` and ``z`` are ``σ(W_i x + b_i + W_h h + b_h)``, and
    ``n = tanh(W_in x + b_in + r (W_hn h + b_hn))``.

    Shapes: as for `RNN`.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the hidden state.
        num_layers: See `RNNBase`, as for all following arguments.
        bias: Whether there are biases.
        batch_first: Whether batches are ``(N, T, features)``.
        dropout: The probability of dropping elements between layers.
        bidirectional: Whether each layer also runs backward.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Raises:
        ValueError: ``proj_size`` is given; see also `RNNBase`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        proj_size: object = None,
    ) -> None:
        _refuse_projection("GRU", proj_size)
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            0, device, dtype,
        )  # fmt: skip

    def forward(self, input: Batch, hx: Tensor | None = None) -> tuple[Batch, Tensor]:
        """The hidden states of the last layer at all steps, and the final states of all layers."""
        output, (hidden,) = self._run(input, hx)
        return output, hidden


def _refuse_projection(name: str, proj_size: object) -> None:
    if proj_size is not None:
        raise ValueError(f"{name} takes no proj_size; only LSTM has projections")
