"""Tensors that a module registers: parameters, which are trained, and buffers."""

from __future__ import annotations

from typing import Any, Self, SupportsIndex

from flambeau.core.support import naming
from flambeau.core.support.dtype import FLOATING
from flambeau.core.values.tensor import (
    Tensor,
    _disabled_torch_function_impl,
    register_plain_type,
)
from flambeau.core.values.tensor_class import TensorMeta
from flambeau.nn.common_types import DeviceLike, DTypeLike, Kwargs
from flambeau.nn.uninitialized import UninitializedTensorMixin, is_lazy
from flambeau.ops.factories.creation import empty

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class _ParameterMeta(TensorMeta):
    """Counts tensors of custom classes as parameters if they carry the flag ``_is_param``."""

    def __instancecheck__(cls, instance: object) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Parameter and _has_flag(instance, "_is_param")


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A trainable tensor: assigned to an attribute of a module, it is registered there.

    A plain tensor becomes a `Parameter` on the same elements. A tensor of a custom class keeps its
    class and is marked with ``_is_param``, which ``isinstance(tensor, Parameter)`` checks.

    Args:
        data: The elements; by default an empty tensor.
        requires_grad: Whether gradients are computed for it.

    Raises:
        TypeError: ``data`` is not a tensor, or ``requires_grad`` no bool.
        RuntimeError: The ``detach()`` of a custom class gives another class, or ``requires_grad``
            is set for elements that are neither floating point nor complex.

    >>> import flambeau
    >>> from flambeau import nn
    >>> module = nn.Module()
    >>> module.weight = nn.Parameter(flambeau.zeros(2))
    >>> module.scale = flambeau.zeros(2)
    >>> [name for name, _ in module.named_parameters()]
    ['weight']
    """

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Self:
        if requires_grad is not True and requires_grad is not False:
            raise TypeError(
                f"requires_grad of a Parameter is True or False, but got {requires_grad!r}"
            )
        if data is None:
            data = Tensor()
        if type(data) is Tensor or type(data) is Parameter:
            parameter = data._alias(cls)
            if requires_grad and parameter.dtype.category >= FLOATING:
                # The setter would invalidate every compiled program.
                parameter._requires_grad = True
            else:
                parameter.requires_grad = requires_grad
            return parameter
        _check_is_tensor("Parameter", data)
        parameter: Any = data.detach().requires_grad_(requires_grad)
        if type(parameter) is not type(data):
            raise RuntimeError(
                f"cannot make a Parameter of a {type(data).__name__}: its detach() gives a "
                f"{type(parameter).__name__}; let detach() return the same class"
            )
        parameter._is_param = True
        return parameter

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self, **options: object) -> str:
        text = super().__repr__(**options)
        if type(self) is not Parameter:
            text = f"Parameter({text})"
        return f"Parameter containing:\n{text}"

    def detach(self) -> Tensor:
        """The same elements as a plain tensor that is not part of the tape."""
        return self._constant(Tensor)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        if naming.reduced_parameter is not None and type(self) is Parameter:
            return naming.reduced_parameter(self)
        return _rebuild_parameter, (
            type(self), self.data, self.requires_grad, self._shown_attributes(),
        )  # fmt: skip

    __torch_function__: Any = _disabled_torch_function_impl


def _rebuild_parameter(
    cls: type[Parameter], data: Tensor, requires_grad: bool, attributes: Kwargs
) -> Parameter:
    """A parameter from its pickled state."""
    parameter = Tensor._make_subclass(cls, data, requires_grad)
    parameter.__dict__.update(attributes)
    return parameter


class _BufferMeta(TensorMeta):
    """Counts tensors as buffers if they carry the flag ``_is_buffer``."""

    def __instancecheck__(cls, instance: object) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Buffer and _has_flag(instance, "_is_buffer")


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that belongs to a module's state but is not trained, such as a running mean.

    Assigned to an attribute of a module, it is registered there. The result has the class of
    ``data``; ``isinstance(tensor, Buffer)`` checks its flag ``_is_buffer``.

    Args:
        data: The elements; by default an empty tensor.
        persistent: Whether it is part of the module's `state_dict`.

    Raises:
        TypeError: ``data`` is not a tensor.
    """

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Self:
        if data is None:
            data = Tensor()
        _check_is_tensor("Buffer", data)
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer

    __torch_function__: Any = _disabled_torch_function_impl


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet.

    Args:
        requires_grad: Whether gradients will be computed for it.
        device: The device that it will be on.
        dtype: The dtype that it will have.

    >>> from flambeau import nn
    >>> weight = nn.UninitializedParameter()
    >>> weight
    <UninitializedParameter>
    >>> weight.materialize((2, 3))
    >>> type(weight).__name__, weight.shape
    ('Parameter', flambeau.Size([2, 3]))
    """

    cls_to_become: Any = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: DeviceLike = None, dtype: DTypeLike = None
    ) -> UninitializedParameter:
        nothing = empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, nothing, requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet.

    Args:
        requires_grad: Whether gradients will be computed for it.
        device: The device that it will be on.
        dtype: The dtype that it will have.
        persistent: Whether it is part of the module's `state_dict`.
    """

    cls_to_become: Any = Tensor
    persistent: bool

    def __new__(
        cls,
        requires_grad: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        nothing = empty(0, device=device, dtype=dtype)
        buffer = Tensor._make_subclass(cls, nothing, requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer

    def emptied(self, device: DeviceLike = None) -> Self:
        """An uninitialized buffer like this one, on another device."""
        buffer = super().emptied(device)
        buffer.persistent = self.persistent
        return buffer

    @classmethod
    def _as_result(cls, source: Any, result: object) -> object:
        # A module stores the result of a conversion in the buffer's place.
        if not isinstance(result, Tensor) or isinstance(result, cls):
            return result
        buffer = cls(result.requires_grad, result.device, result.dtype, source.persistent)
        vars(buffer).update(source._shown_attributes())
        return buffer


def _has_flag(instance: object, flag: str) -> bool:
    return isinstance(instance, Tensor) and getattr(instance, flag, False)


def _check_is_tensor(kind: str, data: object) -> None:
    if not isinstance(data, Tensor):
        raise TypeError(
            f"a {kind} is made of a Tensor, but got a {type(data).__name__}; "
            "convert it with flambeau.tensor() first"
        )


register_plain_type(Parameter)
register_plain_type(Buffer)
