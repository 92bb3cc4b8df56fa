"""Helpers of losses: PyTorch's deprecated names of reductions, and its warning about shapes."""

from __future__ import annotations

from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor


def resolved(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the deprecated flags mean, or ``reduction`` if neither is given."""
    if size_average is None and reduce is None:
        return reduction
    found = flagged(size_average, reduce)
    warn(f"size_average and reduce are deprecated; pass reduction={found!r} instead")
    return found


def flagged(size_average: bool | None, reduce: bool | None) -> str:
    """The reduction that the deprecated flags mean; ``None`` stands for true."""
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def warn_of_broadcast(input: Tensor, target: Tensor) -> None:
    """Warn that input and target differ in shape."""
    warn(
        f"a target of shape {list(target.shape)} and an input of shape {list(input.shape)} "
        "differ, and will be broadcast; make them the same",
    )
