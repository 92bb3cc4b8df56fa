"""How tensors are pickled for other processes: as they always are."""

from multiprocessing.reduction import ForkingPickler

__all__ = ["ForkingPickler", "init_reductions"]


def init_reductions() -> None:
    """Accepted for PyTorch's sake: tensors can be pickled as they are."""
