"""Questions about Triton, under the names of PyTorch's private module; nothing here uses it."""

__all__ = ["has_triton", "has_triton_package"]


def has_triton() -> bool:
    """``False``: programs are XLA's."""
    return False


def has_triton_package() -> bool:
    """``False``: programs are XLA's."""
    return False
