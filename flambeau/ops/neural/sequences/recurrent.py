"""Recurrent layers: all steps of a batch of sequences, through all layers, as one operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.kinds import Array, Arrays
from flambeau.core.operators.op import function, op
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import needs_floating, same_dtype
from flambeau.ops.common.known import is_unknown
from flambeau.ops.draws.sampling import keep_mask
from flambeau.ops.factories.from_data import from_numpy
from flambeau.ops.native import recurrence as native
from flambeau.ops.neural.sequences.packed_sequences import Layout, pack_steps, pad_steps, rounded
from flambeau.ops.neural.sequences.recurrence import Recurrent, at_all_steps, recurrence
from flambeau.ops.neural.sequences.recurrent_cells import CELLS

__all__ = [
    "gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh",
    "rnn_tanh_cell",
]  # fmt: skip

_NODES = {
    "rnn_tanh": "RnnTanhBackward0", "rnn_relu": "RnnReluBackward0", "lstm": "LstmBackward0",
    "gru": "GruBackward0",
}  # fmt: skip


@op(name="recurrent", keep_residuals=True, node=lambda kind, *others: _NODES[kind])
def recurrent_layers(
    input: Array,
    states: Arrays,
    weights: Arrays,
    dropout_masks: Arrays,
    lengths: Array | None,
    kind: str,
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
    dropout_p: float,
) -> Array:
    """The hidden states of the last layer at all steps, and the final states of all layers.

    Args:
        input: ``(T, N, features)``, or ``(N, T, features)`` with ``batch_first``.
        states: ``(layers * directions, N, H)`` each; none for zeros.
        weights: For each layer and direction: from the input, from the hidden state, their two
            biases, and a projection.
        dropout_masks: For each layer except the last, ``(T, N, directions * H)``, true where its
            output is kept; or none.
        lengths: ``(N,)``, the number of steps of each sequence; ``None`` for all.
        kind: A key of `CELLS`.
        has_biases: Whether the weights include biases.
        num_layers: The number of layers.
        bidirectional: Whether each layer also runs from the end to the beginning.
        batch_first: See ``input``; it holds for the output too.
        dropout_p: The dropout probability of the masks.

    Returns:
        ``(T, N, directions * H)``, or with the first two swapped; and the final states.
    """
    directions = 2 if bidirectional else 1
    per_direction = len(weights) // (num_layers * directions)
    output = jnp.swapaxes(input, 0, 1) if batch_first and input.ndim == 3 else input
    _check_operands(kind, output, states, weights)
    active = None
    if lengths is not None:
        active = jnp.arange(output.shape[0])[:, None, None] < lengths[None, :, None]
    last: list[Any] = []
    for layer in range(num_layers):
        found = []
        for direction in range(directions):
            number = layer * directions + direction
            own = weights[number * per_direction : (number + 1) * per_direction]
            if states:
                first = tuple(each[number] for each in states)
            else:
                first = _zeros(kind, output, own[1])
            steps, end = _one_direction(
                kind, output, first, own, active, has_biases, direction == 1, batch_first
            )
            found.append(steps)
            last.append(end)
        output = jnp.concatenate(found, -1) if bidirectional else found[0]
        if dropout_masks and layer < num_layers - 1:
            factor = 0.0 if dropout_p == 1 else 1.0 / (1.0 - dropout_p)
            output = output * jnp.where(dropout_masks[layer], factor, 0.0).astype(output.dtype)
    if batch_first:
        output = jnp.swapaxes(output, 0, 1)
    return output, *(jnp.stack(each) for each in zip(*last, strict=True))


def _one_direction(
    kind: str,
    input: Any,
    first: tuple[Any, ...],
    weights: Sequence[Any],
    active: Any,
    has_biases: bool,
    is_reverse: bool,
    batch_first: bool,
) -> tuple[Any, tuple[Any, ...]]:
    """The hidden states of all steps of one layer in one direction, and the final states."""
    by_input, by_hidden, *others = weights
    biases = others[:2] if has_biases else ()
    projection = others[-1] if len(weights) in (3, 5) else None
    _check_sizes(kind, input, by_input, by_hidden, projection)
    if native.takes(kind, input, active, projection):
        bias = biases[0] + biases[1] if biases else None
        return native.lstm(
            _plain_lstm, input, first, by_input, by_hidden, bias,
            is_reverse=is_reverse, batch_first=batch_first,
        )  # fmt: skip
    gates, inner = at_all_steps(input, by_input.T), None
    if biases and kind == "gru":
        # The reset gate scales the hidden state's bias too.
        gates, inner = gates + biases[0], biases[1]
    elif biases:
        # Added in the loop, it needs no pass over the contributions of all steps.
        inner = biases[0] + biases[1]
    projection = None if projection is None else projection.T
    return recurrence(
        kind, is_reverse, gates, first, Recurrent(by_hidden.T, inner, projection), active
    )


def _plain_lstm(
    input: Any, hidden: Any, memory: Any, by_input: Any, by_hidden: Any, bias: Any, is_reverse: bool
) -> tuple[Any, Any, Any]:
    """The results of the native kernel, computed by XLA's loops."""
    gates, recurrent = at_all_steps(input, by_input.T), Recurrent(by_hidden.T, bias, None)
    outputs, last = recurrence("lstm", is_reverse, gates, (hidden, memory), recurrent, None)
    return outputs, *last


def _zeros(kind: str, input: Any, by_hidden: Any) -> tuple[Any, ...]:
    """The initial states; with a projection, hidden states are narrower than memories."""
    sizes = (by_hidden.shape[1], by_hidden.shape[0] // CELLS[kind].gates)
    samples = input.shape[1]
    return tuple(jnp.zeros((samples, size), input.dtype) for size in sizes[: CELLS[kind].states])


def _check_operands(kind: str, input: Any, states: Sequence[Any], weights: Sequence[Any]) -> None:
    needs_floating(kind, input)
    same_dtype(kind, input, *states, *weights)
    if input.ndim != 3:
        raise RuntimeError(f"{kind}() takes an input of 3 dimensions, got {list(input.shape)}")
    if not input.shape[0]:
        raise RuntimeError(f"{kind}() needs at least one step, got shape {list(input.shape)}")


def _check_sizes(kind: str, input: Any, weight: Any, recurrent: Any, projection: Any) -> None:
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            f"{kind}(): an input of {input.shape[-1]} features does not fit a weight of shape "
            f"{list(weight.shape)}"
        )
    if weight.shape[0] != recurrent.shape[0]:
        raise RuntimeError(
            f"{kind}(): weights of shapes {list(weight.shape)} and {list(recurrent.shape)} must "
            "have as many rows"
        )
    if projection is not None and kind != "lstm":
        raise RuntimeError(f"{kind}() has no projections, only lstm() does")


def run_layers(
    kind: str,
    input: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool = False,
    layout: Layout | None = None,
) -> tuple[Tensor, ...]:
    """`recurrent_layers`, with dropout between the layers.

    Args:
        kind: A key of `CELLS`.
        input: See `recurrent_layers`.
        states: As there.
        weights: As there.
        has_biases: As there.
        num_layers: As there.
        dropout: The probability of dropping an element of the output of each layer except the last.
        train: Whether to apply dropout.
        bidirectional: As there.
        batch_first: As there.
        layout: The lengths of the sequences; ``None`` if all have the length of the batch.

    Returns:
        The output, in the layout of ``input``, and the final states.
    """
    weights = list(weights)
    if len(weights) % (num_layers * (2 if bidirectional else 1)):
        raise RuntimeError(
            f"{kind}() got {len(weights)} weights for {num_layers} layers, bidirectional="
            f"{bidirectional}"
        )
    masks: list[Tensor] = []
    if train and dropout > 0 and num_layers > 1:
        size = weights[1].size(1) * (2 if bidirectional else 1)
        masks = [
            _keep_mask(input, size, dropout, batch_first, layout) for _ in range(num_layers - 1)
        ]
    static = (kind, has_biases, num_layers, bidirectional, batch_first, dropout if masks else 0.0)
    lengths = None if layout is None else layout.lengths
    return recurrent_layers(input, states, weights, masks, lengths, *static)


def _keep_mask(
    input: Tensor, size: int, dropout: float, batch_first: bool, layout: Layout | None
) -> Tensor:
    """The mask of kept elements of a layer's output ``(T, N, size)``."""
    if layout is not None and layout.known is not None and not is_unknown(input._read()):
        # The numbers equal PyTorch's, which it draws for packed steps.
        kept = keep_mask((layout.count(), size), dropout, device=input.device)
        return from_numpy(layout.spread(np.asarray(kept._read()), input.size(0)))
    steps = (input.size(1), input.size(0)) if batch_first else tuple(input.shape[:-1])
    return keep_mask((*steps, size), dropout, device=input.device)


def _run_packed(
    kind: str, data: Tensor, batch_sizes: Tensor, states: Sequence[Tensor], **options: Any
) -> tuple[Tensor, ...]:
    """`run_layers` on packed steps, sorted by length."""
    batch = states[0].size(1) if states else None
    layout = Layout.of_sizes(batch_sizes, None, None, batch, data.device)
    batch, steps = layout.lengths.size(0), rounded(batch_sizes.size(0))
    batch_sizes = batch_sizes.to(data.device)
    padded = pad_steps(data, batch_sizes, None, batch, steps)
    output, *last = run_layers(kind, padded, states, layout=layout, **options)
    return pack_steps(output, batch_sizes, None, data.size(0)), *last


def _whole(kind: str) -> Callable[..., tuple[Tensor, ...]]:
    @function
    def layers(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        names = ["input", "hx", "params", *_OPTIONS, "batch_first"]
        # The second argument of packed sequences is their batch sizes.
        if "batch_sizes" in kwargs or "data" in kwargs or _is_packed(args):
            names = ["data", "batch_sizes", "hx", "params", *_OPTIONS]
        given = dict(zip(names, args, strict=False)) | kwargs
        missing = [name for name in names if name not in given]
        if missing or len(args) > len(names) or len(given) > len(names):
            raise TypeError(f"{kind}() takes the arguments {', '.join(names)}")
        first = given["data" if "data" in given else "input"]
        states = given["hx"] if kind == "lstm" else (given["hx"],)
        if kind == "lstm" and len(states) != 2:
            raise RuntimeError(f"lstm() takes a first state of 2 tensors, got {len(states)}")
        options = {name: given[name] for name in _OPTIONS} | {"weights": given["params"]}
        if "batch_sizes" in given:
            return _run_packed(kind, first, given["batch_sizes"], states, **options)
        return run_layers(kind, first, states, batch_first=given["batch_first"], **options)

    layers.__name__ = layers.__qualname__ = kind
    layers.__doc__ = f"""`nn.{_LAYERS[kind]}` as a function, under the arguments PyTorch has.

    ``{kind}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
    batch_first)``, or for packed sequences ``{kind}(data, batch_sizes, hx, params, has_biases,
    num_layers, dropout, train, bidirectional)``. ``hx`` is the first state, for an LSTM a pair;
    ``params`` are the weights in the order of the layer's ``_flat_weights``.

    Returns:
        The output, and the last state or states.
    """
    return layers


_LAYERS = {"rnn_tanh": "RNN", "rnn_relu": "RNN", "lstm": "LSTM", "gru": "GRU"}
_OPTIONS = ["has_biases", "num_layers", "dropout", "train", "bidirectional"]


def _is_packed(args: tuple[Any, ...]) -> bool:
    return len(args) > 3 and isinstance(args[3], list | tuple)


lstm: Callable[..., Any] = _whole("lstm")
gru: Callable[..., Any] = _whole("gru")
rnn_tanh: Callable[..., Any] = _whole("rnn_tanh")
rnn_relu: Callable[..., Any] = _whole("rnn_relu")


@op(node=lambda kind: f"{_NODES[kind][:-9]}CellBackward0")
def _cell(
    input: Array,
    states: Arrays,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None,
    b_hh: Array | None,
    kind: str,
) -> Array:
    name = f"{kind}_cell"
    same_dtype(name, input, *states, w_ih, w_hh)
    _check_cell(name, input, states, w_ih, w_hh)
    cell = CELLS[kind]
    hidden = states[0] @ w_hh.T
    gates = input @ w_ih.T
    if b_ih is not None and b_hh is not None:
        gates, hidden = gates + b_ih, hidden + b_hh
    pre = cell.from_input(gates) + cell.from_hidden(hidden)
    found = cell.step(cell.activate(pre), states)
    return found if len(found) > 1 else found[0]


def _check_cell(name: str, input: Any, states: Sequence[Any], w_ih: Any, w_hh: Any) -> None:
    if input.shape[-1] != w_ih.shape[-1]:
        raise RuntimeError(
            f"{name}(): the input has {input.shape[-1]} features, but input_size is "
            f"{w_ih.shape[-1]}"
        )
    for number, each in enumerate(states):
        if each.shape[:-1] != input.shape[:-1]:
            raise RuntimeError(
                f"{name}(): an input of shape {list(input.shape)} does not go with hidden state "
                f"{number} of shape {list(each.shape)}: their batches differ"
            )
        if each.shape[-1] != w_hh.shape[-1]:
            raise RuntimeError(
                f"{name}(): hidden state {number} has {each.shape[-1]} features, but hidden_size "
                f"is {w_hh.shape[-1]}"
            )


@function
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of an `nn.RNN`: ``tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)``.

    Raises:
        RuntimeError: The sizes do not match, or the dtypes differ.
    """
    return _cell(input, (hx,), w_ih, w_hh, b_ih, b_hh, "rnn_tanh")


@function
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """`rnn_tanh_cell` with a ReLU in place of the hyperbolic tangent."""
    return _cell(input, (hx,), w_ih, w_hh, b_ih, b_hh, "rnn_relu")


@function
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of an `nn.GRU`; see `nn.GRUCell`.

    Raises:
        RuntimeError: The sizes do not match, or the dtypes differ.
    """
    return _cell(input, (hx,), w_ih, w_hh, b_ih, b_hh, "gru")


@function
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an `nn.LSTM` from the states ``hx``; see `nn.LSTMCell`.

    Raises:
        RuntimeError: The sizes do not match, or the dtypes differ.
    """
    return _cell(input, tuple(hx), w_ih, w_hh, b_ih, b_hh, "lstm")
