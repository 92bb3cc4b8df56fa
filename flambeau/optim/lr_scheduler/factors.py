"""Schedulers that multiply the learning rate by a factor of the epoch."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.optim.lr_scheduler.base import LRScheduler, Rate, state_of_function
from flambeau.optim.optimizer import Optimizer

Factor = Callable[[int], float]


class _WithFunctions(LRScheduler):
    """A scheduler with a function of the epoch for each group."""

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1
    ) -> None:
        count = len(optimizer.param_groups)
        self._is_for_all = not isinstance(lr_lambda, list | tuple)
        if not isinstance(lr_lambda, list | tuple):
            lr_lambda = [lr_lambda] * count
        if len(lr_lambda) != count:
            raise ValueError(
                f"{len(lr_lambda)} functions were given for {count} parameter groups; "
                "give one for each, or a single one for all"
            )
        for function in lr_lambda:
            if not callable(function):
                raise TypeError(
                    f"lr_lambda should be a function, but got {type(function).__name__}"
                )
        self.lr_lambdas: list[Factor] = list(lr_lambda)
        super().__init__(optimizer, last_epoch)

    def _take_new_groups(self) -> None:
        super()._take_new_groups()
        more = len(self.optimizer.param_groups) - len(self.lr_lambdas)
        if more > 0 and not self._is_for_all:
            raise ValueError(
                f"lr_lambda has {len(self.lr_lambdas)} functions, but the optimizer has {more} "
                "parameter groups more: append theirs to the scheduler's lr_lambdas"
            )
        self.lr_lambdas = [*self.lr_lambdas, *self.lr_lambdas[-1:] * more]

    def state_dict(self) -> dict[str, Any]:
        """All attributes except the optimizer; for callable objects, their attributes."""
        state = super().state_dict()
        state.pop("_is_for_all")
        return {**state, "lr_lambdas": list(map(state_of_function, self.lr_lambdas))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that `state_dict` returned."""
        rest = dict(state_dict)
        saved = rest.pop("lr_lambdas")
        super().load_state_dict(rest)
        for function, attributes in zip(self.lr_lambdas, saved, strict=True):
            if attributes is not None:
                vars(function).update(attributes)


class LambdaLR(_WithFunctions):
    """γₜ = γ₀ · f(t), with a function f for each group.

    Args:
        optimizer: The optimizer whose learning rates are set.
        lr_lambda: Returns the factor for an epoch; one function for all groups, or a list.
        last_epoch: The number of the last step when training is resumed.

    Raises:
        ValueError: The number of functions is not that of the groups.
        TypeError: One of them cannot be called.

    >>> import flambeau
    >>> from flambeau.optim import SGD, lr_scheduler
    >>> optimizer = SGD([flambeau.zeros(1)], lr=1.0)
    >>> scheduler = lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> optimizer.param_groups[0]["lr"]
    0.5
    """

    def get_lr(self) -> list[Rate]:
        """The initial rates times the functions of the epoch."""
        self._warn_outside_step()
        return [
            rate * function(self.last_epoch)
            for function, rate in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]


class MultiplicativeLR(_WithFunctions):
    """γₜ = γₜ₋₁ · f(t), with a function f for each group.

    Args:
        optimizer: The optimizer whose learning rates are set.
        lr_lambda: Returns the factor for an epoch; one function for all groups, or a list.
        last_epoch: The number of the last step when training is resumed.

    Raises:
        ValueError: The number of functions is not that of the groups.
        TypeError: One of them cannot be called.
    """

    def get_lr(self) -> list[Rate]:
        """The current rates times the functions of the epoch."""
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        return [
            group["lr"] * function(self.last_epoch)
            for function, group in zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        ]


class StepLR(LRScheduler):
    """The rate times ``gamma`` every ``step_size`` epochs.

    Args:
        optimizer: The optimizer whose learning rates are set.
        step_size: The number of epochs between two changes.
        gamma: The factor.
        last_epoch: The number of the last step when training is resumed.
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The current rates, times ``gamma`` at the start of a period."""
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._current()
        return self._times(self.gamma)

    def _get_closed_form_lr(self) -> list[Rate]:
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [rate * factor for rate in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times ``gamma`` at each of some epochs.

    Args:
        optimizer: The optimizer whose learning rates are set.
        milestones: The epochs; one that occurs twice applies twice.
        gamma: The factor.
        last_epoch: The number of the last step when training is resumed.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones: Counter[int] = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The current rates, times ``gamma`` at a milestone."""
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return self._current()
        return self._times(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[Rate]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [rate * self.gamma**passed for rate in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times ``factor`` for the first ``total_iters`` epochs, then the full rate.

    Args:
        optimizer: The optimizer whose learning rates are set.
        factor: The factor, from 0 to 1.
        total_iters: The number of epochs.
        last_epoch: The number of the last step when training is resumed.

    Raises:
        ValueError: ``factor`` is not between 0 and 1.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError(f"factor must be between 0 and 1, got {factor}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The current rates, reduced at the first epoch and restored after the last."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._times(self.factor)
        if self.last_epoch != self.total_iters:
            return self._current()
        return self._times(1.0 / self.factor)

    def _get_closed_form_lr(self) -> list[Rate]:
        over = self.last_epoch >= self.total_iters
        return [rate * (self.factor + over * (1 - self.factor)) for rate in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor that changes linearly.

    Args:
        optimizer: The optimizer whose learning rates are set.
        start_factor: The factor at the first epoch, above 0 and at most 1.
        end_factor: The factor from epoch ``total_iters`` on, from 0 to 1.
        total_iters: The number of epochs of the change.
        last_epoch: The number of the last step when training is resumed.

    Raises:
        ValueError: A factor is out of its range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError(
                f"start_factor must be greater than 0 and at most 1, got {start_factor}"
            )
        if not 0 <= end_factor <= 1.0:
            raise ValueError(f"end_factor must be between 0 and 1, got {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The current rates times the ratio of two consecutive factors."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return self._times(1.0 + rise / before)

    def _get_closed_form_lr(self) -> list[Rate]:
        rise = self.end_factor - self.start_factor
        done = min(self.total_iters, self.last_epoch)
        return [
            rate * (self.start_factor + rise * done / self.total_iters) for rate in self.base_lrs
        ]


class ExponentialLR(LRScheduler):
    """The rate times ``gamma`` at every epoch.

    Args:
        optimizer: The optimizer whose learning rates are set.
        gamma: The factor.
        last_epoch: The number of the last step when training is resumed.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The current rates times ``gamma``."""
        self._warn_outside_step()
        return self._current() if self._is_initial else self._times(self.gamma)

    def _get_closed_form_lr(self) -> list[Rate]:
        return [rate * self.gamma**self.last_epoch for rate in self.base_lrs]


class PolynomialLR(LRScheduler):
    """γₜ = γ₀ (1 − t / total_iters)^power, and 0 from epoch ``total_iters`` on.

    Args:
        optimizer: The optimizer whose learning rates are set.
        total_iters: The number of epochs of the decay.
        power: The exponent.
        last_epoch: The number of the last step when training is resumed.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The current rates times the ratio of two consecutive factors."""
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        now = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._times((now / before) ** self.power)

    def _get_closed_form_lr(self) -> list[Rate]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [rate * (1.0 - done) ** self.power for rate in self.base_lrs]
