"""`GradScaler`: prevents underflow of gradients in half precision."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from flambeau.amp.autocast_mode import is_autocast_available
from flambeau.core.programs import finishing
from flambeau.core.support.dtype import float16
from flambeau.core.support.modes import no_grad
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import outside
from flambeau.ops.factories.creation import full
from flambeau.ops.factories.from_data import tensor
from flambeau.ops.reductions.loss_scaling import next_scale, unscaled

__all__ = ["GradScaler"]


class OptState(Enum):
    """The stage of an optimizer since the last `GradScaler.update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales the loss, so that gradients in float16 do not underflow, and unscales the gradients.

    A step with infinite or NaN gradients is skipped, and the scale is reduced; after many finite
    steps it grows. Use it for `autocast` with float16: bfloat16 does not underflow, and
    ``enabled=False`` makes every method do nothing. A compiled function may call `scale`; Python
    decides whether to skip a step, so call `unscale_`, `step` and `update` outside compiled
    functions.

    Args:
        device: The device of the scale. Without such a device the scaler does nothing, with a
            warning.
        init_scale: The initial scale.
        growth_factor: The factor of the scale after ``growth_interval`` consecutive finite steps;
            above 1.
        backoff_factor: The factor of the scale after a skipped step; below 1.
        growth_interval: The number of steps.
        enabled: Whether the scaler is active.

    Raises:
        AssertionError: ``growth_factor`` is not above 1, or ``backoff_factor`` not below it.

    >>> import flambeau
    >>> from flambeau import GradScaler
    >>> weight = flambeau.nn.Parameter(flambeau.ones(2))
    >>> optimizer = flambeau.optim.SGD([weight], lr=0.5)
    >>> scaler = GradScaler("cpu")
    >>> scaler.scale(weight.sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> weight.tolist()
    [0.5, 0.5]
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        if enabled and not is_autocast_available(str(device).partition(":")[0]):
            enabled = False
            warn(
                f"GradScaler does nothing: there is no device of type '{device}' here",
                UserWarning,
            )
        self._enabled = enabled
        if not enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError(f"growth_factor must be greater than 1, got {growth_factor}")
        if backoff_factor >= 1.0:
            raise AssertionError(f"backoff_factor must be less than 1, got {backoff_factor}")
        self._init_scale = init_scale
        self._init_growth_tracker = 0
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        # For each optimizer, by identity: its stage since `update`, and whether a bad gradient was
        # found.
        self._optimizers: dict[int, tuple[Any, OptState, Tensor | None]] = {}

    def scale(self, outputs: Any) -> Any:
        """The loss times the scale.

        Args:
            outputs: A Tensor, or lists and tuples of them.

        Raises:
            ValueError: There is a value of another type.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._make_scale(outputs.device)
            assert self._scale is not None
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, Iterable) and not isinstance(outputs, str | bytes | dict):
            found = [self.scale(each) for each in outputs]
            return type(outputs)(found) if isinstance(outputs, list | tuple) else iter(found)
        raise ValueError(
            f"GradScaler.scale() takes Tensors and lists of them, got {type(outputs).__name__}"
        )

    def _make_scale(self, where: Any) -> None:
        # These tensors are never replaced: compiled functions read their elements.
        with outside():
            self._growth_tracker = tensor(self._init_growth_tracker, device=where)
            # Last, since it marks both as initialized.
            self._scale = full((), self._init_scale, device=where)

    def _needs_scale(self, subject: str) -> Tensor:
        if self._scale is None:
            raise AssertionError(
                f"GradScaler.{subject}() comes after scale(): multiply the loss with it before "
                "backward()"
            )
        return self._scale

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, for example to clip them.

        Raises:
            RuntimeError: It was already called since the last `update`, or after `step`.
            ValueError: A gradient is in float16: the parameters themselves were converted.
            AssertionError: Nothing has been scaled.
        """
        if not self._enabled:
            return
        scale = self._needs_scale("unscale_")
        _, stage, _ = self._state_of(optimizer)
        if stage == OptState.UNSCALED:
            raise RuntimeError("unscale_() was already called for this optimizer since update()")
        if stage == OptState.STEPPED:
            raise RuntimeError("unscale_() comes before step(), which was already called")
        params = [
            each
            for group in optimizer.param_groups
            for each in group["params"]
            if each.grad is not None
        ]
        if not params:
            self._optimizers[id(optimizer)] = optimizer, OptState.UNSCALED, None
            return
        if any(each.grad.dtype is float16 for each in params):
            raise ValueError(
                "unscale_() of gradients in float16 would lose them again: keep the parameters in "
                "float32, and let autocast convert them"
            )
        with no_grad():
            found, *gradients = unscaled([each.grad for each in params], scale)

            def write(_: Any) -> None:
                for each, gradient in zip(params, gradients, strict=True):
                    each.grad.copy_(gradient)
                self._optimizers[id(optimizer)] = optimizer, OptState.UNSCALED, found

            finishing.finish(write)

    def _state_of(self, optimizer: Any) -> tuple[Any, OptState, Tensor | None]:
        return self._optimizers.get(id(optimizer), (optimizer, OptState.READY, None))

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step(*args, **kwargs)``, unless a gradient is infinite or NaN.

        Returns:
            The result of the optimizer, or ``None`` if the step is skipped.

        Raises:
            RuntimeError: It was already called since the last `update`; or a closure is given.
            AssertionError: Nothing has been scaled, or no parameter has a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("GradScaler.step() takes no closure: its gradients would be scaled")
        self._needs_scale("step")
        if self._state_of(optimizer)[1] == OptState.STEPPED:
            raise RuntimeError("step() was already called for this optimizer since update()")
        if self._state_of(optimizer)[1] == OptState.READY:
            self.unscale_(optimizer)
        _, _, found = self._state_of(optimizer)
        if found is None:
            raise AssertionError("GradScaler.step(): no parameter of the optimizer has a gradient")
        result = None if found.item() else optimizer.step(*args, **kwargs)
        self._optimizers[id(optimizer)] = optimizer, OptState.STEPPED, found
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Choose the next scale, after the steps of all optimizers.

        Args:
            new_scale: The next scale; by default computed from the last steps.

        Raises:
            AssertionError: Nothing has been scaled, or no optimizer has stepped.
            TypeError: ``new_scale`` is a tensor of more than one element, or requires grad.
        """
        if not self._enabled:
            return
        scale = self._needs_scale("update")
        assert self._growth_tracker is not None
        with no_grad():
            if new_scale is not None:
                self._set(scale, new_scale)
            else:
                found = [each for _, _, each in self._optimizers.values() if each is not None]
                if not found:
                    raise AssertionError("GradScaler.update() comes after step(), or unscale_()")
                total = found[0]
                for each in found[1:]:
                    total = total + each.to(total.device)
                following, count = next_scale(
                    scale, self._growth_tracker, total.to(scale.device), self._growth_factor,
                    self._backoff_factor, self._growth_interval,
                )  # fmt: skip

                def write(_: Any) -> None:
                    self._write(following, count)
                    self._optimizers.clear()

                finishing.finish(write)
        self._optimizers.clear()

    def _write(self, scale: Tensor, tracker: Tensor) -> None:
        assert self._scale is not None
        assert self._growth_tracker is not None
        self._scale._store(scale._read())
        self._growth_tracker._store(tracker._read())

    def _set(self, scale: Tensor, new_scale: float | Tensor) -> None:
        if isinstance(new_scale, Tensor) and (new_scale.numel() != 1 or new_scale.requires_grad):
            raise TypeError(
                "GradScaler.update(): new_scale is a number or a tensor of one element that does "
                f"not require grad, got shape {list(new_scale.shape)}"
            )
        value = new_scale.reshape(()) if isinstance(new_scale, Tensor) else new_scale
        scale.copy_(value) if isinstance(value, Tensor) else scale.fill_(value)

    def get_scale(self) -> float:
        """The scale; 1.0 if disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """The factor of the scale after many finite steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor of the scale after many finite steps."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor of the scale after a skipped step."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor of the scale after a skipped step."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """The number of consecutive finite steps after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of consecutive finite steps after which the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether the scaler is active."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale, the factors and the count of finite steps; empty if disabled."""
        if not self._enabled:
            return {}
        tracker = self._growth_tracker
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._init_growth_tracker if tracker is None else tracker.item(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved state; without effect if disabled.

        Raises:
            RuntimeError: The state is empty, as from a disabled scaler.
            KeyError: An entry is missing; nothing is changed then.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("the state is empty: the GradScaler that it came from was disabled")
        scale, growth, backoff, interval, tracker = (
            state_dict[key]
            for key in (
                "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker",
            )
        )  # fmt: skip
        self._init_scale, self._init_growth_tracker = scale, tracker
        self._growth_factor, self._backoff_factor = growth, backoff
        self._growth_interval = interval
        if self._scale is not None:
            where = self._scale.device
            self._write(full((), scale, device=where), tensor(tracker, device=where))

    def __getstate__(self) -> dict[str, Any]:
        if self._enabled and self._optimizers:
            raise AssertionError(
                "a GradScaler can be pickled before the first or after the last call of an "
                "iteration only, that is, after update()"
            )
        state = dict(vars(self))
        if self._enabled:
            saved = self.state_dict()
            state.update(
                _init_scale=saved["scale"], _init_growth_tracker=saved["_growth_tracker"],
                _scale=None, _growth_tracker=None,
            )  # fmt: skip
        return state
