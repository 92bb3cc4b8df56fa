"""The pickling of tensors for other processes, which needs no registration."""

from multiprocessing.reduction import ForkingPickler

__all__ = ["ForkingPickler", "init_reductions"]


def init_reductions() -> None:
    """Accepted for compatibility: tensors are picklable without it."""
