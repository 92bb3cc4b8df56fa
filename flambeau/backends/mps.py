"""Apple's GPUs, which no device of flambeau stands for."""

__all__ = [
    "get_core_count", "get_name", "is_available", "is_built", "is_macos13_or_newer",
    "is_macos_or_newer",
]  # fmt: skip


def is_available() -> bool:
    """``False``: there is no device ``"mps"``."""
    return False


def is_built() -> bool:
    """``False``: there is no device ``"mps"``."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """``False``: there is no device ``"mps"``, on any version of macOS."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """``False``: there is no device ``"mps"``, on any version of macOS."""
    return False


def get_name() -> str:
    """``""``: there is no device ``"mps"``."""
    return ""


def get_core_count() -> int:
    """0: there is no device ``"mps"``."""
    return 0
