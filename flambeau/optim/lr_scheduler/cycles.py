"""Schedulers that cycle the learning rate between bounds, and momentum inversely."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal

from flambeau.core.support.tracebacks import trimmed
from flambeau.optim.lr_scheduler.base import (
    LRScheduler,
    Rate,
    assign,
    check_optimizer,
    per_group,
    state_of_function,
)
from flambeau.optim.optimizer import Optimizer


class _WithMomentum(LRScheduler):
    """A scheduler that may cycle momentum, or Adam's β₁, as well."""

    cycle_momentum: bool
    use_beta1: bool

    def _prepare_momentum(
        self, optimizer: Optimizer, base: Any, highest: Any, last_epoch: int
    ) -> tuple[list[float], list[float]]:
        """The bounds of momentum for each group; at the start, groups get the upper one."""
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                f"cycle_momentum=True needs an optimizer with momentum or betas, which "
                f"{type(optimizer).__name__} does not have; pass cycle_momentum=False"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        lowest = per_group("base_momentum", optimizer, base)
        largest = per_group("max_momentum", optimizer, highest)
        if last_epoch == -1:
            for group, low, high in zip(optimizer.param_groups, lowest, largest, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return lowest, largest

    def _take_new_groups(self) -> None:
        groups = len(self.optimizer.param_groups)
        if groups != len(self.base_lrs):
            raise ValueError(
                f"{type(self).__name__} has bounds for {len(self.base_lrs)} parameter groups, but "
                f"the optimizer has {groups}: make another scheduler after add_param_group()"
            )

    def _set_again(self) -> None:
        # Momentum follows from the position in the cycle.
        self._within_step(self.get_lr)
        super()._set_again()

    def _set_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_WithMomentum):
    """The rate goes from ``base_lr`` to ``max_lr`` and back, repeatedly.

    Step it after every batch. Source: Smith, *Cyclical Learning Rates for Training Neural Networks*
    (2015).

    Args:
        optimizer: The optimizer whose learning rates are set.
        base_lr: The lower bound, for all groups or one for each.
        max_lr: The upper bound of the first cycle.
        step_size_up: The number of batches of the increase.
        step_size_down: The number of batches of the decrease, by default the same.
        mode: ``"triangular"``: all cycles have the same amplitude; ``"triangular2"``: each has half
            the amplitude of the previous one; ``"exp_range"``: the amplitude is multiplied by
            ``gamma`` at every batch.
        gamma: See ``mode``.
        scale_fn: A function of the cycle, or of the batch, that returns the amplitude instead.
        scale_mode: ``"cycle"`` or ``"iterations"``: the argument of ``scale_fn``.
        cycle_momentum: Cycle momentum inversely, from ``max_momentum`` down and back.
        base_momentum: The lower bound of momentum.
        max_momentum: The upper bound of momentum.
        last_epoch: The number of the last batch when training is resumed.

    Raises:
        ValueError: The mode is unknown, there is no momentum to cycle, or the number of bounds is
            not that of the groups.
        TypeError: ``optimizer`` is not an `Optimizer`.
    """

    base_momentums: list[float]
    max_momentums: list[float]

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        self.max_lrs: list[Any] = per_group("max_lr", optimizer, max_lr)
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError(
                f"mode must be 'triangular', 'triangular2' or 'exp_range', got {mode!r}; or give "
                "scale_fn"
            )
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                assign(group, "lr", rate)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size: float = up + down
        self.step_ratio: float = up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._prepare_momentum(
                optimizer, base_momentum, max_momentum, last_epoch
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is not None:
            return
        self._scale_fn_ref = {
            "triangular": _full_height,
            "triangular2": _half_each_time,
            "exp_range": functools.partial(_power, self.gamma),
        }[self.mode]
        self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"

    def scale_fn(self, x: float) -> float:
        """The amplitude of cycle, or at batch, ``x``, relative to the first."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return self._scale_fn_ref(x)

    def get_lr(self) -> list[Rate]:
        """The rates for the current batch; also sets momentum."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        place = 1.0 + self.last_epoch / self.total_size - cycle
        if place <= self.step_ratio:
            height = place / self.step_ratio
        else:
            height = (place - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, bounds, strict=True):
                self._set_momentum(group, high - (high - low) * height * scale)
        return [
            low + (high - low) * height * scale
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """All attributes except the optimizer; for a callable object, its attributes."""
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)
        custom = state["_scale_fn_custom"]
        state["_scale_fn_custom"] = None if custom is None else state_of_function(custom)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that `state_dict` returned."""
        rest = dict(state_dict)
        attributes = rest.pop("_scale_fn_custom")
        with self._rates_again():
            super().load_state_dict(rest)
            if attributes is not None:
                vars(self._scale_fn_custom).update(attributes)
            self._init_scale_fn()


def _full_height(x: float) -> float:
    return 1.0


def _half_each_time(x: float) -> float:
    return 1 / 2.0 ** (x - 1)


def _power(gamma: float, x: float) -> float:
    return gamma**x


class OneCycleLR(_WithMomentum):
    """The rate rises once to ``max_lr``, and falls from there far below its initial value.

    Step it after every batch. Source: Smith and Topin, *Super-Convergence: Very Fast Training of
    Neural Networks Using Large Learning Rates* (2017).

    Args:
        optimizer: The optimizer whose learning rates are set.
        max_lr: The highest rate, for all groups or one for each.
        total_steps: The number of batches; or
        epochs: of epochs, together with
        steps_per_epoch: the number of batches in one.
        pct_start: The fraction of the cycle in which the rate rises.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: Cycle momentum inversely, from ``max_momentum`` down and back.
        base_momentum: The lower bound of momentum.
        max_momentum: The upper bound of momentum.
        div_factor: The first rate is ``max_lr / div_factor``.
        final_div_factor: The last rate is the first divided by this.
        three_phase: Fall symmetrically back to the first rate, and then to the last one.
        last_epoch: The number of the last batch when training is resumed.

    Raises:
        ValueError: The length of the cycle is not given or not positive, ``pct_start`` is not a
            float from 0 to 1, the strategy is unknown, there is no momentum to cycle; or, by
            `step`, the cycle is over.
        TypeError: ``optimizer`` is not an `Optimizer`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps: int = _length(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"pct_start must be a float between 0 and 1, got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        self._schedule_phases = _phases(pct_start, self.total_steps, three_phase)
        self._anneal_func_type = anneal_strategy
        highest = per_group("max_lr", optimizer, max_lr)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._prepare_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, highest, strict=True):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        super().__init__(optimizer, last_epoch)

    def _anneal_func(self, start: Rate, end: Rate, part: float) -> Rate:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)
        return (end - start) * part + start

    def get_lr(self) -> list[Rate]:
        """The rates for the current batch; also sets momentum."""
        self._warn_outside_step()
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"Tried to step {self.last_epoch} times. The specified number of total steps is "
                f"{self.total_steps}; call step() once per batch, and set total_steps to the "
                "number of batches of all epochs"
            )
        phase, part = self._place()
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                first, last = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._anneal_func(first, last, part))
        return rates

    def _place(self) -> tuple[dict[str, Any], float]:
        """The phase of the current batch, and the completed fraction of it."""
        start = 0.0
        for phase in self._schedule_phases[:-1]:
            if self.last_epoch <= phase["end_step"]:
                break
            start = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        return phase, (self.last_epoch - start) / (phase["end_step"] - start)


@trimmed
def _length(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        return _positive("total_steps", total_steps)
    if epochs is None or steps_per_epoch is None:
        raise ValueError("give either total_steps, or both epochs and steps_per_epoch")
    return _positive("epochs", epochs) * _positive("steps_per_epoch", steps_per_epoch)


def _positive(name: str, value: Any) -> int:
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"{name} must be a positive integer, got {value}")
    return value


def _phases(pct_start: float, total_steps: int, three: bool) -> list[dict[str, Any]]:
    """The end of each phase, and the group's options between which rate and momentum move."""

    def phase(end: float, rates: tuple[str, str], momenta: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end, "start_lr": rates[0], "end_lr": rates[1],
            "start_momentum": momenta[0], "end_momentum": momenta[1],
        }  # fmt: skip

    low, high = "base_momentum", "max_momentum"
    up = phase(float(pct_start * total_steps) - 1, ("initial_lr", "max_lr"), (high, low))
    end = total_steps - 1
    if not three:
        return [up, phase(end, ("max_lr", "min_lr"), (low, high))]
    middle = float(2 * pct_start * total_steps) - 2
    return [
        up,
        phase(middle, ("max_lr", "initial_lr"), (low, high)),
        phase(end, ("initial_lr", "min_lr"), (high, high)),
    ]
