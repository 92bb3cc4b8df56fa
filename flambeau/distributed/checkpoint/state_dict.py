"""State dicts of models and optimizers by parameter name, sharded or whole.

An optimizer's own state dict numbers its parameters. Here they are keyed by name, so that a
checkpoint fits a model with another order of parameters, or other shardings.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import PREFIX
from flambeau.distributed.objects import broadcast_object_list
from flambeau.distributed.process_group import get_rank, is_initialized
from flambeau.distributed.tensor.spreading import full_tensor, lies
from flambeau.nn.module import Module

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict",
    "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


@dataclasses.dataclass
class StateDictOptions:
    """How state dicts are made and loaded.

    Attributes:
        full_state_dict: Gather each sharded tensor.
        cpu_offload: Put tensors on the CPU.
        ignore_frozen_params: Skip parameters that require no grad.
        keep_submodule_prefixes: Accepted for compatibility.
        strict: Whether names that are missing or unknown are errors.
        broadcast_from_rank0: Load the state dict of process 0, through its memory; others may give
            an empty one.
        flatten_optimizer_state_dict: Not supported.
        dsd_fqn_modifiers: Accepted for PyTorch's sake.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"

    def __post_init__(self) -> None:
        if self.flatten_optimizer_state_dict:
            raise NotImplementedError(
                "StateDictOptions: flatten_optimizer_state_dict is not supported; leave it out, "
                "and the state of each parameter is a dictionary under its name"
            )


def get_model_state_dict(
    model: Module,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state dict of ``model``.

    Args:
        model: A model, whose parameters may be sharded.
        submodules: Not supported.
        options: See `StateDictOptions`.
    """
    _refuse_submodules(submodules)
    options = options or StateDictOptions()
    frozen = set()
    if options.ignore_frozen_params:
        frozen = {name for each, name in _names(model).items() if not each.requires_grad}
    found = model.state_dict()
    return {name: _placed(each, options) for name, each in found.items() if name not in frozen}


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Load a state dict; each tensor gets the sharding of the one that it replaces.

    Returns:
        The missing and unexpected names, as from `Module.load_state_dict`.
    """
    strict = options is None or options.strict
    model_state_dict = _given(model_state_dict, options)
    return model.load_state_dict(model_state_dict, strict=strict)


def get_optimizer_state_dict(
    model: Module,
    optimizers: Any,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of optimizers, by the names of the parameters.

    A parameter before its first step has its initial state, if there is one: so a new optimizer's
    state dict has entries that a checkpoint can be loaded into.

    Args:
        model: The model that has the parameters.
        optimizers: One optimizer, or several of different parameters.
        submodules: Not supported.
        options: See `StateDictOptions`.

    Raises:
        RuntimeError: A parameter of an optimizer is not in the model.
    """
    _refuse_submodules(submodules)
    options = options or StateDictOptions()
    names = _names(model)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _several(optimizers):
        own = optimizer.state_dict()
        by_number = _by_number(optimizer, own, names)
        for number, values in {**_first_states(optimizer, by_number), **own["state"]}.items():
            is_state = number in by_number
            state[by_number[number] if is_state else number] = (
                {key: _placed(each, options) for key, each in values.items()}
                if is_state
                else _placed(values, options)
            )
        groups += [
            group | {"params": [by_number[each] for each in group["params"]]}
            for group in own["param_groups"]
        ]
    return {"state": state, "param_groups": groups}


def set_optimizer_state_dict(
    model: Module,
    optimizers: Any,
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load the state of optimizers from the result of `get_optimizer_state_dict`.

    Args:
        model: The model that has the parameters.
        optimizers: The optimizers, with their parameters in any order.
        optim_state_dict: The state by names.
        options: With ``strict=False`` states of other parameters are ignored.

    Raises:
        RuntimeError: A parameter of an optimizer is not in the model, or ``optim_state_dict`` has
            the state of a parameter that no optimizer has. Nothing is loaded then.
        KeyError: ``optim_state_dict`` has no group with a parameter. Nothing is loaded then.
    """
    several = _several(optimizers)
    optim_state_dict = _given(optim_state_dict, options)
    numbered = _numbered(several, _names(model), optim_state_dict, options)
    for optimizer, state_dict in zip(several, numbered, strict=True):
        optimizer.load_state_dict(state_dict)


def get_state_dict(
    model: Module,
    optimizers: Any,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state dicts of a model and of its optimizers."""
    own = get_model_state_dict(model, submodules=submodules, options=options)
    return own, get_optimizer_state_dict(model, optimizers, options=options)


def set_state_dict(
    model: Module,
    optimizers: Any,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Load the state dicts of a model and of its optimizers.

    Raises:
        RuntimeError: The model's state dict does not fit it, a parameter of an optimizer is not in
            the model, or ``optim_state_dict`` has the state of a parameter that no optimizer has.
            Nothing is loaded then.
        KeyError: ``optim_state_dict`` has no group with a parameter. Nothing is loaded then.
    """
    several = _several(optimizers)
    model_state_dict = _given(model_state_dict, options)
    optim_state_dict = _given(optim_state_dict, options)
    if options is not None:
        options = dataclasses.replace(options, broadcast_from_rank0=False)
    _numbered(several, _names(model), optim_state_dict, options)
    result = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, several, optim_state_dict, options=options)
    return result


def _given(state_dict: dict[str, Any], options: StateDictOptions | None) -> dict[str, Any]:
    """The state dict to load: this process's, or that of process 0."""
    if options is None or not options.broadcast_from_rank0 or not is_initialized():
        return state_dict
    found = [state_dict if get_rank() == 0 else {}]
    broadcast_object_list(found, src=0)
    return found[0]


def _placed(value: Any, options: StateDictOptions) -> Any:
    if not isinstance(value, Tensor):
        return value
    if options.full_state_dict and lies(value) is not None:
        value = full_tensor(value)
    return value.cpu() if options.cpu_offload else value


def _several(optimizers: Any) -> list[Any]:
    return [optimizers] if hasattr(optimizers, "param_groups") else [*optimizers]


def _names(model: Module) -> dict[Any, str]:
    return {
        parameter: name.replace(f"{PREFIX}.", "") for name, parameter in model.named_parameters()
    }


def _by_number(optimizer: Any, state_dict: dict[str, Any], names: dict[Any, str]) -> dict[int, str]:
    """The names of an optimizer's parameters, by their numbers in its state dict."""
    found: dict[int, str] = {}
    for group, own in zip(state_dict["param_groups"], optimizer.param_groups, strict=True):
        for number, parameter in zip(group["params"], own["params"], strict=True):
            if parameter not in names:
                raise RuntimeError(
                    f"a parameter of shape {list(parameter.shape)} of {type(optimizer).__name__} "
                    "is none of the model's; give the model that has all parameters of the "
                    "optimizer"
                )
            found[number] = names[parameter]
    return found


def _first_states(optimizer: Any, by_number: dict[int, str]) -> dict[int, Any]:
    """The initial states of parameters, by number."""
    first = getattr(optimizer, "_first_state", None)
    if first is None:  # An optimizer of another library.
        return {}
    params = [(each, group) for group in optimizer.param_groups for each in group["params"]]
    states = {i: first(*each) for i, each in enumerate(params) if i in by_number}
    return {i: each for i, each in states.items() if each}


def _numbered(
    optimizers: list[Any],
    names: dict[Any, str],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None,
) -> list[dict[str, Any]]:
    """The optimizers' own state dicts, with numbered parameters, from one keyed by names."""
    group_of = {
        name: group for group in optim_state_dict["param_groups"] for name in group["params"]
    }
    state = optim_state_dict["state"]
    shared = {key: each for key, each in state.items() if key not in group_of}
    left = [key for key in state if key in group_of]
    found = []
    for optimizer in optimizers:
        own = optimizer.state_dict()
        by_number = _by_number(optimizer, own, names)
        missing = [name for name in by_number.values() if name not in group_of]
        if missing:
            raise KeyError(
                f"set_optimizer_state_dict(): no group of the state dict has {missing[0]!r}; give "
                "it what get_optimizer_state_dict() gave for a model with the same parameters"
            )
        groups = [
            group_of[by_number[group["params"][0]]] | {"params": group["params"]}
            if group["params"]
            else group
            for group in own["param_groups"]
        ]
        entries = {i: state[name] for i, name in by_number.items() if name in state}
        left = [name for name in left if name not in by_number.values()]
        found.append({"state": entries | shared, "param_groups": groups})
    if left and (options is None or options.strict):
        more = f", and of {len(left) - 1} more" if left[1:] else ""
        raise RuntimeError(
            f"set_optimizer_state_dict(): the state dict has a state of {left[0]!r}, a parameter "
            f"of none of the optimizers{more}; give all optimizers, or "
            "StateDictOptions(strict=False) to leave them out"
        )
    return found


def _refuse_submodules(submodules: Any) -> None:
    if submodules:
        raise NotImplementedError(
            "submodules is not supported; take the state dict of the submodule itself"
        )
