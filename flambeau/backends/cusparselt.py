"""NVIDIA's library of sparse products, of which there are none here."""

__all__ = ["get_max_alg_id", "is_available", "version"]


def is_available() -> bool:
    """``False``: tensors are dense."""
    return False


def version() -> int | None:
    """``None``."""
    return None


def get_max_alg_id() -> int | None:
    """``None``."""
    return None
