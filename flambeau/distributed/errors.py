"""Errors of communication between processes."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError"]


class DistError(RuntimeError):
    """An error between processes."""


class DistBackendError(DistError):
    """A process did not arrive at a collective in time, or called another one."""


class DistNetworkError(DistError):
    """The other processes cannot be reached."""


class DistStoreError(DistError):
    """A message exchanged through the first process was lost."""
