"""Pickles of tensors under the name torch, as calls of PyTorch's functions.

PyTorch can read them; here `private._utils` defines the same functions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from flambeau.core.values.cell import is_abstract

if TYPE_CHECKING:
    from flambeau.core.values.tensor import Tensor

__all__: list[str] = []


def reduced(tensor: Tensor) -> tuple[Any, ...]:
    """The result of ``__reduce_ex__`` for a tensor that is not a parameter."""
    from flambeau.core.values.tensor import Tensor

    names = import_module("torch._utils")
    array = tensor._read()
    args: tuple[Any, ...]
    if is_abstract(array):
        build = names._rebuild_meta_tensor_no_storage
        args = tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.requires_grad
    else:
        build = names._rebuild_device_tensor_from_numpy
        # A copy, since PyTorch shares the memory and may write to it. NumPy lacks JAX's extension
        # dtypes, whose values float32 represents exactly.
        values = np.array(array)
        values = values.astype(np.float32) if values.dtype.kind == "V" else values
        args = values, tensor.dtype, str(tensor.device), tensor.requires_grad
    state = tensor._shown_attributes()
    if type(tensor) is Tensor and not state:
        return build, args
    from_type = import_module("torch._tensor")._rebuild_from_type_v2
    return from_type, (build, type(tensor), args, dict(state))


def reduced_parameter(parameter: Tensor) -> tuple[Any, ...]:
    """The result of ``__reduce_ex__`` for a parameter."""
    names = import_module("torch._utils")
    hooks = import_module("collections").OrderedDict()
    state = dict(parameter._shown_attributes())
    if state:
        build = names._rebuild_parameter_with_state
        return build, (parameter.data, parameter.requires_grad, hooks, state)
    return names._rebuild_parameter, (parameter.data, parameter.requires_grad, hooks)
