"""Cosine schedules: continuous, or with warm restarts."""

from __future__ import annotations

import math

from flambeau.optim.lr_scheduler.base import LRScheduler, Rate, refuse_in_trace
from flambeau.optim.lr_scheduler.undoing import whole
from flambeau.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """γₜ = γ_min + (γ₀ − γ_min) (1 + cos(π t / T_max)) / 2.

    From one epoch to the next it multiplies by the ratio of two values, also after another
    scheduler has changed the rate. Source: Loshchilov and Hutter, *SGDR: Stochastic Gradient
    Descent with Warm Restarts* (2016), without the restarts.

    Args:
        optimizer: The optimizer whose learning rates are set.
        T_max: Epochs from the highest rate to the lowest.
        eta_min: The lowest rate.
        last_epoch: The number of the last step when training is resumed.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The current rates multiplied by the ratio of two values of the cosine."""
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The cosine was at its minimum, where the ratio is undefined.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                group["lr"] + (rate - self.eta_min) * rise
                for rate, group in zip(self.base_lrs, self.optimizer.param_groups, strict=True)
            ]
        ratio = self._height(self.last_epoch) / self._height(self.last_epoch - 1)
        return [
            ratio * (group["lr"] - self.eta_min) + self.eta_min
            for group in self.optimizer.param_groups
        ]

    def _height(self, epoch: int) -> float:
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def _get_closed_form_lr(self) -> list[Rate]:
        height = self._height(self.last_epoch)
        return [self.eta_min + (rate - self.eta_min) * height / 2 for rate in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the initial rate to the lowest, repeated with longer periods.

    Source: Loshchilov and Hutter, *SGDR: Stochastic Gradient Descent with Warm Restarts* (2016).

    Args:
        optimizer: The optimizer whose learning rates are set.
        T_0: Epochs of the first period.
        T_mult: The factor between consecutive periods.
        eta_min: The lowest rate.
        last_epoch: The number of the last step when training is resumed.

    Raises:
        ValueError: ``T_0`` or ``T_mult`` is not a whole number of at least 1, or ``eta_min`` no
            number.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value}")
        if not isinstance(eta_min, float | int):
            raise ValueError(
                f"eta_min must be a float or an int, got {eta_min} of type {type(eta_min).__name__}"
            )
        self.T_0 = T_0
        self.T_i: float = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The rates for the current position in the current period."""
        self._warn_outside_step()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (rate - self.eta_min) * height / 2 for rate in self.base_lrs]

    @whole
    def step(self, epoch: float | None = None) -> None:
        """Set the rates for the next epoch, or for a given one, which may be a fraction.

        Args:
            epoch: The epoch; ``step(epoch + batch / batches)`` after every batch makes the rate
                follow the cosine within an epoch.

        Raises:
            ValueError: ``epoch`` is negative.
        """
        refuse_in_trace(self.optimizer)
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._go_to(epoch)
        self.last_epoch: int = math.floor(epoch)
        self._set(self._within_step(self.get_lr))

    def _go_to(self, epoch: float) -> None:
        """Find the period of ``epoch``, and the position in it."""
        if epoch < 0:
            raise ValueError(f"epoch must not be negative, got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            # The first n periods take T_0 (T_multⁿ − 1) / (T_mult − 1) epochs.
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n
