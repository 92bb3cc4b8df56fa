"""Versions that compare with strings, tuples and numbers, like `torch.__version__`."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]


class TorchVersion(str):
    """A version as text that compares by its numbers: ``version >= "2.1"``, ``version >= (2, 1)``.

    Suffixes, as in ``2.13.0+flambeau`` and ``2.14.0.dev1``, are ignored.

    >>> from flambeau.as_torch.torch_version import TorchVersion
    >>> TorchVersion("2.13.0+flambeau") >= "2.9"
    True
    >>> TorchVersion("2.13.0+flambeau") < (2, 14)
    True
    >>> TorchVersion("2.13.0+flambeau") == "2.13"
    True
    """

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        ours, theirs = _aligned(self, other)
        return ours < theirs

    def __le__(self, other: Any) -> bool:
        ours, theirs = _aligned(self, other)
        return ours <= theirs

    def __gt__(self, other: Any) -> bool:
        ours, theirs = _aligned(self, other)
        return ours > theirs

    def __ge__(self, other: Any) -> bool:
        ours, theirs = _aligned(self, other)
        return ours >= theirs

    def __eq__(self, other: object) -> bool:
        try:
            ours, theirs = _aligned(self, other)
        except (TypeError, ValueError):
            return False
        return ours == theirs

    def __hash__(self) -> int:
        return str.__hash__(self)


def _aligned(version: str, other: Any) -> tuple[list[int], list[int]]:
    """The numbers of two versions, padded with zeros to the same length."""
    ours, theirs = _numbers(version), _numbers(other)
    length = max(len(ours), len(theirs))
    return [*ours, *[0] * (length - len(ours))], [*theirs, *[0] * (length - len(theirs))]


def _numbers(version: Any) -> list[int]:
    if isinstance(version, tuple | list):
        return [int(each) for each in version]
    found = re.match(r"v?(\d+(?:\.\d+)*)", str(version))
    if found is None:
        raise ValueError(f"{version!r} is not a version; write one such as '2.1' or (2, 1)")
    return [int(each) for each in found[1].split(".")]
