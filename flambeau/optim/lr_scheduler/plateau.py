"""A scheduler that reduces the rate when a metric stops improving."""

from __future__ import annotations

import math
from typing import Any, Literal, SupportsFloat

from flambeau.optim.lr_scheduler.base import (
    LRScheduler,
    assign,
    check_optimizer,
    current,
    refuse_in_trace,
    warn_about_epoch,
)
from flambeau.optim.lr_scheduler.undoing import whole
from flambeau.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """The rate times ``factor`` when a value has not improved for more than ``patience`` epochs.

    Args:
        optimizer: The optimizer whose learning rates are set.
        mode: ``"min"`` for a value that should decrease, ``"max"`` for one that should increase.
        factor: The factor, below 1.
        patience: The number of epochs without improvement that are tolerated.
        threshold: The minimum difference from the best value that counts as an improvement.
        threshold_mode: ``"rel"`` for a fraction of the best value, ``"abs"`` for a difference.
        cooldown: The number of epochs after a reduction in which nothing is counted.
        min_lr: The lowest rate, for all groups or one for each.
        eps: The smallest change of a rate that is applied.

    Raises:
        ValueError: ``factor`` is not below 1, a mode is unknown, or the number of lowest rates is
            not that of the groups.
        TypeError: ``optimizer`` is not an `Optimizer`.
    """

    default_min_lr: Any

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"factor must be below 1.0, got {factor}")
        check_optimizer(optimizer)
        self.factor = factor
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if isinstance(min_lr, list | tuple):
            if len(min_lr) != count:
                raise ValueError(
                    f"min_lr has {len(min_lr)} values, but the optimizer has {count} groups"
                )
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * count
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = current(optimizer)
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode must be 'min' or 'max', got {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold_mode must be 'rel' or 'abs', got {threshold_mode!r}")
        self.mode_worse: float = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether a recent reduction suspends the count."""
        return self.cooldown_counter > 0

    def _is_better(self, value: float, best: float) -> bool:
        if self.threshold_mode == "rel":
            down, up = best * (1.0 - self.threshold), best * (self.threshold + 1.0)
        else:
            down, up = best - self.threshold, best + self.threshold
        return value < down if self.mode == "min" else value > up

    @whole
    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:
        """Record an epoch's value, and reduce the rates if necessary.

        Args:
            metrics: The value.
            epoch: The number of the epoch; deprecated.
        """
        refuse_in_trace(self.optimizer)
        value = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warn_about_epoch()
        self.last_epoch: int = epoch
        if self._is_better(value, self.best):
            self.best: float = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter: int = self.cooldown
            self.num_bad_epochs: int = 0
        self._last_lr = current(self.optimizer)

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"the optimizer has {len(groups)} parameter groups, but it had "
                    f"{len(self.min_lrs)} when this scheduler was made with a list of lowest "
                    "rates; set the scheduler's min_lrs to one rate for each group"
                )
            self.min_lrs: list[float | int] = [self.default_min_lr] * len(groups)
        for group, lowest in zip(groups, self.min_lrs, strict=True):
            before = float(group["lr"])
            rate = max(before * self.factor, lowest)
            if before - rate > self.eps:
                assign(group, "lr", rate)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that `state_dict` returned."""
        super().load_state_dict(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
