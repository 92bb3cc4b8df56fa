"""The base of recurrent layers."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

from flambeau.core.support import naming
from flambeau.core.support.modes import modes
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.nn import init
from flambeau.nn.common_types import DeviceLike, DTypeLike, Kwargs
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.rnn import PackedSequence
from flambeau.ops.factories.creation import empty
from flambeau.ops.neural.sequences.packed_sequences import Layout
from flambeau.ops.neural.sequences.recurrent import run_layers

__all__ = ["RNNBase"]

# The operator for each mode, and its number of gates.
_MODES = {
    "RNN_TANH": ("rnn_tanh", 1), "RNN_RELU": ("rnn_relu", 1), "LSTM": ("lstm", 4),
    "GRU": ("gru", 3),
}  # fmt: skip


#: An initial state: one tensor, or two for an LSTM.
States: TypeAlias = Tensor | Sequence[Tensor] | None
Batch = TypeVar("Batch", Tensor, PackedSequence)


class RNNBase(Module):
    """The base of recurrent layers: their weights, and the checks of their arguments.

    Args:
        mode: ``"RNN_TANH"``, ``"RNN_RELU"``, ``"LSTM"`` or ``"GRU"``.
        input_size: Features of the input.
        hidden_size: Features of the hidden state.
        num_layers: The number of layers; each takes the hidden states of the previous one as its
            input.
        bias: Whether there are biases.
        batch_first: Whether batches are ``(N, T, features)`` rather than ``(T, N, features)``.
        dropout: The probability of dropping, in training, elements of the output of each layer but
            the last.
        bidirectional: Whether each layer also runs from the end to the beginning.
        proj_size: Features that an LSTM's hidden state is projected to; 0 for no projection.
        device: The device of the parameters.
        dtype: The dtype of the parameters.

    Attributes:
        weight_ih_l0: ``(gates * hidden_size, input_size)``, and ``weight_ih_l1`` and so on for the
            other layers, with the suffix ``_reverse`` for the other direction. All parameters are
            uniform in ``±1/sqrt(hidden_size)`` at first.
        weight_hh_l0: ``(gates * hidden_size, hidden_size)``.
        bias_ih_l0: ``(gates * hidden_size,)``.
        bias_hh_l0: ``(gates * hidden_size,)``.
        weight_hr_l0: ``(proj_size, hidden_size)``, with a projection only.

    Raises:
        ValueError: A size is out of range, or the mode unknown.
        TypeError: A size is not an integer, or a flag no bool.
    """

    __constants__: list[str] = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout",
        "bidirectional", "proj_size",
    ]  # fmt: skip
    _repr_attributes = (
        "*input_size", "*hidden_size", ("proj_size", 0), ("num_layers", 1), ("bias", True),
        ("batch_first", False), ("dropout", 0), ("bidirectional", False),
    )  # fmt: skip

    def __init__(
        self,
        mode: str,
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
        super().__init__()
        _check_dropout(dropout, num_layers)
        _check_flags(bias=bias, batch_first=batch_first)
        _check_sizes(input_size=input_size, hidden_size=hidden_size)
        if num_layers <= 0:
            raise ValueError(f"num_layers must be positive, got {num_layers}")
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"proj_size must be smaller than hidden_size={hidden_size}, or 0 for no "
                f"projection, got {proj_size}"
            )
        if mode not in _MODES:
            raise ValueError(f"the mode must be one of {', '.join(_MODES)}, got {mode!r}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout: float = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        gates = _MODES[mode][1] * hidden_size
        state_size = proj_size or hidden_size
        names = []
        for layer in range(num_layers):
            features = input_size if layer == 0 else state_size * self._directions
            shapes = {"weight_ih": (gates, features), "weight_hh": (gates, state_size)}
            if bias:
                shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for suffix in ("", "_reverse")[: self._directions]:
                own = {f"{name}_l{layer}{suffix}": shape for name, shape in shapes.items()}
                for name, shape in own.items():
                    setattr(self, name, Parameter(empty(shape, device=device, dtype=dtype)))
                names.append(tuple(own))
        self._all_weights = tuple(names)
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        """All parameters in one list, as the operators expect."""
        return [getattr(self, name, None) for names in self._all_weights for name in names]

    @_flat_weights.setter
    def _flat_weights(self, weights: Sequence[Tensor | None]) -> None:
        for name, weight in zip(self._flat_weights_names, weights, strict=True):
            setattr(self, name, weight)

    def flatten_parameters(self) -> None:
        """Do nothing: XLA chooses the memory layout."""

    def reset_parameters(self) -> None:
        """Redraw all parameters."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Check the input's dtype and shape.

        Raises:
            ValueError: The dtype is not that of the weights.
            RuntimeError: The shape does not fit.
        """
        dtype = self._flat_weights[0].dtype
        if input.dtype != dtype and modes.autocast is None:
            raise ValueError(
                f"{type(self).__name__}: an input of {input.dtype} does not go with weights of "
                f"{dtype}; convert it with input.to({dtype}), or the layer with "
                f"layer.to({input.dtype})"
            )
        expected = 3 if batch_sizes is None else 2
        if input.dim() != expected:
            raise RuntimeError(
                f"{type(self).__name__}: the input must have {expected} dimensions, "
                f"got shape {list(input.shape)}"
            )
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"{type(self).__name__}: the input's last dimension must be input_size="
                f"{self.input_size}, got shape {list(input.shape)}"
            )
        if batch_sizes is None and input.size(1 if self.batch_first else 0) == 0:
            raise RuntimeError(
                f"{type(self).__name__}: the sequences must have at least one step, got shape "
                f"{list(input.shape)}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the initial hidden state."""
        return self._state_shapes(self._batch_of(input, batch_sizes))[0]

    def _batch_of(self, input: Tensor, batch_sizes: Tensor | None) -> int:
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.size(0) if self.batch_first else input.size(1)

    def _state_shapes(self, batch: int) -> tuple[tuple[int, int, int], ...]:
        layers = self.num_layers * self._directions
        hidden = (layers, batch, self.proj_size or self.hidden_size)
        return (hidden, (layers, batch, self.hidden_size)) if self.mode == "LSTM" else (hidden,)

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "the hidden state must have shape {}, got {}",
    ) -> None:
        """Check the shape of an initial state.

        Raises:
            RuntimeError: It is not ``expected_hidden_size``; ``msg`` takes both shapes.
        """
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: States, batch_sizes: Tensor | None) -> None:
        """Check input and initial state against each other and the layer."""
        self.check_input(input, batch_sizes)
        self._check_states(_as_states(hidden), self._batch_of(input, batch_sizes))

    def _first_states(self, hx: States) -> tuple[Tensor, ...]:
        """The tensors of an initial state, one or two; none without an initial state."""
        states = _as_states(hx)
        if hx is not None and not states:
            self._check_states(states, 0)
        return states

    def _check_states(self, states: tuple[Tensor, ...], batch: int) -> None:
        shapes = self._state_shapes(batch)
        if len(states) != len(shapes):
            raise RuntimeError(
                f"{type(self).__name__} takes a first state of {len(shapes)} tensor(s), "
                f"got {len(states)}"
            )
        for number, (state, shape) in enumerate(zip(states, shapes, strict=True)):
            which = f"hidden[{number}]" if len(shapes) > 1 else "the hidden state"
            self.check_hidden_size(state, shape, which + " must have shape {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """A state with its batch permuted."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def __getstate__(self) -> Kwargs:
        state = super().__getstate__()
        if naming.package == "torch":
            # The attribute under which PyTorch keeps the weights for its kernels.
            state["_flat_weights_names"] = self._flat_weights_names
            state["_flat_weights"] = self._flat_weights
        return state

    def __setstate__(self, state: Kwargs) -> None:
        kept = ("_flat_weights", "_flat_weights_names", "_flat_weight_refs")
        super().__setstate__({name: each for name, each in state.items() if name not in kept})
        self.__dict__.setdefault("proj_size", 0)

    # The two ways to run

    def _run(self, input: Tensor | PackedSequence, hx: States) -> tuple[Any, tuple[Tensor, ...]]:
        """The output and the final states, from an input of any form and the initial state."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__} takes an input of 2 or 3 dimensions, "
                f"got shape {list(input.shape)}"
            )
        unbatched = input.dim() == 2
        states = self._first_states(hx)
        for each in states:
            if each.dim() != input.dim():
                raise RuntimeError(
                    f"{type(self).__name__}: for a {input.dim()}-d input the first state must be "
                    f"{input.dim()}-d too, got shape {list(each.shape)}"
                )
        batch_dim = 0 if self.batch_first else 1
        if unbatched:
            input = input.unsqueeze(batch_dim)
            states = tuple([each.unsqueeze(1) for each in states])
        if states:
            self.check_forward_args(input, _as_hidden(states), None)
        else:
            self.check_input(input, None)
        output, *last = self._compute(input, states)
        if unbatched:
            return output.squeeze(batch_dim), tuple([each.squeeze(1) for each in last])
        return output, tuple(last)

    def _run_packed(
        self, input: PackedSequence, hx: States
    ) -> tuple[PackedSequence, tuple[Tensor, ...]]:
        states = self._first_states(hx)
        # In a traced program only the initial state may show the number of sequences.
        count = states[0].size(1) if states and states[0].dim() == 3 else None
        padded, layout = input._as_batch(count)
        self.check_input(padded, None)
        if states:
            self._check_states(states, padded.size(1))
        output, *last = self._compute(padded, states, layout)
        return input._of_padded(output, layout), tuple(last)

    def _compute(
        self, input: Tensor, states: tuple[Tensor, ...], layout: Layout | None = None
    ) -> tuple[Tensor, ...]:
        return run_layers(
            _MODES[self.mode][0], input, states, self._flat_weights, self.bias, self.num_layers,
            self.dropout, self.training, self.bidirectional,
            self.batch_first and layout is None, layout,
        )  # fmt: skip


def _as_states(hx: States) -> tuple[Tensor, ...]:
    if hx is None:
        return ()
    return (hx,) if isinstance(hx, Tensor) else tuple(hx)


def _as_hidden(states: tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
    (first, *others) = states
    return states if others else first


def _check_dropout(dropout: float, num_layers: int) -> None:
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool):
        raise ValueError(f"dropout must be a number from 0 to 1, got {dropout!r}")
    if not 0 <= dropout <= 1:
        raise ValueError(f"dropout must be from 0 to 1, got {dropout}")
    if dropout > 0 and num_layers == 1:
        warn(
            f"dropout={dropout} does nothing with num_layers=1: it drops the outputs of all layers "
            "but the last",
        )


def _check_flags(**flags: object) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be a bool, got {type(value).__name__}")


def _check_sizes(**sizes: object) -> None:
    for name, value in sizes.items():
        if not isinstance(value, int):
            raise TypeError(f"{name} must be an int, got {type(value).__name__}")
        if value <= 0:
            raise ValueError(f"{name} must be positive, got {value}")
