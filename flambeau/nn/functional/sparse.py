"""Tables indexed by integers."""

from __future__ import annotations

from flambeau.core.modes import no_grad
from flambeau.core.tensor import Tensor
from flambeau.ops import embedding as ops

__all__ = ["embedding"]


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of ``weight`` that ``input`` names.

    Args:
        input: Integers, any shape.
        weight: ``(num_embeddings, embedding_dim)``.
        padding_idx: A row that takes no gradient; negative counts from the end.
        max_norm: First scale the named rows of ``weight`` down to this norm, in place.
        norm_type: Which norm ``max_norm`` means.
        scale_grad_by_freq: Divide the gradient of each row by how often ``input`` names it.
        sparse: Accepted; gradients are dense.

    Returns:
        ``(*input.shape, embedding_dim)``.

    Raises:
        ValueError: ``padding_idx`` is no row of ``weight``.
        RuntimeError: ``input`` is no integer tensor, or ``weight`` is no matrix.
    """
    if padding_idx is not None:
        rows = weight.size(0)
        if not -rows <= padding_idx < rows:
            raise ValueError(
                f"embedding(): padding_idx must be a row of the weight, from {-rows} to "
                f"{rows - 1}, got {padding_idx}"
            )
        padding_idx %= rows
    if max_norm is not None:
        with no_grad():
            weight._store(ops.embedding_renorm(input, weight, max_norm, norm_type)._read())
    return ops.embedding(input, weight, padding_idx, scale_grad_by_freq)
