"""Embeddings whose gradient has only the rows that were looked up."""

from __future__ import annotations

from typing import Any

from flambeau.core.kernels.lazy_cotangent import value_of
from flambeau.core.support.modes import modes, no_grad
from flambeau.core.tape import anomaly, engine
from flambeau.core.tape import nodes as tape
from flambeau.core.tape.node import Edge, Node
from flambeau.core.values.inside import transformation
from flambeau.core.values.tensor import PLAIN_TYPES, Tensor
from flambeau.ops.neural import embedding as dense
from flambeau.sparse.creation import to_dense
from flambeau.sparse.tensor import SparseTensor

__all__: list[str] = []


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None, scale_grad_by_freq: bool
) -> Tensor:
    """See `nn.functional.embedding`, with ``sparse=True``.

    If JAX differentiates, or if gradients are recorded, the gradient is dense.
    """
    is_plain = type(input) in PLAIN_TYPES and type(weight) in PLAIN_TYPES
    is_recorded = modes.grad_enabled and weight.requires_grad and not weight.is_meta
    is_transformed = transformation() is not None or modes.dual is not None
    if not (is_plain and is_recorded) or is_transformed or modes.autocast is not None:
        return dense.embedding(input, weight, padding_idx, scale_grad_by_freq)
    if scale_grad_by_freq:
        raise RuntimeError(
            "embedding(): scale_grad_by_freq is not supported with sparse gradients; give "
            "sparse=False"
        )
    with no_grad():
        found = dense.embedding(input, weight, padding_idx)
        places = input.detach().clone()
    edge = tape.edge_of(weight)
    found._grad_fn = EmbeddingBackward0(edge, places, padding_idx, tuple(weight.shape))
    found._requires_grad = True
    return found


class EmbeddingBackward0(Node):
    """The node of an embedding with a sparse gradient.

    Attributes:
        input: The rows that were looked up; None after they were freed.
        padding_idx: The row that takes no gradient.
        shape: The shape of the weight.
    """

    __slots__ = ("input", "padding_idx", "shape")

    def __init__(
        self, edge: Edge, input: Tensor, padding_idx: int | None, shape: tuple[int, ...]
    ) -> None:
        super().__init__((edge,))
        self.input: Tensor | None = input
        self.padding_idx: int | None = padding_idx
        self.shape: tuple[int, ...] = shape

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`."""
        (cotangent,) = cotangents
        if self.input is None:
            raise tape.freed_error(self)
        if cotangent is None:
            return (None,)
        given = cotangent if as_tensors else Tensor._wrap(value_of(cotangent))
        rows = self.input.reshape(-1)
        values = given.reshape(-1, *self.shape[1:])
        if self.padding_idx is not None:
            values = values * (rows != self.padding_idx).unsqueeze(-1).to(values.dtype)
        if not keep:
            self.input = None
        gradient = SparseTensor.of(rows.long().unsqueeze(0), values, self.shape)
        if not as_tensors and self._goes_to_a_leaf():
            return (gradient,)
        whole = to_dense(gradient)
        return (whole if as_tensors else whole._read(),)

    def _goes_to_a_leaf(self) -> bool:
        """Whether the gradient is added to the ``.grad`` of a leaf, with no other reader."""
        (edge,) = self.edges
        run = engine.running()
        return (
            edge is not None
            and edge[0].accumulates
            and not edge[0].has_hooks()
            and not self.post_hooks
            and not anomaly.enabled
            and type(run) is engine.Backward
            and not run.captures
        )
