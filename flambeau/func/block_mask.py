"""Attention masks as functions of positions, and the blocks of scores that they leave empty."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.tensor import Tensor
from flambeau.func.vmap import vmap
from flambeau.nn.functional.vision import pad

__all__ = [
    "BlockMask", "and_masks", "create_block_mask", "create_mask", "noop_mask", "or_masks",
]  # fmt: skip

DEFAULT_BLOCK_SIZE = 128
# The block size of a mask without known structure.
LARGE_BLOCK_SIZE = 1 << 30


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """The mask that hides no pair."""
    return batch.new_ones((), dtype=dtypes.bool)


def and_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """The mask that shows a pair if all of these masks do.

    Raises:
        RuntimeError: One cannot be called.
    """
    _require_callable(mask_mods)

    def and_mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = noop_mask(b, h, q_idx, kv_idx)
        for each in mask_mods:
            result = result & each(b, h, q_idx, kv_idx)
        return result

    return and_mask


def or_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """The mask that shows a pair if any of these masks does.

    Raises:
        RuntimeError: One cannot be called.
    """
    _require_callable(mask_mods)

    def or_mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_zeros((), dtype=dtypes.bool)
        for each in mask_mods:
            result = result | each(b, h, q_idx, kv_idx)
        return result

    return or_mask


def _require_callable(mask_mods: tuple[Any, ...]) -> None:
    if not all(map(callable, mask_mods)):
        raise RuntimeError(f"All inputs should be callable mask_mods, got {mask_mods}")


def over_positions(mod: Callable[..., Any], has_score: bool) -> Callable[..., Any]:
    """A function of scalar positions as a function of vectors of batches, heads, queries and keys.

    Args:
        mod: ``mask_mod(b, h, q_idx, kv_idx)``, or ``score_mod(score, b, h, q_idx, kv_idx)``.
        has_score: Whether it is a ``score_mod``.
    """
    mapped = mod
    for place in (3, 2, 1, 0):
        dims = tuple(0 if i == place else None for i in range(4))
        mapped = vmap(mapped, in_dims=((0, *dims) if has_score else dims), out_dims=0)
    return mapped


def positions(shape: Any, device: Any) -> list[Any]:
    """The index vectors of batches, heads, queries and keys."""
    return [ops.arange(size, device=device) for size in shape]


def create_mask(
    mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
    device: Any = None,
) -> Any:  # fmt: skip
    """The pairs that a ``mask_mod`` shows, or that a ``score_mod`` does not set to minus infinity.

    Args:
        mod_fn: ``mask_mod(b, h, q_idx, kv_idx)``, or ``score_mod(score, b, h, q_idx, kv_idx)``.
        B: The size of the batch; None for 1.
        H: The number of heads; None for 1.
        Q_LEN: The number of queries.
        KV_LEN: The number of keys.
        device: The device of the result.

    Returns:
        A tensor of bools, ``(B, H, Q_LEN, KV_LEN)``.
    """
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    places = positions(shape, device)
    if _takes_score(mod_fn):
        scores = over_positions(mod_fn, True)(ops.zeros(shape, device=device), *places)
        return ~ops.isneginf(scores)
    return over_positions(mod_fn, False)(*places)


def _takes_score(mod: Callable[..., Any]) -> bool:
    parameters = inspect.signature(mod).parameters.values()
    count = sum(each.default is inspect.Parameter.empty for each in parameters)
    if count not in (4, 5):
        raise AssertionError(
            "a mask_mod takes (b, h, q_idx, kv_idx), a score_mod also a score before them, but "
            f"{mod} takes {count} arguments"
        )
    return count == 5


def create_block_mask(
    mask_mod: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
    device: Any = None, BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
    _compile: bool = False, separate_full_blocks: bool = True,
) -> BlockMask:  # fmt: skip
    """The attention mask that a function of positions describes.

    Args:
        mask_mod: ``mask_mod(b, h, q_idx, kv_idx)`` returns whether a query attends to a key.
        B: The size of the batch; None for one mask for all.
        H: The number of heads; None for one mask for all.
        Q_LEN: The number of queries.
        KV_LEN: The number of keys.
        device: The device of the result.
        BLOCK_SIZE: The number of queries and keys in a block.
        _compile: Accepted for compatibility.
        separate_full_blocks: Whether full blocks are listed separately.

    Raises:
        AssertionError: ``mask_mod`` takes another number of arguments.

    >>> from flambeau.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 256, 256).sparsity()
    25.0
    """
    if _takes_score(mask_mod):
        raise AssertionError(
            f"create_block_mask requires a mask_mod function of (b, h, q_idx, kv_idx), got "
            f"{mask_mod}, which takes a score too"
        )
    sizes = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = -(-Q_LEN // sizes[0]), -(-KV_LEN // sizes[1])
    padded = pad(mask, [0, columns * sizes[1] - KV_LEN, 0, rows * sizes[0] - Q_LEN])
    blocks = padded.reshape((*mask.shape[:2], rows, sizes[0], columns, sizes[1]))
    counts = blocks.sum((3, 5))
    is_full = counts == sizes[0] * sizes[1]
    full: Any = (None, None)
    partial = counts > 0
    if separate_full_blocks:
        partial, full = partial & ~is_full, _ordered(is_full)
    return BlockMask.from_kv_blocks(
        *_ordered(partial), *full, BLOCK_SIZE=sizes, mask_mod=mask_mod,
        seq_lengths=(Q_LEN, KV_LEN),
    )  # fmt: skip


def _ordered(dense: Any) -> tuple[Any, Any]:
    """The number of blocks in each row, and the column indices, with its blocks' first."""
    dense = dense.to(dtypes.int32)
    columns = ops.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(-1, dtype=dtypes.int32), columns.to(dtypes.int32)


def _dense(counts: Any, columns: Any, width: int) -> Any:
    """The nonempty blocks as 1, the others as 0."""
    is_block = ops.arange(columns.shape[-1], device=columns.device) < counts.unsqueeze(-1)
    numbers = ops.arange(width, device=columns.device)
    found = (columns.unsqueeze(-1) == numbers) & is_block.unsqueeze(-1)
    return found.any(-2).to(dtypes.int32)


def _sliced_mask_mod_error(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask, whose positions differ; set a new one: "
        "sliced.mask_mod = ..."
    )


class BlockMask:
    """An attention mask: the keys that each query attends to.

    `flex_attention` applies ``mask_mod``; the blocks show which parts are empty.

    Attributes:
        kv_num_blocks: For each row of blocks, the number of partial blocks, ``(B, H, rows)``.
        kv_indices: Their columns, first in each row, ``(B, H, rows, columns)``.
        full_kv_num_blocks: The same for full blocks.
        full_kv_indices: Their columns.
        BLOCK_SIZE: The number of queries and keys in a block.
        mask_mod: The function of positions.
        seq_lengths: The numbers of queries and keys.
    """

    _TENSORS = (
        "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks",
        "q_indices", "full_q_num_blocks", "full_q_indices",
    )  # fmt: skip

    seq_lengths: tuple[int, int]
    mask_mod: Any
    kv_num_blocks: Any
    kv_indices: Any
    full_kv_num_blocks: Any
    full_kv_indices: Any
    q_num_blocks: Any
    q_indices: Any
    full_q_num_blocks: Any
    full_q_indices: Any

    def __init__(
        self, seq_lengths: tuple[int, int], kv_num_blocks: Any, kv_indices: Any,
        full_kv_num_blocks: Any = None, full_kv_indices: Any = None, q_num_blocks: Any = None,
        q_indices: Any = None, full_q_num_blocks: Any = None, full_q_indices: Any = None,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_BLOCK_SIZE, DEFAULT_BLOCK_SIZE),
        mask_mod: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        for name, counts, columns in (
            ("kv", full_kv_num_blocks, full_kv_indices), ("q", full_q_num_blocks, full_q_indices),
        ):  # fmt: skip
            if (counts is None) != (columns is None):
                raise AssertionError(
                    f"full_{name}_num_blocks and full_{name}_indices must be given together"
                )
        self.seq_lengths, self.BLOCK_SIZE = seq_lengths, BLOCK_SIZE
        self.mask_mod = noop_mask if mask_mod is None else mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Any, kv_indices: Any, full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None, BLOCK_SIZE: Any = DEFAULT_BLOCK_SIZE,
        mask_mod: Callable[..., Any] | None = None, seq_lengths: Any = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:  # fmt: skip
        """A mask from its blocks by row; the blocks by column are computed."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        sizes = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
        width = kv_indices.shape[-1]
        by_columns: list[Any] = [None] * 4
        if compute_q_blocks:
            by_columns[:2] = _ordered(_dense(kv_num_blocks, kv_indices, width).mT)
            if full_kv_indices is not None:
                by_columns[2:] = _ordered(_dense(full_kv_num_blocks, full_kv_indices, width).mT)
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * sizes[0], width * sizes[1])
        return cls(
            tuple(seq_lengths), kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices,
            *by_columns, BLOCK_SIZE=sizes, mask_mod=mask_mod,
        )  # fmt: skip

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """All fields, in the order of the constructor."""
        sizes = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        return (*lengths, *(getattr(self, name) for name in self._TENSORS), *sizes, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """``(B, H, Q_LEN, KV_LEN)``."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """The number of pairs of queries and keys."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """The percentage of pairs in empty blocks."""
        blocks = self.kv_num_blocks.sum().item()
        if self.full_kv_num_blocks is not None:
            blocks += self.full_kv_num_blocks.sum().item()
        return 100 * (1 - blocks * math.prod(self.BLOCK_SIZE) / self.numel())

    def to_dense(self) -> Any:
        """The nonempty blocks as 1, the others as 0."""
        width = self.kv_indices.shape[-1]
        dense = _dense(self.kv_num_blocks, self.kv_indices, width)
        if self.full_kv_num_blocks is not None:
            dense = dense | _dense(self.full_kv_num_blocks, self.full_kv_indices, width)
        return dense

    def __getitem__(self, index: Any) -> BlockMask:
        index = index if isinstance(index, tuple) else (index,)
        whole = (*index, *[slice(None)] * 3)[:3]
        sizes = self.kv_num_blocks.shape
        kept = tuple(
            slice(i % n, i % n + 1) if isinstance(i, int) and -n <= i < n else i
            for i, n in zip(whole, sizes, strict=False)
        )
        taken = [
            None if each is None else each[kept]
            for each in (getattr(self, name) for name in self._TENSORS[:4])
        ]
        return BlockMask.from_kv_blocks(
            *taken, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=_sliced_mask_mod_error,
            seq_lengths=self.seq_lengths, compute_q_blocks=self.q_indices is not None,
        )  # fmt: skip

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The upper left corner of the mask, for shorter sequences."""
        rows = -(-new_q_len // self.BLOCK_SIZE[0])
        columns = -(-new_kv_len // self.BLOCK_SIZE[1])
        width = self.kv_indices.shape[-1]
        parts = [(self.kv_num_blocks, self.kv_indices)]
        if self.full_kv_indices is not None:
            parts.append((self.full_kv_num_blocks, self.full_kv_indices))
        cut = [_ordered(_dense(*each, width)[..., :rows, :columns]) for each in parts]
        return BlockMask.from_kv_blocks(
            *itertools.chain.from_iterable(cut), BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod, seq_lengths=(new_q_len, new_kv_len),
            compute_q_blocks=self.q_indices is not None,
        )  # fmt: skip

    def to(self, device: Any) -> BlockMask:
        """The same mask on a device."""
        tensors = [getattr(self, name) for name in self._TENSORS]
        moved = [each if each is None else each.to(device) for each in tensors]
        return BlockMask(
            self.seq_lengths, *moved, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod
        )

    def to_string(self, grid_size: Any = (20, 20), limit: int = 4) -> str:
        """A picture of the nonempty blocks; a cell that covers several blocks shows their share.

        Args:
            grid_size: The maximum number of rows and columns; -1 for all.
            limit: The maximum number of masks of a batch.
        """
        dense = self.to_dense()
        rows, columns = dense.shape[-2:]
        most = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        steps = [
            1 if least < 0 else max(1, -(-size // least))
            for size, least in zip((rows, columns), most, strict=True)
        ]
        pictures = []
        for number, batch in enumerate(itertools.product(*map(range, dense.shape[:-2]))):
            if number == limit:
                pictures.append("...\nMore are shown by BlockMask.to_string(limit=N)")
                break
            pictures.append(f"{batch}\n{_picture(dense[batch].tolist(), *steps)}")
        return "\n".join(pictures)

    def __str__(self) -> str:
        head = f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n"
        return f"{head}{self.to_string().strip()}\n)"

    def __repr__(self) -> str:
        lines = [
            f"    {name}={None if each is None else each.shape},"
            for name, each in ((name, getattr(self, name)) for name in self._TENSORS)
        ]
        lines += [
            f"    BLOCK_SIZE={self.BLOCK_SIZE},", f"    shape={self.shape},",
            f"    sparsity={self.sparsity():.2f}%,",
            f"    mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}",
        ]  # fmt: skip
        return "\n".join(["BlockMask(", *lines, ")"])


def _picture(dense: list[list[int]], down: int, right: int) -> str:
    lines = []
    for row in range(0, len(dense), down):
        line = ""
        for column in range(0, len(dense[0]), right):
            part = [each for r in dense[row : row + down] for each in r[column : column + right]]
            line += ("█" if all(part) else "░" if any(part) else " ") * 2
        lines.append(line)
    return "\n".join([*lines, ""])


def whole_mask(query: Tensor) -> BlockMask:
    """The mask that hides no pair, for sequences of any length."""
    ones = ops.ones((1, 1, 1), dtype=dtypes.int32, device=query.device)
    return BlockMask(
        (1, 1), ones, ones.new_zeros((1, 1, 1, 1)),
        BLOCK_SIZE=(LARGE_BLOCK_SIZE, LARGE_BLOCK_SIZE),
    )  # fmt: skip
