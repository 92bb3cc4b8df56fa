"""Attention over several concatenated sequences of different lengths."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from flambeau import ops
from flambeau._absent import Absent as _Absent
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]

__getattr__: _Absent = _Absent(__name__)


class AuxRequest(NamedTuple):
    """The optional results of `varlen_attn`.

    Attributes:
        lse: The logarithm of the sum of the scores' exponentials.
    """

    lse: bool = False


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention within each of several sequences, on every device.

    The sequences are padded to ``max_q`` and ``max_k``, and computed by
    `functional.scaled_dot_product_attention` with a mask. The result is differentiable.

    Args:
        query: ``(Tq, Hq, E)``, the concatenated sequences.
        key: ``(Tk, Hkv, E)``.
        value: ``(Tk, Hkv, Ev)``.
        cu_seq_q: The starts of the sequences of queries, and the end of the last one, ``(N + 1,)``;
            integers.
        cu_seq_k: As ``cu_seq_q``, for keys and values.
        max_q: The length of the longest sequence of queries, or more.
        max_k: The same for keys.
        return_aux: The optional results to return.
        scale: The factor of the scores; ``1 / sqrt(E)`` by default.
        window_size: The numbers of keys to the left and to the right that a query attends to,
            counted from the key at the same distance from the end of its sequence; -1 for all.
            ``(-1, 0)`` is causal.
        enable_gqa: Whether several query heads share one head of keys and values.
        seqused_k: The number of keys used in each sequence, ``(N,)``; all by default.
        block_table: Not supported.
        num_splits: Without effect.

    Returns:
        ``(Tq, Hq, Ev)``, zeros for a query without keys; with ``return_aux.lse`` also the
        logarithms, ``(Tq, Hq)``.

    Raises:
        ValueError: A shape does not fit.
        NotImplementedError: There is a ``block_table``.

    >>> import flambeau
    >>> from flambeau.nn.attention.varlen import varlen_attn
    >>> x, starts = flambeau.ones(5, 1, 2), flambeau.tensor([0, 2, 5])
    >>> varlen_attn(x, x, x, starts, starts, 3, 3).shape
    flambeau.Size([5, 1, 2])
    """
    if block_table is not None or cu_seq_k is None:
        raise NotImplementedError(
            "varlen_attn() takes no paged keys: gather the pages of block_table, and give cu_seq_k"
        )
    _check(query, key, value, cu_seq_q, cu_seq_k, enable_gqa)
    queries, is_query = _rows(cu_seq_q, max_q)
    keys, is_key = _rows(cu_seq_k, max_k)
    lengths = cu_seq_k.diff() if seqused_k is None else seqused_k
    mask = _mask(cu_seq_q.diff(), lengths, max_q, max_k, window_size) & is_key[:, None]
    padded = [_padded(query, queries), _padded(key, keys), _padded(value, keys)]
    found = functional.scaled_dot_product_attention(
        *padded, attn_mask=mask[:, None], scale=scale, enable_gqa=enable_gqa
    )
    result = _unpadded(found.transpose(1, 2), queries, is_query, query.shape[0])
    if return_aux is None or not return_aux.lse:
        return result
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    left, right = padded[0], padded[1]
    right = right.repeat_interleave(left.shape[1] // right.shape[1], 1)
    scores = (left.to(dtypes.float32) @ right.to(dtypes.float32).mT) * factor
    lse = ops.where(mask[:, None], scores, -math.inf).logsumexp(-1)
    return result, _unpadded(lse.transpose(1, 2), queries, is_query, query.shape[0])


def varlen_attn_out(
    out: Tensor, query: Tensor, *args: Any, **kwargs: Any
) -> Tensor | tuple[Tensor, Tensor]:
    """`varlen_attn` with the result written to ``out``."""
    found = varlen_attn(query, *args, **kwargs)
    if isinstance(found, tuple):
        return out.copy_(found[0]), found[1]
    return out.copy_(found)


def _check(
    query: Tensor, key: Tensor, value: Tensor, cu_seq_q: Tensor, cu_seq_k: Tensor, gqa: bool
) -> None:
    shapes = ", ".join(str(list(each.shape)) for each in (query, key, value))
    if not (query.ndim == key.ndim == value.ndim == 3):
        raise ValueError(f"varlen_attn(): query, key and value have 3 dimensions, got {shapes}")
    heads, shared = query.shape[1], key.shape[1]
    fits = heads % max(shared, 1) == 0 if gqa else heads == shared
    if not fits or value.shape[:2] != key.shape[:2] or query.shape[2] != key.shape[2]:
        raise ValueError(
            f"varlen_attn(): query, key and value of shapes {shapes} do not fit each other; heads "
            "may be shared with enable_gqa=True"
        )
    if cu_seq_q.ndim != 1 or cu_seq_q.shape != cu_seq_k.shape:
        raise ValueError(
            "varlen_attn(): cu_seq_q and cu_seq_k have one dimension, and one length; got shapes "
            f"{list(cu_seq_q.shape)} and {list(cu_seq_k.shape)}"
        )


def _rows(starts: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """For each position of each padded sequence, its row, and whether it has one."""
    places = ops.arange(longest, device=starts.device)
    rows = starts[:-1, None] + places
    return rows, rows < starts[1:, None]


def _mask(
    of_queries: Tensor, of_keys: Tensor, max_q: int, max_k: int, window: tuple[int, int]
) -> Tensor:
    """The keys that each query attends to, ``(N, max_q, max_k)``."""
    keys = ops.arange(max_k, device=of_keys.device)
    own = ops.arange(max_q, device=of_keys.device)[:, None] + (of_keys - of_queries)[:, None, None]
    mask = keys < of_keys[:, None, None]
    left, right = window
    if left >= 0:
        mask = mask & (keys >= own - left)
    if right >= 0:
        mask = mask & (keys <= own + right)
    return mask.expand(-1, max_q, -1)


def _padded(tensor: Tensor, rows: Tensor) -> Tensor:
    """``(N, heads, longest, size)``; padded positions hold arbitrary rows."""
    return tensor[rows.clamp(max=max(tensor.shape[0] - 1, 0))].transpose(1, 2)


def _unpadded(padded: Tensor, rows: Tensor, is_row: Tensor, count: int) -> Tensor:
    """The rows of padded sequences, concatenated."""
    # Padded positions go to one extra row, which is dropped.
    target = ops.where(is_row, rows, count).flatten()
    result = padded.new_zeros(count + 1, *padded.shape[2:])
    return result.index_copy(0, target, padded.flatten(0, 1))[:count]
