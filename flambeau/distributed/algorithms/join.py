"""Processes with unequal numbers of batches: PyTorch's names, which cannot be used here.

All processes of a program of XLA's run it together, so none can go on while another has ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """The part that a process plays for the others when it has no batches left."""

    def main_hook(self) -> None:
        """Called again and again until all processes have run out."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when all processes have run out."""


class Joinable(ABC):
    """An object with a `JoinHook`."""

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook of this object."""


class Join:
    """A block that lets processes train on unequal numbers of batches, which is not supported.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        raise NotImplementedError(
            "Join: a process that has no batches left cannot be replaced, since all processes run "
            "each program together; give every process as many batches as the others, for example "
            "by DistributedSampler(..., drop_last=True) or DataLoader(..., drop_last=True)"
        )
