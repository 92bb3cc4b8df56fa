"""The base of learning rate schedulers: steps, settings and saved state."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from flambeau.core.modes import modes, no_grad
from flambeau.core.tensor import Tensor
from flambeau.core.trace import TracedValueError
from flambeau.core.warning import warn
from flambeau.optim.lr_scheduler.undoing import whole
from flambeau.optim.optimizer import Optimizer

Rate: TypeAlias = Any  # a float, or a tensor of one element


def current(optimizer: Optimizer, key: str = "lr") -> list[Rate]:
    """An option of every group, tensors copied."""
    return [snapshot(group[key]) for group in optimizer.param_groups]


def snapshot(value: Rate) -> Rate:
    """A number as it is, a tensor as a copy that later steps do not change."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def assign(group: dict[str, Any], key: str, value: Rate) -> None:
    """Set an option of ``group``; one that is a tensor is overwritten in place."""
    target = group[key]
    if not isinstance(target, Tensor):
        group[key] = value
        return
    number = value.reshape(()) if isinstance(value, Tensor) else value
    with no_grad():
        target.fill_(number)


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """``value`` for every group: the members of a list or tuple, anything else repeated.

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
    """The state of a callable to save: the attributes of an object, nothing of a function."""
    return None if isinstance(function, types.FunctionType) else dict(vars(function))


class LRScheduler:
    """Base class of the schedulers: sets the learning rate of every group at each `step`.

    A subclass defines `get_lr`, and may define ``_get_closed_form_lr``, which gives the rates for
    ``last_epoch`` without knowing the ones before.

    Args:
        optimizer: Whose learning rates are set.
        last_epoch: The number of the last step when training is resumed, -1 at the start.

    Raises:
        TypeError: ``optimizer`` is no `Optimizer`.
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
        """Everything but the optimizer."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that `state_dict` returned.

        The optimizer gets the saved rates back if it has those that this scheduler has set: where
        a scheduler is made after its optimizer was loaded, it has overwritten the loaded ones.

        Raises:
            ValueError: It is the state of another scheduler.
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
        """A block that loads a state; afterwards the rates are set as they were when it was saved.

        They stay if somebody else has set them, as the optimizer's ``load_state_dict`` does.
        """
        own = [*map(float, getattr(self, "_last_lr", ()))]
        is_own = own == [float(each) for each in current(self.optimizer)]
        yield
        if is_own:
            self._set_again()

    def _set_again(self) -> None:
        """Set what the last step has set."""
        for group, rate in zip(self.optimizer.param_groups, self._last_lr, strict=False):
            assign(group, "lr", rate)

    def get_last_lr(self) -> list[Rate]:
        """The rates that were last set, one per group."""
        return self._last_lr

    def get_lr(self) -> list[Rate]:
        """The rates for ``last_epoch``, one per group; to be called by `step` only."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    @whole
    def step(self, epoch: int | None = None) -> None:
        """Set the rates for the next epoch (or batch, or whatever is counted).

        Args:
            epoch: Which one to set them for instead; deprecated.
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
        """Begin the schedule of groups that were added to the optimizer at their own rates."""
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
        """The rates as they are."""
        return current(self.optimizer)

    def _times(self, factor: float) -> list[Rate]:
        """The current rates times ``factor``."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """`LRScheduler` under its older name, from which many users' schedulers are derived."""


def _has_stepped(optimizer: Optimizer, start: bool = False) -> bool:
    """Whether ``optimizer`` has stepped since its first scheduler came; true where unknown.

    Args:
        optimizer: The optimizer.
        start: A scheduler comes now.
    """
    versions = sum(
        param._cell.version for group in optimizer.param_groups for param in group["params"]
    )
    if start and optimizer._opt_called is None:
        optimizer._opt_called = False
        optimizer._first_versions = versions
    # The Python of a compiled step does not run at each call, but its writes are counted.
    return optimizer._opt_called is not False or versions != optimizer._first_versions


def refuse_in_trace(optimizer: Any) -> None:
    """Fail inside a compiled function, where a scheduler would step only once.

    Args:
        optimizer: The scheduler's; one that the function itself makes begins at each call.
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
