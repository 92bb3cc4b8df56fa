"""`torch._tensor`: the class of tensors, and the functions that pickles of its subclasses call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.as_torch.private._utils import _set_obj_state
from flambeau.core.values.tensor import Tensor
from flambeau.nn.parameter import Buffer

__all__ = ["Tensor"]


def _rebuild_from_type_v2(
    func: Callable[..., Any], new_type: type, args: tuple[Any, ...], state: Any
) -> Any:
    """The result of a function of `torch._utils`, as a subclass of Tensor with its attributes."""
    result = func(*args)
    if isinstance(state, dict) and state.get("_is_buffer") is True:
        return Buffer(result, persistent=state.get("persistent") is not False)
    if type(result) is not new_type:
        result = result.as_subclass(new_type)
    if hasattr(new_type, "__setstate__"):
        result.__setstate__(state)
        return result
    return _set_obj_state(result, state)
