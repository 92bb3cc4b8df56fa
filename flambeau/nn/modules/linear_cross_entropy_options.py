"""Options of `LinearCrossEntropyLoss` that save memory."""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.core import dtype as dtypes
from flambeau.core.tensor import Tensor

__all__ = ["LinearCrossEntropyOptions"]

_POLICIES = ("auto", "accurate", "balanced", "compact")
_ACCUMULATORS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Lets scores be computed for a part of the batch at a time, so that they never exist whole.

    Attributes:
        allow_retain_graph: Accepted; a graph can always be kept here.
        batch_chunk_size: How many samples are computed at a time.
        chunking_method: How to find that number: ``"auto"``; ``"aspect_ratio"``, so many that
            their scores take as much memory as the input, or ``"aspect_ratio:n"`` for a part of
            that; or ``None``, for ``batch_chunk_size``.
        acc_policy: ``"auto"``, ``"accurate"``, ``"balanced"`` or ``"compact"``; accepted, since XLA
            decides what it keeps and adds up in which precision.
        acc_dtype: A floating point dtype; accepted likewise.

    Raises:
        ValueError: A value is none of these.
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
            # On a CPU half precision is computed as float32, so that small parts do not pay.
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
