"""Changing a whole tree of modules: its mode, requires_grad flags, dtype and device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from flambeau.core.support.dtype import dtype
from flambeau.core.support.modes import modes, no_grad
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.nn.common_types import DeviceLike
from flambeau.nn.parameter import Parameter, UninitializedTensorMixin
from flambeau.nn.traversal import Traversal
from flambeau.ops.factories.conversion import parse_to
from flambeau.ops.factories.creation import empty_like


class Conversion(Traversal):
    """The part of `Module` that changes all members of its tree in place."""

    def train(self, mode: bool = True) -> Self:
        """Set this module and its submodules to training mode, or with ``False`` to evaluation.

        Raises:
            ValueError: ``mode`` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"the training mode is True or False, but got {mode!r}")
        if modes.trace is not None:
            modes.trace.switch(self)
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set this module and its submodules to evaluation mode: ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Switch gradients on for all parameters of the tree, or freeze them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters of the tree.

        Args:
            set_to_none: Drop them; otherwise they are kept as tensors and filled with zeros.
        """
        for parameter in self.parameters():
            if set_to_none:
                # Not read first, so that a compiled program does not depend on it.
                parameter.grad = None
                continue
            grad = parameter.grad
            if grad is None:
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the elements of every parameter, gradient and buffer by the result of ``fn``.

        Parameters stay the same objects, so optimizers and ties between modules stay valid.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                _apply_to_parameter(self, name, parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    @trimmed
    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move and cast all parameters and buffers of the tree.

        ``to(device)``, ``to(dtype)``, ``to(device, dtype)`` or ``to(tensor)``, which stands for the
        tensor's device and dtype; each also with ``non_blocking`` and ``memory_format``. Only
        floating point and complex members change their dtype.

        Raises:
            TypeError: The arguments are none of these, or the dtype is neither floating point nor
                complex.
            NotImplementedError: A member on the meta device, which has no elements, cannot be moved
                to another device; use `to_empty`.
        """
        device, dtype, copy = parse_to(args, kwargs)
        if copy is not None:
            raise RuntimeError(
                "a module converts its members in place: to() takes no copy argument"
            )
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"a module can only be cast to a floating point or complex dtype, not to {dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warn(
                "layers that were written for real numbers may not work with complex parameters",
            )
        memory_format = kwargs.get("memory_format")

        def convert(tensor: Tensor) -> Tensor:
            inexact = tensor.is_floating_point() or tensor.is_complex()
            has_format = memory_format is not None and tensor.dim() in (4, 5)
            options = {"memory_format": memory_format} if has_format else {}
            try:
                return tensor.to(device, dtype if inexact else None, **options)
            except NotImplementedError as error:
                if not tensor.is_meta:
                    raise
                raise NotImplementedError(
                    f"{error}: a module on the meta device has no elements to move; "
                    "to_empty(device=...) gives it some, for an initializer or a state dict to fill"
                ) from None

        return self._apply(convert)

    def to_empty(self, *, device: DeviceLike, recurse: bool = True) -> Self:
        """Move all parameters and buffers to ``device`` without their values.

        Args:
            device: The device; ``None`` keeps each tensor on its device.
            recurse: Include the submodules.
        """

        def emptied(tensor: Tensor) -> Tensor:
            if isinstance(tensor, UninitializedTensorMixin):
                return tensor.emptied(device)
            return empty_like(tensor, device=device)

        return self._apply(emptied, recurse=recurse)

    def cpu(self) -> Self:
        """Move all parameters and buffers to CPU memory."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: DeviceLike = None) -> Self:
        """Move all parameters and buffers to GPU memory.

        Args:
            device: Which GPU; by default the first.
        """
        return self._apply(lambda tensor: tensor.cuda(device))

    def xpu(self, device: DeviceLike = None) -> Self:
        """Raises RuntimeError: XLA has no devices of this type."""
        raise RuntimeError("XLA has no xpu devices; use to(device) with 'cpu', 'cuda' or 'tpu'")

    def type(self, dst_type: dtype | str) -> Self:
        """Cast all parameters and buffers, also integer ones, to ``dst_type``."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self) -> Self:
        """Cast floating point parameters and buffers to float32."""
        return self._apply(_if_floating(lambda tensor: tensor.float()))

    def double(self) -> Self:
        """Cast floating point parameters and buffers to float64."""
        return self._apply(_if_floating(lambda tensor: tensor.double()))

    def half(self) -> Self:
        """Cast floating point parameters and buffers to float16."""
        return self._apply(_if_floating(lambda tensor: tensor.half()))

    def bfloat16(self) -> Self:
        """Cast floating point parameters and buffers to bfloat16."""
        return self._apply(_if_floating(lambda tensor: tensor.bfloat16()))

    def share_memory(self) -> Self:
        """Share all parameters and buffers with other processes; see `Tensor.share_memory_`."""
        return self._apply(lambda tensor: tensor.share_memory_())


def _apply_to_parameter(
    module: Conversion, name: str, parameter: Parameter, fn: Callable[[Tensor], Tensor]
) -> None:
    grad = parameter.grad
    with no_grad():
        applied = fn(parameter)
        applied_grad = fn(grad) if grad is not None else None
    if not isinstance(applied, Tensor):
        raise TypeError(
            f"_apply() needs a function that gives a Tensor, but for the parameter '{name}' it "
            f"gave a {type(applied).__name__}"
        )
    if not _can_share(parameter, applied):
        parameter = module._parameters[name] = Parameter(applied, parameter.requires_grad)
    elif applied is not parameter:
        parameter.data = applied
    if grad is not None and applied_grad is not None:
        if _can_share(grad, applied_grad):
            grad.data = applied_grad
        else:
            grad = applied_grad.requires_grad_(grad.requires_grad)
        parameter.grad = grad


def _if_floating(fn: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda tensor: fn(tensor) if tensor.is_floating_point() else tensor


def _can_share(tensor: object, other: object) -> bool:
    """Whether ``tensor`` can take the elements of ``other`` and keep its identity."""
    return type(other) is type(tensor) or type(other) in (Tensor, Parameter)
