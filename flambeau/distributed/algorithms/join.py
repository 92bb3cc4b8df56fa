"""Processes with unequal numbers of batches: those that have finished take part in exchanges."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import flambeau.distributed.collectives as collectives
from flambeau.core.support.warning import warn
from flambeau.distributed.arguments import rank_in, size_of
from flambeau.distributed.work import Work
from flambeau.ops.factories.creation import full

__all__ = ["Join", "JoinHook", "Joinable"]

# Warn a process that has taken part in so many steps of the others.
_MANY = 1000


class JoinHook:
    """The behaviour of a `Joinable` in a process that has finished."""

    def main_hook(self) -> None:
        """Take part in the exchanges of one step of the others; called again and again."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once all processes have finished.

        Args:
            is_last_joiner: Whether this process is one of the last.
        """


class Joinable:
    """An object whose steps exchange tensors; the base of `DistributedDataParallel`.

    Attributes:
        join_context: The `Join` that it is in, if any.
    """

    join_context: Join | None = None

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook for a process that has finished.

        Args:
            **kwargs: Those of `Join`.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no join_hook()")

    @property
    def join_device(self) -> Any:
        """The device of the tensors that `Join` exchanges."""
        raise NotImplementedError(f"{type(self).__name__} defines no join_device")

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        raise NotImplementedError(f"{type(self).__name__} defines no join_process_group")


class Join(contextlib.AbstractContextManager["Join"]):
    """A block in which processes may have unequal numbers of steps.

    A process that leaves the block takes part in the exchanges of the others until all leave it.

    Args:
        joinables: The objects whose steps exchange tensors, in one process group.
        enable: Whether to do anything.
        throw_on_early_termination: Raise an error in all processes once one has finished.
        **kwargs: Arguments of `Joinable.join_hook`.

    Raises:
        ValueError: There is no joinable, or they have several process groups.
        TypeError: One is not a `Joinable`.
        RuntimeError: In the block or at its end, with ``throw_on_early_termination``: a process has
            finished.
    """

    def __init__(
        self,
        joinables: Sequence[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        for each in joinables:
            if not isinstance(each, Joinable):
                raise TypeError(f"joinables must be Joinable objects, got {type(each).__name__}")
        if len({id(each.join_process_group) for each in joinables}) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._joinables = [*joinables]
        self._enable, self._throws = enable, throw_on_early_termination
        self._hooks = [each.join_hook(**kwargs) for each in joinables]
        self._group = joinables[0].join_process_group
        self._device = joinables[0].join_device

    def __enter__(self) -> Join:
        if self._enable:
            for each in self._joinables:
                each.join_context = self
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        for each in self._joinables:
            each.join_context = None
        if not self._enable or kind is not None:
            return
        steps = 0
        while self._count(0):
            if self._throws:
                self._count(0)
                raise RuntimeError(
                    f"Rank {rank_in(self._group)} exhausted all inputs before the others, and "
                    "throw_on_early_termination ends all of them"
                )
            for hook in self._hooks:
                hook.main_hook()
            steps += 1
            if steps == _MANY:
                warn(
                    f"Process {rank_in(self._group)} has finished, and has taken part in {_MANY} "
                    "steps of others; divide the data more evenly"
                )
        for hook in self._hooks:
            hook.post_hook(is_last_joiner=not steps)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Tell the processes that have finished that this one begins a step.

        Called once a step, before its exchanges.

        Returns:
            A `Work` whose result is the number of processes that have not finished; ``None``
            outside of a `Join` block, and if ``joinable`` is not the first of the block.
        """
        context = joinable.join_context
        if context is None or context._joinables[0] is not joinable:
            return None
        count = full((1,), context._count(1), device=context._device)
        if context._throws and context._count(1) < size_of(context._group):
            raise RuntimeError(
                "Detected at least one rank that exhausted inputs, and throw_on_early_termination "
                "ends all of them"
            )
        return Work(result=[count])

    def _count(self, own: int) -> float:
        """The sum of a number over the processes."""
        number = full((1,), float(own), device=self._device)
        collectives.all_reduce(number, group=self._group)
        return float(number.item())
