"""Averages of a model's weights over training: equally or exponentially weighted."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import jax.numpy as jnp

from flambeau.core.operators.writing import all_or_none, store_all
from flambeau.core.programs.compiled import compiled
from flambeau.core.support.modes import modes, no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.nn import Module
from flambeau.nn.modules.batchnorm import _BatchNorm
from flambeau.ops import tensor, where
from flambeau.optim.lr_scheduler.base import LRScheduler, Rate, per_group
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.precision import packed, unpacked

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Tensors = Sequence[Tensor]


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Tensors, Tensors, Any], None]:
    """A function that moves averages towards values: a ← decay · a + (1 − decay) · x.

    Floating and complex tensors are updated in one dispatch.

    Args:
        decay: The share of the old average.

    Raises:
        ValueError: ``decay`` is not between 0 and 1.
    """
    one = get_ema_avg_fn(decay)

    @no_grad()
    def ema_update(ema_param_list: Tensors, current_param_list: Tensors, _: Any) -> None:
        first = ema_param_list[0]
        if first.is_floating_point() or first.is_complex():
            _update(_ema, ema_param_list, current_param_list, decay)
            return
        # The average of integer counters is truncated. So the operators round one by one as in
        # PyTorch: a program would fuse the product and the sum, and some counters would be 1 less.
        for average, value in zip(ema_param_list, current_param_list, strict=True):
            average.copy_(one(average, value, None))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[[Tensors, Tensors, Any], None]:
    """A function that adds values to an equally weighted average: a ← a + (x − a) / (n + 1).

    All are updated in one dispatch.
    """

    def swa_update(
        averaged_param_list: Tensors, current_param_list: Tensors, num_averaged: Tensor | int
    ) -> None:
        _update(_swa, averaged_param_list, current_param_list, num_averaged)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """A function that returns decay · average + (1 − decay) · value.

    Args:
        decay: The share of the old average.

    Raises:
        ValueError: ``decay`` is not between 0 and 1.
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """A function that returns average + (value − average) / (n + 1)."""

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"decay must be between 0 and 1, got {decay}")


@compiled
def _ema(averages: list[Any], values: list[Any], decay: Any) -> list[Any]:
    def one(average: Any, value: Any) -> Any:
        return decay * average + (1 - decay) * value

    return list(map(functools.partial(_moved, one), averages, values))


@compiled
def _swa(averages: list[Any], values: list[Any], count: Any) -> list[Any]:
    def one(average: Any, value: Any) -> Any:
        return average + (value - average) / (count + 1)

    return list(map(functools.partial(_moved, one), averages, values))


def _moved(formula: Callable[[Any, Any], Any], average: Any, value: Any) -> Any:
    return packed(formula(unpacked(average), unpacked(value)), average)


@compiled
def _swa_from_the_first(averages: list[Any], values: list[Any], count: Any) -> list[Any]:
    """`_swa` whose first average equals the value exactly."""
    return [
        jnp.where(count == 0, value.astype(average.dtype), moved)
        for average, value, moved in zip(
            averages, values, _swa(averages, values, count), strict=True
        )
    ]


def _update(function: Any, averages: Tensors, values: Tensors, number: Any) -> None:
    """Store the results of ``function`` for averages and values."""
    if modes.trace is not None:
        for each in (*averages, *values):
            modes.trace.note(each)
    number = number._read() if isinstance(number, Tensor) else jnp.asarray(number)
    arrays = function(
        [each._read() for each in averages], [each._read() for each in values], number
    )
    store_all(averages, arrays)


class AveragedModel(Module):
    """A copy of a model that holds an average of its weights.

    Call `update_parameters` with the model after every step, or epoch, to include in the average.
    For equally weighted averages see Izmailov et al., *Averaging Weights Leads to Wider Optima and
    Better Generalization* (2018).

    Args:
        model: The model; it is copied.
        device: The device of the copy.
        avg_fn: Returns the new average of one tensor, from ``(average, value, count)``; by default
            the result of `get_swa_avg_fn`.
        multi_avg_fn: Updates in place the averages of all tensors of one device and dtype, from
            ``(averages, values, count)``.
        use_buffers: Average buffers too, instead of copying them.

    Raises:
        AssertionError: Both ``avg_fn`` and ``multi_avg_fn`` are given.

    >>> import flambeau
    >>> from flambeau.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    >>> model = flambeau.nn.Linear(2, 1)
    >>> average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    >>> average.update_parameters(model)
    >>> average.n_averaged
    tensor(1)
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None,
        multi_avg_fn: Callable[[Tensors, Tensors, Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("give avg_fn or multi_avg_fn, not both")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module: Module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the averaged model."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Add the weights of ``model`` to the average.

        Args:
            model: The model, of the same structure.

        Raises:
            RuntimeError: A weight has another shape than its average. Nothing is changed then.
        """
        if modes.trace is not None:
            for module in (*self.modules(), *model.modules()):
                modes.trace.enter(module)
        averages: list[Tensor] = list(self.module.parameters())
        values: list[Tensor] = list(model.parameters())
        if self.use_buffers:
            averages += self.module.buffers()
            values += model.buffers()
        values = [
            value.detach().to(average.device)
            for average, value in zip(averages, values, strict=False)
        ]
        averages = [average.detach() for average in averages[: len(values)]]
        _check_shapes(averages, values)
        buffers = [] if self.use_buffers else [each.detach() for each in self.module.buffers()]

        def change() -> None:
            self._average(averages, values)
            if not self.use_buffers:
                for mine, other in zip(buffers, model.buffers(), strict=True):
                    mine.copy_(other.detach().to(mine.device))
            self.n_averaged.add_(1)

        all_or_none([*averages, *buffers, self.n_averaged], change)

    def _average(self, averages: list[Tensor], values: list[Tensor]) -> None:
        if self.multi_avg_fn is not None:
            for mine, others in _by_kind(averages, values):
                self._average_with(self.multi_avg_fn, mine, others)
        elif self.avg_fn is not None:
            self._average_with(self._one_by_one, averages, values)
        else:
            for mine, others in _by_kind(averages, values):
                count = self.n_averaged.to(mine[0].device)
                _update(_swa_from_the_first, mine, others, count)

    def _one_by_one(self, averages: Tensors, values: Tensors, count: Tensor) -> None:
        assert self.avg_fn is not None
        for average, value in zip(averages, values, strict=True):
            average.copy_(self.avg_fn(average, value, count.to(average.device)))

    def _average_with(
        self, update: Callable[[Tensors, Tensors, Any], None], averages: Tensors, values: Tensors
    ) -> None:
        """Update by a user's function, which is not called for the first values."""
        count = self.n_averaged.to(averages[0].device)
        if modes.trace is None:
            if count == 0:
                for average, value in zip(averages, values, strict=True):
                    average.copy_(value)
            else:
                update(averages, values, count)
            return
        update(averages, values, count)
        for average, value in zip(averages, values, strict=True):
            average.copy_(where(count == 0, value.to(average.dtype), average))


def _check_shapes(averages: Tensors, values: Tensors) -> None:
    for number, (average, value) in enumerate(zip(averages, values, strict=True)):
        if average.shape != value.shape:
            raise RuntimeError(
                f"an AveragedModel averages models of one structure, but tensor {number} of this "
                f"one has shape {list(value.shape)}, and its average {list(average.shape)}"
            )


def _by_kind(averages: Tensors, values: Tensors) -> list[tuple[list[Tensor], list[Tensor]]]:
    """The tensors grouped by device and dtype."""
    kinds: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
    for average, value in zip(averages, values, strict=True):
        mine, others = kinds.setdefault((average.device, average.dtype), ([], []))
        mine.append(average)
        others.append(value)
    return list(kinds.values())


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of the batch normalizations in ``model``.

    Necessary for an averaged model, which has no valid statistics.

    Args:
        loader: Yields batches: tensors, or sequences whose first member is a tensor.
        model: The model, which is run in training mode once on each batch.
        device: The device to which the batches are moved.
    """
    momenta = {
        module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)
    }
    if not momenta:
        return
    was_training = model.training
    for module in momenta:
        module.reset_running_stats()
    model.train()
    # Without momentum the running statistics are averages over all batches.
    for module in momenta:
        module.momentum = None
    try:
        for batch in loader:
            inputs = batch[0] if isinstance(batch, list | tuple) else batch
            model(inputs if device is None else inputs.to(device))
    finally:
        for module, momentum in momenta.items():
            module.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """The rate changes from its present value to ``swa_lr``, and stays there.

    Args:
        optimizer: The optimizer whose learning rates are set.
        swa_lr: The final rate, for all groups or one for each.
        anneal_epochs: The number of epochs of the change.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        last_epoch: The number of the last step when training is resumed.

    Raises:
        ValueError: The strategy is unknown, ``anneal_epochs`` is not an integer of at least 0, or
            the number of rates is not that of the groups.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = per_group("swa_lr", optimizer, swa_lr)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be an integer of at least 0, got {anneal_epochs}")
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _part(self, epochs: int) -> float:
        """The progress of the rate after some epochs, from 0 to 1."""
        done = max(0, min(1, epochs / max(1, self.anneal_epochs)))
        return done if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * done)) / 2

    def get_lr(self) -> list[Rate]:
        """The rates one step further from their initial to their final value."""
        self._warn_outside_step()
        epochs = self._step_count - 1
        if self.anneal_epochs == 0:
            epochs = max(1, epochs)
        before, now = self._part(epochs - 1), self._part(epochs)
        rates = []
        for group in self.optimizer.param_groups:
            final = group["swa_lr"]
            # Another scheduler may have changed the rate: assume that the initial value changed
            # too.
            start = final if before == 1 else (group["lr"] - before * final) / (1 - before)
            rates.append(final * now + start * (1 - now))
        return rates
