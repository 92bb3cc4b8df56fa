"""An optimizer's step on temporarily swapped parameters and state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.optim.groups import OptimizerState
from flambeau.optim.optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer,
    swapin_parameters: Mapping[str, Tensor],
    swapin_optim_state: Mapping[str, Any],
) -> Iterator[None]:
    """Inside the block, the optimizer has other parameters and another state.

    Unlike after ``load_state_dict``, ``step()`` writes to the given parameters and to the tensors
    of the given state. Afterwards the optimizer is unchanged.

    Args:
        optimizer: The optimizer, which must have stepped or loaded a state.
        swapin_parameters: The new parameters, in the order of the optimizer's.
        swapin_optim_state: The new state, in the form of ``optimizer.state_dict()``. Tensors that a
            step adds to it are lost.

    Raises:
        RuntimeError: The optimizer has no state yet, or the groups, the options or the parameters
            are not those of the optimizer.

    >>> import flambeau
    >>> from flambeau.optim import swap_in_optimizer_params_and_state
    >>> w = flambeau.nn.Parameter(flambeau.ones(1))
    >>> optimizer = flambeau.optim.SGD([w], lr=0.5, momentum=0.9)
    >>> w.grad = flambeau.ones(1)
    >>> optimizer.step()
    >>> other = flambeau.zeros(1)
    >>> other.grad = flambeau.ones(1)
    >>> state = {"state": {}, "param_groups": optimizer.state_dict()["param_groups"]}
    >>> with swap_in_optimizer_params_and_state(optimizer, {"w": other}, state):
    ...     optimizer.step()
    >>> w, other
    (Parameter containing:
    tensor([0.5000], requires_grad=True), tensor([-0.5000]))
    """
    lent = _checked(optimizer, list(swapin_parameters.values()), swapin_optim_state)
    entries = dict(swapin_optim_state["state"])
    owners = {
        number: param
        for params, options in lent
        for number, param in zip(options["params"], params, strict=True)
    }
    strangers = [number for number in entries if number not in owners]
    if strangers:
        raise _unlike(f"there is a state of {strangers}, which no group has among its parameters")
    state, groups = optimizer.state, list(optimizer.param_groups)
    before = [dict(group) for group in groups]
    try:
        for group, (params, options) in zip(groups, lent, strict=True):
            group.update({**options, "params": params})
        optimizer.state = OptimizerState(
            ((owners[number], dict(each)) for number, each in entries.items()), optimizer._structure
        )
        optimizer._structure.change()
        yield
    finally:
        for group, options in zip(groups, before, strict=True):
            group.clear()
            group.update(options)
        optimizer.state = state
        optimizer._structure.change()


def _checked(
    optimizer: Optimizer, parameters: list[Tensor], state_dict: Mapping[str, Any]
) -> list[tuple[list[Tensor], dict[str, Any]]]:
    """For each group of the optimizer, the swapped parameters and options."""
    if not optimizer.state:
        raise RuntimeError(
            "swap_in_optimizer_params_and_state() needs an optimizer that has a state; let it step "
            "first, or load one"
        )
    if not {"state", "param_groups"} <= set(state_dict):
        raise _unlike(f"it must have 'state' and 'param_groups', and has {list(state_dict)}")
    groups, lent = optimizer.param_groups, state_dict["param_groups"]
    if len(lent) != len(groups):
        raise _unlike(f"it has {len(lent)} parameter groups, the optimizer {len(groups)}")
    found = []
    rest = list(parameters)
    for i, (group, options) in enumerate(zip(groups, lent, strict=True)):
        if set(options) != set(group):
            raise _unlike(f"group {i} has the options {sorted(options)}, not {sorted(group)}")
        count = len(group["params"])
        if len(options["params"]) != count:
            raise _unlike(
                f"group {i} has {len(options['params'])} parameters, the optimizer's {count}"
            )
        found.append((rest[:count], dict(options)))
        rest = rest[count:]
    needed = sum(len(group["params"]) for group in groups)
    if len(parameters) != needed:
        raise RuntimeError(
            f"swap_in_optimizer_params_and_state(): {len(parameters)} parameters were given, the "
            f"optimizer has {needed}"
        )
    return found


def _unlike(subject: str) -> RuntimeError:
    return RuntimeError(
        f"swap_in_optimizer_params_and_state(): the state is not one of this optimizer: {subject}"
    )
