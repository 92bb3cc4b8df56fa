"""The dtype in which a sharded module computes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flambeau.core.support.modes import modes
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.batches import mapped
from flambeau.distributed.fsdp.api import MixedPrecisionPolicy
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

__all__: list[str] = []

_Table = dict[str, Any]


def compute_in(module: Module, policy: MixedPrecisionPolicy, own: Iterable[Parameter]) -> None:
    """Make a module compute with copies of its parameters in another dtype.

    Gradients have the dtype of the parameters.

    Args:
        module: The module.
        policy: The dtypes.
        own: The parameters that no other policy applies to.
    """
    ids = {*map(id, own)}
    places: list[tuple[_Table, str, Parameter]] = [
        (each._parameters, name, parameter)
        for each in module.modules()
        for name, parameter in each._parameters.items()
        if parameter is not None and id(parameter) in ids and parameter.is_floating_point()
    ]
    running = 0

    def enter(_: Any, args: Any, kwargs: Any) -> Any:
        nonlocal running
        running += 1
        if policy.param_dtype is None:
            return args, kwargs
        copies: dict[int, Any] = {}
        for table, name, parameter in places if running == 1 else ():
            if modes.trace is not None:
                modes.trace.touch(table)
            if id(parameter) not in copies:
                copies[id(parameter)] = parameter.to(policy.param_dtype)
            # Not by the module's own assignment, which would invalidate all compiled programs.
            dict.__setitem__(table, name, copies[id(parameter)])
        if not policy.cast_forward_inputs:
            return args, kwargs
        return _cast(args, policy.param_dtype), _cast(kwargs, policy.param_dtype)

    def leave(_: Any, args: Any, output: Any) -> Any:
        nonlocal running
        running -= 1
        for table, name, parameter in () if running else places:
            dict.__setitem__(table, name, parameter)
        return _cast(output, policy.output_dtype)

    module.register_forward_pre_hook(enter, with_kwargs=True)
    module.register_forward_hook(leave, always_call=True)


def _cast(value: Any, dtype: Any) -> Any:
    """Floating-point tensors in another dtype."""

    def cast(tensor: Tensor) -> Any:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    return value if dtype is None else mapped(value, cast)
