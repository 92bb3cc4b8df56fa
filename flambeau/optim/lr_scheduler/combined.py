"""Schedulers composed of schedulers: in sequence, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from flambeau.optim.lr_scheduler.base import (
    LRScheduler,
    assign,
    current,
    refuse_in_trace,
    snapshot,
)
from flambeau.optim.lr_scheduler.plateau import ReduceLROnPlateau
from flambeau.optim.lr_scheduler.undoing import whole
from flambeau.optim.optimizer import Optimizer

# The options of groups that schedulers set.
_SET = ("lr", "momentum", "betas")


class _Combined(LRScheduler):
    """A scheduler that holds others; its state contains theirs."""

    _schedulers: Sequence[LRScheduler]

    def _check(self, schedulers: Sequence[Any], optimizer: Any) -> None:
        name = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            kind = type(scheduler).__name__
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"{name} is made of schedulers, but number {i}, a {kind}, has no optimizer"
                )
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} cannot hold a ReduceLROnPlateau, whose step() needs a value; "
                    f"number {i} is one"
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"all schedulers of a {name} must belong to the same optimizer; number {i}, a "
                    f"{kind}, belongs to another {type(scheduler.optimizer).__name__}"
                )

    def state_dict(self) -> dict[str, Any]:
        """All attributes except the optimizer, with the states of the schedulers."""
        state = super().state_dict()
        state["_schedulers"] = [each.state_dict() for each in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that `state_dict` returned; see `LRScheduler.load_state_dict`."""
        rest = dict(state_dict)
        states = rest.pop("_schedulers")
        with self._rates_again():
            groups = self.optimizer.param_groups
            before = [{key: snapshot(group.get(key)) for key in _SET} for group in groups]
            for scheduler, state in zip(self._schedulers, states, strict=True):
                scheduler.load_state_dict(state)
            # The inner schedulers may have set the rates of their own last steps.
            for group, options in zip(groups, before, strict=True):
                for key in [key for key in _SET if key in group]:
                    assign(group, key, options[key])
            vars(self).update(rest)


class SequentialLR(_Combined):
    """One scheduler after another, each starting at a milestone.

    Args:
        optimizer: The optimizer whose learning rates are set.
        schedulers: The schedulers, in order, all of this optimizer.
        milestones: The epochs at which the second and later ones take over.
        last_epoch: The number of the last step when training is resumed.

    Raises:
        ValueError: There is no scheduler, a scheduler belongs to another optimizer or is a
            `ReduceLROnPlateau`, or the number of milestones is not one less than that of
            schedulers.
        TypeError: One of ``schedulers`` is not a scheduler.
    """

    last_epoch: int

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers:
            raise ValueError("SequentialLR needs at least one scheduler, got none")
        self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "SequentialLR needs one milestone less than schedulers, got "
                f"{len(milestones)} milestones and {len(schedulers)} schedulers"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each scheduler has made its first step already; all except one too early.
        for group in optimizer.param_groups:
            assign(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Undo the initial step of each scheduler.

        Args:
            sched: A scheduler, by default this one.
        """
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for each in scheduler._schedulers:
                self.recursive_undo(each)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    @whole
    def step(self) -> None:
        """Step the active scheduler."""
        refuse_in_trace(self.optimizer)
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def _set_again(self) -> None:
        self._schedulers[bisect_right(self._milestones, self.last_epoch)]._set_again()
        super()._set_again()


class ChainedScheduler(_Combined):
    """Several schedulers that all step, each starting from the rates of the previous one.

    Args:
        schedulers: The schedulers, all of one optimizer.
        optimizer: The optimizer, by default the first scheduler's.

    Raises:
        ValueError: There is no scheduler, a scheduler belongs to another optimizer or is a
            `ReduceLROnPlateau`.
        TypeError: One of ``schedulers`` is not a scheduler.
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler needs at least one scheduler, got none")
        owner = optimizer or getattr(schedulers[0], "optimizer", None)
        self._check(schedulers, owner)
        assert owner is not None
        self._schedulers = schedulers
        self.optimizer = owner
        self._last_lr = current(owner)

    @whole
    def step(self) -> None:
        """Step each scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = current(self.optimizer)

    def _set_again(self) -> None:
        for scheduler in self._schedulers:
            scheduler._set_again()
        super()._set_again()
