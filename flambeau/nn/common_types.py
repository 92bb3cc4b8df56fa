"""The types that signatures of layers and modules share: devices, sizes, arguments and hooks.

Those with an underscore have PyTorch's names: one number for all dimensions, or one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from flambeau.core.devices.device import device
from flambeau.core.support.dtype import dtype
from flambeau.core.values.tensor import Tensor

#: A device as users write it; ``None`` means the default.
DeviceLike: TypeAlias = device | str | int | None
#: A dtype as users write it, also as a type of Python's numbers; ``None`` means the default.
DTypeLike: TypeAlias = dtype | type[bool | int | float | complex] | None
#: One size for all dimensions, or one for each.
Sizes: TypeAlias = int | Sequence[int]
#: `Sizes` of an output; ``None`` keeps the input's.
OutputSizes: TypeAlias = int | Sequence[int | None] | None

#: A pooled tensor; with ``return_indices`` a pair of it and the positions.
Pooled: TypeAlias = Any

#: The positional arguments of a call.
Args: TypeAlias = tuple[Any, ...]
#: The keyword arguments of a call, or other values by name.
Kwargs: TypeAlias = dict[str, Any]
#: Tensors and extra state by dotted path.
StateDict: TypeAlias = dict[str, Any]
#: One gradient for each input or output, ``None`` where there is none.
Grads: TypeAlias = tuple[Any, ...]

#: Takes the module and the arguments; its result replaces the arguments.
ForwardPreHook: TypeAlias = Callable[[Any, Args], Any] | Callable[[Any, Args, Kwargs], Any]
#: Takes the module, the arguments and the output; its result replaces the output.
ForwardHook: TypeAlias = Callable[[Any, Args, Any], Any] | Callable[[Any, Args, Kwargs, Any], Any]
#: Takes the module and ``grad_output``; its result replaces the latter.
GradPreHook: TypeAlias = Callable[[Any, Grads], Tensor | Sequence[Tensor | None] | None]
#: Takes the module, ``grad_input`` and ``grad_output``; its result replaces ``grad_input``.
GradHook: TypeAlias = Callable[[Any, Grads, Grads], Tensor | Sequence[Tensor | None] | None]
#: Takes the module, a name and a member; its result replaces the member.
RegistrationHook: TypeAlias = Callable[[Any, str, Any], Any]

_T = TypeVar("_T")
_scalar_or_tuple_any_t: TypeAlias = _T | tuple[_T, ...]
_scalar_or_tuple_1_t: TypeAlias = _T | tuple[_T]
_scalar_or_tuple_2_t: TypeAlias = _T | tuple[_T, _T]
_scalar_or_tuple_3_t: TypeAlias = _T | tuple[_T, _T, _T]
_scalar_or_tuple_4_t: TypeAlias = _T | tuple[_T, _T, _T, _T]
_scalar_or_tuple_5_t: TypeAlias = _T | tuple[_T, _T, _T, _T, _T]
_scalar_or_tuple_6_t: TypeAlias = _T | tuple[_T, _T, _T, _T, _T, _T]

_size_any_t = _scalar_or_tuple_any_t[int]
_size_1_t = _scalar_or_tuple_1_t[int]
_size_2_t = _scalar_or_tuple_2_t[int]
_size_3_t = _scalar_or_tuple_3_t[int]
_size_4_t = _scalar_or_tuple_4_t[int]
_size_5_t = _scalar_or_tuple_5_t[int]
_size_6_t = _scalar_or_tuple_6_t[int]

_size_any_opt_t = _scalar_or_tuple_any_t[int | None]
_size_2_opt_t = _scalar_or_tuple_2_t[int | None]
_size_3_opt_t = _scalar_or_tuple_3_t[int | None]

_ratio_2_t = _scalar_or_tuple_2_t[float]
_ratio_3_t = _scalar_or_tuple_3_t[float]
_ratio_any_t = _scalar_or_tuple_any_t[float]

_tensor_list_t = _scalar_or_tuple_any_t[Tensor]
_maybe_indices_t = _scalar_or_tuple_2_t[Tensor]
