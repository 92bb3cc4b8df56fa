"""Threads of the compiler's, which XLA does without."""

__all__ = ["is_available"]


def is_available() -> bool:
    """``False``: XLA has threads of its own; see `flambeau.set_num_threads`."""
    return False
