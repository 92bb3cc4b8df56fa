"""The base of learning rate schedulers: steps, settings and saved state."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from flambeau.core.support.modes import modes, no_grad
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import TracedValueError
from flambeau.optim.lr_scheduler.undoing import whole
from flambeau.optim.optimizer import Optimizer

Rate: TypeAlias = Any  # a float, or a tensor of one element


def current(optimizer: Optimizer, key: str = "lr") -> list[Rate]:
    """An option of every group, with tensors copied."""
    return [snapshot(group[key]) for group in optimizer.param_groups]


def snapshot(value: Rate) -> Rate:
    """A number, or a copy of a tensor that later steps do not change."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def assign(group: dict[str, Any], key: str, value: Rate) -> None:
    """Set an option of ``group``; a tensor is overwritten in place."""
    target = group[key]
    if not isinstance(target, Tensor):
        group[key] = value
        return
    number = value.reshape(()) if isinstance(value, Tensor) else value
    with no_grad():
        target.fill_(number)


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """``value`` for every group: the members of a list or tuple, any other value repeated.

    Raises:
        ValueError: A list or tuple of another length than the number of groups.
    """
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [snapshot(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} has {len(value)} values, but the optimizer has {count} parameter groups; "
            "give one value for each, or a single one for all"
        )
    return list(map(snapshot, value))


def check_optimizer(optimizer: Any) -> None:
    """Fail unless ``optimizer`` is an `Optimizer`."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"a scheduler needs an Optimizer, but {type(optimizer).__name__} is not an Optimizer"
        )


def state_of_function(function: Any) -> dict[str, Any] | None:
    """The state to save for a callable: the attributes of an object, none for a function."""
    return None if isinstance(function, types.FunctionType) else dict(vars(function))


class LRScheduler:
    """Base class of the schedulers: sets the learning rate of every group at each `step`.

    A subclass defines `get_lr`, and may define ``_get_closed_form_lr``, which returns the rates for
    ``last_epoch`` without the previous ones.

    Args:
        optimizer: The optimizer whose learning rates are set.
        last_epoch: The number of the last step when training is resumed, -1 at the start.

    Raises:
        TypeError: ``optimizer`` is not an `Optimizer`.
        KeyError: Training is resumed, but a group has no ``"initial_lr"``.
    """

    last_epoch: int
    base_lrs: list[Rate]
    _last_lr: list[Rate]
    _step_count: int
    _is_initial = False
    _get_lr_called_within_step = False
    _get_closed_form_lr: Callable[[], list[Rate]]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", snapshot(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"parameter group {i} has no 'initial_lr', which a scheduler with last_epoch="
                    f"{last_epoch} continues from: load the optimizer's state dict first, or leave "
                    "last_epoch at -1 for a new run"
                )
        self.base_lrs = current(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates for the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            _has_stepped(self.optimizer, start=True)
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """All attributes except the optimizer."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that `state_dict` returned.

        The optimizer gets the saved rates back if its rates were set by this scheduler: a scheduler
        that is created after its optimizer was loaded overwrites the loaded rates.

        Raises:
            ValueError: It is the state of a scheduler of another kind.
        """
        # Users' schedulers may set attributes later.
        is_known = type(self).__module__.partition(".")[0] in ("flambeau", "torch")
        unknown = [name for name in state_dict if name not in vars(self)]
        if is_known and unknown:
            raise ValueError(
                f"the loaded state has {unknown[0]!r}, which a {type(self).__name__} does not "
                "have: it is another scheduler's"
            )
        with self._rates_again():
            vars(self).update(state_dict)

    @contextmanager
    def _rates_again(self) -> Iterator[None]:
        """A block that loads a state and then restores the rates of the time when it was saved.

        Rates set by other code, such as the optimizer's ``load_state_dict``, are kept.
        """
        own = [*map(float, getattr(self, "_last_lr", ()))]
        is_own = own == [float(each) for each in current(self.optimizer)]
        yield
        if is_own:
            self._set_again()

    def _set_again(self) -> None:
        """Set the rates of the last step again."""
        for group, rate in zip(self.optimizer.param_groups, self._last_lr, strict=False):
            assign(group, "lr", rate)

    def get_last_lr(self) -> list[Rate]:
        """The rates that were last set, one per group."""
        return self._last_lr

    def get_lr(self) -> list[Rate]:
        """The rates for ``last_epoch``, one per group; only called by `step`."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    @whole
    def step(self, epoch: int | None = None) -> None:
        """Set the rates for the next epoch (or batch, or another unit).

        Args:
            epoch: The epoch to set them for instead; deprecated.
        """
        refuse_in_trace(self.optimizer)
        if self._step_count == 1 and not _has_stepped(self.optimizer):
            warn(
                "the scheduler's step() was called before the optimizer's; the first learning rate "
                "of the schedule is skipped that way. Call optimizer.step() first",
                UserWarning,
            )
        self._step_count += 1
        if epoch is not None:
            warn_about_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = epoch is not None and hasattr(self, "_get_closed_form_lr")
        self._set(self._within_step(self._get_closed_form_lr if closed else self.get_lr))

    def _take_new_groups(self) -> None:
        """Start the schedule of groups that were added to the optimizer, at their own rates."""
        for group in self.optimizer.param_groups[len(self.base_lrs) :]:
            group.setdefault("initial_lr", snapshot(group["lr"]))
            self.base_lrs = [*self.base_lrs, snapshot(group["initial_lr"])]

    def _within_step(self, compute: Callable[[], list[Rate]]) -> list[Rate]:
        self._take_new_groups()
        self._get_lr_called_within_step = True
        try:
            return compute()
        finally:
            self._get_lr_called_within_step = False

    def _set(self, rates: Sequence[Rate]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            assign(group, "lr", rate)
        self._last_lr = current(self.optimizer)

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warn(
                "get_lr() computes the next learning rate; use get_last_lr() for the current one",
                UserWarning,
            )

    def _current(self) -> list[Rate]:
        """The present rates."""
        return current(self.optimizer)

    def _times(self, factor: float) -> list[Rate]:
        """The current rates times ``factor``."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """`LRScheduler` under its older name, which many users' schedulers inherit from."""


def _has_stepped(optimizer: Optimizer, start: bool = False) -> bool:
    """Whether ``optimizer`` has stepped since its first scheduler was created; true if unknown.

    Args:
        optimizer: The optimizer.
        start: Whether a scheduler is being created.
    """
    versions = sum(
        param._cell.version for group in optimizer.param_groups for param in group["params"]
    )
    if start and optimizer._opt_called is None:
        optimizer._opt_called = False
        optimizer._first_versions = versions
    # The Python code of a compiled step does not run at each call, but its writes are counted.
    return optimizer._opt_called is not False or versions != optimizer._first_versions


def refuse_in_trace(optimizer: Any) -> None:
    """Fail inside a compiled function, where a scheduler would step only once.

    Args:
        optimizer: The scheduler's optimizer; if the function creates it, it starts again at each
            call.
    """
    structure = getattr(optimizer, "_structure", None)
    if modes.trace is not None and (structure is None or structure.trace is not None):
        raise TracedValueError(
            "a scheduler's step() inside a compiled function would run once, while tracing, and "
            "not at every call; call it outside. A new learning rate recompiles nothing"
        )


def warn_about_epoch() -> None:
    """Warn that ``step(epoch)`` is deprecated."""
    warn(
        "the argument epoch of a scheduler's step() is deprecated: the closed form is used, where "
        "there is one. Call step() without it",
        UserWarning,
    )
