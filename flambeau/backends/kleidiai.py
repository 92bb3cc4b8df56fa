"""Arm's library of kernels, which nothing here asks for."""

__all__ = ["is_available"]


def is_available() -> bool:
    """``False``."""
    return False
