"""Parameters and buffers whose shape is not known yet.

They have a device and a dtype, but no shape and no elements. `materialize` gives the object a shape
and changes it into an ordinary parameter or tensor.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, Self, SupportsIndex

import flambeau.ops  # noqa: F401 - attaches the methods that are refused here
from flambeau.core.values.tensor import Tensor
from flambeau.nn.common_types import Args, DeviceLike, DTypeLike, Kwargs
from flambeau.ops.factories.creation import empty

_ALLOWED = (
    "char", "copy_", "cpu", "cuda", "double", "float", "get_device", "half", "int",
    "is_complex", "is_floating_point", "long", "short", "size", "to",
)  # fmt: skip


class UninitializedTensorMixin:
    """The base of uninitialized parameters and buffers.

    They can be moved to another device or dtype, copied and pickled, and have the attributes that
    do not depend on a shape. All other operations raise.
    """

    #: The class of the object after `materialize`.
    cls_to_become: Any = None

    _allowed_methods: tuple[Callable[..., object], ...] = (
        Tensor.__hash__,
        *(getattr(Tensor, name) for name in _ALLOWED),
    )

    if TYPE_CHECKING:
        # Defined by the Tensor class that this is mixed into.
        def __getattr__(self, name: str) -> Any: ...

    def materialize(
        self, shape: int | Sequence[int], device: DeviceLike = None, dtype: DTypeLike = None
    ) -> None:
        """Change this object into an ordinary parameter or tensor with elements to be filled.

        Args:
            shape: Its new shape.
            device: Its new device; by default its present one.
            dtype: Its new dtype; by default its present one.
        """
        self.data = empty(
            shape,
            device=self.device if device is None else device,
            dtype=self.dtype if dtype is None else dtype,
        )
        self.__class__ = self.cls_to_become

    def emptied(self, device: DeviceLike = None) -> Self:
        """An uninitialized tensor like this one, on another device."""
        cls: Any = type(self)
        return cls(self.requires_grad, self.device if device is None else device, self.dtype)

    def size(self, dim: int | None = None) -> Any:
        """The size of the placeholder for the elements: 0 along one dimension."""
        return self.data.size(dim)

    @property
    def shape(self) -> NoReturn:
        """Raises RuntimeError: there is no shape yet."""
        raise RuntimeError(
            "an uninitialized parameter or buffer has no shape. Call the module once, so that it "
            "takes its shapes from the input; or, if this happens in load_state_dict, do that with "
            "the module that the state was taken from"
        )

    def share_memory_(self) -> NoReturn:
        """Raises RuntimeError: there are no elements yet."""
        raise RuntimeError(
            "an uninitialized parameter or buffer has no memory to share. Call the module once, so "
            "that it takes its shapes from the input, before share_memory()"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __copy__(self) -> Self:
        copied = self.emptied()
        vars(copied).update(self._shown_attributes())
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return memo.setdefault(id(self), copy.copy(self))

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        arguments = (self.requires_grad, str(self.device), self.dtype)
        return type(self), arguments, self._shown_attributes() or None

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> Any:
        """Run ``func`` if it is allowed.

        Raises:
            ValueError: It is not allowed.
        """
        if func not in cls._allowed_methods:
            _refuse(cls, getattr(func, "__name__", repr(func)))
        plain = [_stand_in(each) if is_lazy(each) else each for each in args]
        result = func(*plain, **(kwargs or {}))
        return args[0] if result is plain[0] else cls._as_result(args[0], result)

    @classmethod
    def _as_result(cls, source: Any, result: object) -> object:
        """The tensor to return for ``result``, a ``source`` that was moved or cast."""
        return result


def _stand_in(tensor: UninitializedTensorMixin) -> Tensor:
    """A plain tensor with the device, dtype and flag of an uninitialized one."""
    plain = tensor.data
    plain.requires_grad = tensor.requires_grad
    return plain


def _refuse(cls: type, name: str) -> NoReturn:
    raise ValueError(
        f"{name}() is not possible on an {cls.__name__}, which has no shape yet: call the lazy "
        "module once with an input, so that it takes its shapes from that, or materialize() the "
        "tensor itself"
    )


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refused(self: object, *args: object, **kwargs: object) -> NoReturn:
        _refuse(type(self), name)

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = "Raises ValueError: there is no shape yet."
    return refused


def _refuse_methods_of(base: type) -> None:
    """Make the mixin refuse every method of ``base``, also methods that are no operators."""
    for cls in base.__mro__:
        for name, value in vars(cls).items():
            private = name.startswith("_") and not name.startswith("__")
            known = name in _ALLOWED or name in vars(UninitializedTensorMixin)
            if isinstance(value, FunctionType) and not (private or known or hasattr(object, name)):
                setattr(UninitializedTensorMixin, name, _refusal(name))


_refuse_methods_of(Tensor)


def is_lazy(param: object) -> bool:
    """Whether ``param`` is an uninitialized parameter or buffer."""
    return isinstance(param, UninitializedTensorMixin)
