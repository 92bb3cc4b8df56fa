"""Apple's GPUs, which no device of flambeau stands for."""

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """``False``: there is no device ``"mps"``."""
    return False


def is_built() -> bool:
    """``False``: there is no device ``"mps"``."""
    return False
