"""Options of `LinearCrossEntropyLoss` that save memory."""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.core.support import dtype as dtypes
from flambeau.core.values.tensor import Tensor

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("auto", "accurate", "balanced", "compact")
_ACCUMULATORS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Options to compute scores for a part of the batch at a time, to save memory.

    Attributes:
        allow_retain_graph: Accepted; a graph can always be retained.
        batch_chunk_size: The number of samples computed at a time.
        chunking_method: How to choose the number of samples: ``"auto"``; ``"aspect_ratio"``, for
            scores that take as much memory as the input, or ``"aspect_ratio:n"`` for a fraction of
            it; or ``None``, for ``batch_chunk_size``.
        acc_policy: ``"auto"``, ``"accurate"``, ``"balanced"`` or ``"compact"``; accepted, but XLA
            decides which values to keep and the precision of sums.
        acc_dtype: A floating point dtype; accepted likewise.

    Raises:
        ValueError: A value is unknown.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: dtypes.dtype | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"acc_policy must be one of {_POLICIES}, got {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto") and not _is_aspect_ratio(
            self.chunking_method
        ):
            raise ValueError(
                "chunking_method must be 'auto', 'aspect_ratio', 'aspect_ratio:n' with a positive "
                f"n, or None, got {self.chunking_method!r}"
            )
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be a positive integer or None, got {size!r}")
        if self.acc_dtype is not None and self.acc_dtype not in _ACCUMULATORS:
            raise ValueError(
                f"acc_dtype must be one of {_ACCUMULATORS} or None, got {self.acc_dtype!r}"
            )

    def _chunk_for(self, count: int, in_features: int, classes: int, input: Tensor) -> int:
        """The number of samples to compute at a time.

        Raises:
            ValueError: Two different sizes are asked for.
        """
        method = self.chunking_method
        if method == "auto":
            # On a CPU half precision is computed as float32, so small parts save nothing.
            half_on_cpu = input.dtype.itemsize == 2 and input.is_cpu
            method = "aspect_ratio" if half_on_cpu else "aspect_ratio:2"
            method = None if self.batch_chunk_size is not None else method
        if method is None:
            return max(1, min(self.batch_chunk_size or count, count))
        as_wide_as_the_input = -(-count // -(-classes // in_features))
        power = 1 << (as_wide_as_the_input - 1).bit_length()
        found = max(1, min(power // _factor(method), count))
        if self.batch_chunk_size not in (None, found):
            raise ValueError(
                f"chunking_method={method!r} gives parts of {found} samples, but "
                f"batch_chunk_size={self.batch_chunk_size}; pass only one of them"
            )
        return found


def _factor(method: str) -> int:
    return int(method.partition(":")[2] or "1")


def _is_aspect_ratio(method: str) -> bool:
    name, _, factor = method.partition(":")
    return name == "aspect_ratio" and (factor or "1").isdigit() and int(factor or "1") > 0
