"""Limits on the memory and time that a file may claim."""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.checkpoint.errors import LimitExceededError

__all__ = ["Budget", "Limits"]

#: The bytes of a tensor besides its elements, and of another handle on it.
TENSOR, HANDLE = 3072, 512

_TIMES_THE_FILE = 10
_AT_LEAST = 128 << 20


@dataclass(frozen=True)
class Limits:
    """Bounds on the content that a file may claim, against tiny files of huge content.

    Attributes:
        memory: The maximum size of the content in bytes, as an estimate: the elements of tensors,
            inflated entries of archives, containers and their members. By default ten times the
            size of the file and 128 MiB more. Legitimate files of many small dicts take twenty
            times their size, and compressed files can exceed any factor.
        depth: How deep tuples may be nested in each other. Python computes the hash of a tuple on
            the C stack, and crashes at a stack overflow.

    >>> import io
    >>> import flambeau
    >>> from flambeau.checkpoint import Limits
    >>> file = io.BytesIO()
    >>> flambeau.save(flambeau.ones(100), file)
    >>> flambeau.load(io.BytesIO(file.getvalue()), limits=Limits(memory=10_000)).sum()
    tensor(100.)
    """

    memory: int | None = None
    depth: int = 100

    def budget(self, file_size: int) -> Budget:
        """The bytes that a file of this size may claim."""
        if self.memory is not None:
            return Budget(self.memory)
        return Budget(_TIMES_THE_FILE * file_size + _AT_LEAST)


class Budget:
    """Counts the memory that the content of one file claims.

    Args:
        total: The number of bytes available.
    """

    __slots__ = ("left", "total")

    left: int

    def __init__(self, total: int) -> None:
        self.total: int = total
        self.left = total

    def take(self, count: int, claim: str = "") -> None:
        """Count ``count`` bytes, before they are allocated.

        Raises:
            LimitExceededError: Fewer are left.
        """
        self.left -= count
        if self.left < 0:
            cause = (
                f"{claim} takes {count:,} bytes, so that" if claim else "its objects are so many"
            )
            joint = "" if claim else " that"
            raise LimitExceededError(
                f"{cause}{joint} the content takes more than the {self.total:,} bytes that it may; "
                "if you trust the file, give limits=Limits(memory=...)"
            )
