"""The base of all optimizers: groups of parameters, state, hooks, saving and loading."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeAlias

from flambeau.core.programs import finishing
from flambeau.core.support import world
from flambeau.core.support.handle import RemovableHandle
from flambeau.core.support.identity import Same
from flambeau.core.support.modes import modes
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.nn.registry import HookRegistry
from flambeau.optim.groups import (
    AnnouncedList,
    OptimizerState,
    ParameterGroup,
    Structure,
)
from flambeau.optim.loading import Loaded, check_and_convert
from flambeau.optim.step_hooks import (
    _global_optimizer_post_hooks,
    _global_optimizer_pre_hooks,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    registered,
    with_hooks,
)

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]

Parameters: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
ParamsT = Parameters
StateDict: TypeAlias = dict[str, Any]


class _Required:
    """Marks an option that every group must set."""

    def __repr__(self) -> str:
        return "<required parameter>"


required: Any = _Required()


class Optimizer:
    """Base class of all optimizers.

    A subclass defined by a formula for one parameter extends ``RuleOptimizer`` of
    `flambeau.optim.rule`; one written with tensor operators, as in PyTorch, overrides `step`.

    Args:
        params: Tensors; pairs of name and tensor; or groups: dictionaries with ``"params"`` and the
            options that differ from ``defaults``.
        defaults: The options of groups that do not set them.

    Raises:
        TypeError: ``params`` is a tensor, or holds objects other than tensors.
        ValueError: There are no parameters, one of them is not a leaf, or is in two groups.
    """

    # The options that are numbers, mirrored in Cells, and the numbers that select a formula by
    # being zero.
    numbers: ClassVar[tuple[str, ...]] = ()
    switches: ClassVar[tuple[str, ...]] = ()
    # Whether steps are compiled programs, so that every change must be announced here.
    has_programs: ClassVar[bool] = False

    state: OptimizerState
    param_groups: Any

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in cls.__dict__:
            cls.__init__ = trimmed(cls.__init__)
        if "step" in cls.__dict__:
            cls.step = with_hooks(cls.step)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Here, since optimizers that wrap another do not always call `__init__`.
        optimizer = super().__new__(cls)
        optimizer._prepare()
        return optimizer

    def __init__(self, params: Parameters, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "an optimizer takes an iterable of tensors or of dictionaries, but got a "
                f"{type(params).__name__}; put it in a list"
            )
        if not hasattr(params, "__iter__"):
            raise TypeError(
                "an optimizer takes an iterable of tensors or of dictionaries, but got a "
                f"{type(params).__name__}"
            )
        self.defaults = defaults
        self.state = OptimizerState((), self._structure)
        self.param_groups = self._group_list(())
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError(
                "the optimizer got an empty list of parameters; layers in a plain list or dict are "
                "not registered: use nn.ModuleList or nn.ModuleDict"
            )
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _prepare(self) -> None:
        """Set up attributes that are neither saved nor copied."""
        self._structure = Structure(self)
        # Whether there was a step since the first scheduler was created; None before that.
        self._opt_called: bool | None = None
        self._first_versions = 0
        self._in_step = False
        self._optimizer_step_pre_hooks = HookRegistry()
        self._optimizer_step_post_hooks = HookRegistry()
        self._optimizer_state_dict_pre_hooks = HookRegistry()
        self._optimizer_state_dict_post_hooks = HookRegistry()
        self._optimizer_load_state_dict_pre_hooks = HookRegistry()
        self._optimizer_load_state_dict_post_hooks = HookRegistry()

    def _patch_step_function(self) -> None:
        """Do nothing: every class runs the hooks of its steps.

        Optimizers that wrap another and leave out `__init__` call this, as it does in PyTorch.
        """

    def _group_list(self, groups: Iterable[Any]) -> AnnouncedList:
        return AnnouncedList(groups, self._structure, self._as_group)

    def _as_group(self, entries: dict[str, Any]) -> ParameterGroup:
        if isinstance(entries, ParameterGroup):
            if self._holds(entries):
                return entries
            if self._takes_over(entries):
                entries.move_to(self.numbers, self.switches, self._structure)
                # Programs of the original optimizer may have its numbers as constants.
                self._structure.numbers_are_frozen = True
                return entries
        return ParameterGroup(entries, self.numbers, self.switches, self._structure)

    def __setattr__(self, name: str, value: Any) -> None:
        # A script may assign these attributes; the new values must announce their changes too.
        if name in ("param_groups", "state") and not self._holds(value):
            if not self._takes_over(value):
                groups = name == "param_groups"
                value = (
                    self._group_list(value) if groups else OptimizerState(value, self._structure)
                )
            elif name == "state":
                value.move_to(self._structure)
            else:
                value.structure, value.convert = self._structure, self._as_group
                value[:] = list(value)
            self._structure.change()
        object.__setattr__(self, name, value)

    def _holds(self, container: Any) -> bool:
        """Whether groups or state announce their changes as this optimizer needs.

        An optimizer without programs can share the groups or state of another, as a wrapper does.
        """
        structure = getattr(container, "structure", None)
        return structure is self._structure or (structure is not None and not self.has_programs)

    def _takes_over(self, container: Any) -> bool:
        """Whether another optimizer with the groups or the state can continue without them."""
        structure = getattr(container, "structure", None)
        return structure is not None and not structure.owner.has_programs

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": {
                key: dict(value) if isinstance(value, dict) else value
                for key, value in self.state.items()
            },
            "param_groups": [
                dict(group) | {"params": list(group["params"])} for group in self.param_groups
            ],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        for group in self.param_groups:
            for name, default in self.defaults.items():
                if name not in group and default is not required:
                    group[name] = default

    def __repr__(self) -> str:
        parts = []
        for i, group in enumerate(self.param_groups):
            names = sorted(name for name in group if name != "params")
            lines = [f"Parameter Group {i}", *(f"    {name}: {group[name]}" for name in names)]
            parts.append("\n" + "\n".join(lines) + "\n")
        return f"{type(self).__name__} ({''.join(parts)})"

    # Steps

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters; to be defined by subclasses.

        Args:
            closure: Recomputes the loss, with gradients, and returns it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters.

        Args:
            set_to_none: Set them to ``None``; otherwise fill existing ones with zeros.
        """
        if not set_to_none:
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        _fill_with_zeros(param.grad)
            return
        # The old gradient is not read: a compiled step would then depend on it.
        if modes.trace is None:
            for group in self.param_groups:
                for param in dict.__getitem__(group, "params"):
                    param._grad = None
            world.bump_gradients()
        else:
            if self._structure.trace is not None:
                self._structure.trace.watch(self.param_groups, self._members)
            for group in self.param_groups:
                for param in dict.__getitem__(group, "params"):
                    param.grad = None

    def _members(self) -> Any:
        """The parameters, for the guard of a compiled function that resets their gradients."""
        return [[*map(Same, dict.__getitem__(group, "params"))] for group in self.param_groups]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, for example of layers that are unfrozen.

        Args:
            param_group: ``"params"`` and the options that differ from the defaults. It is completed
                in place.

        Raises:
            TypeError: It is not a dictionary, or ``"params"`` is a set or holds values other than
                tensors.
            ValueError: A parameter is not a leaf or is in another group, only some have names, or a
                required option is missing.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"a parameter group must be a dict, got {type(param_group).__name__}")
        params, names = _split_names(param_group["params"])
        self._check_params(params)
        self._check_names(names is not None or "param_names" in param_group)
        entries = dict(param_group, params=params)
        if names is not None:
            entries["param_names"] = names
        for name, default in self.defaults.items():
            if default is required and name not in entries:
                raise ValueError(f"the parameter group does not set the required option {name!r}")
            entries.setdefault(name, default)
        param_group.update(entries)
        self.param_groups.append(param_group)

    def _check_params(self, params: list[Any]) -> None:
        differentiable = self.defaults.get("differentiable")
        for i, param in enumerate(params):
            if not isinstance(param, Tensor):
                raise TypeError(
                    f"an optimizer can only optimize Tensors, but parameter {i} of the group is a "
                    f"{type(param).__name__}"
                )
            if not differentiable and not (param.is_leaf or param.retains_grad):
                raise ValueError(
                    f"cannot optimize a non-leaf Tensor: parameter {i} of the group, of shape "
                    f"{list(param.shape)}, is the result of {param.grad_fn.name()}"
                )
        own = set(map(id, params))
        if len(own) != len(params):
            warn(
                "a parameter group holds the same parameter more than once; it is updated as often",
            )
        for i, group in enumerate(self.param_groups):
            for param in group["params"]:
                if id(param) in own:
                    raise ValueError(
                        f"a parameter of shape {list(param.shape)} appears in more than one "
                        f"parameter group; it is in group {i} already"
                    )

    def _check_names(self, named: bool) -> None:
        for group in self.param_groups:
            if ("param_names" in group) != named:
                has = "with" if named else "without"
                raise ValueError(
                    "all parameter groups must be with names, or all without: cannot add a group "
                    f"{has} names to this optimizer"
                )

    # Hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step.

        ``args`` starts with the optimizer. The hook returns ``None`` or the new ``(args, kwargs)``.
        """
        return registered(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return registered(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` before `state_dict`."""
        return registered(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[[Optimizer, StateDict], StateDict | None], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` on the result of `state_dict`.

        The hook may change the dictionary, or return another one to use instead.
        """
        return registered(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[[Optimizer, StateDict], StateDict | None], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before `load_state_dict` loads it.

        The hook gets a shallow copy, which it may change, or returns another dictionary to load.
        """
        return registered(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` after `load_state_dict`."""
        return registered(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # Saving and loading

    def state_dict(self) -> StateDict:
        """The state and options of this optimizer, in PyTorch's layout.

        Returns:
            ``"state"``: the state of each parameter, by its number; and ``"param_groups"``: the
            options of each group, with numbers for parameters. The tensors are the optimizer's own,
            not copies.
        """
        for hook in tuple(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        numbers: dict[int, int] = {}
        groups, start = [], 0
        for group in self.param_groups:
            params = group["params"]
            # A parameter that occurs twice has its last number.
            numbers |= {id(param): i for i, param in enumerate(params, start)}
            start += len(params)
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = [numbers[id(param)] for param in params]
            groups.append(packed)
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: (
                dict(value) if isinstance(value, dict) else value
            )
            for key, value in self.state.items()
        }
        result: StateDict = {"state": state, "param_groups": groups}
        for hook in tuple(self._optimizer_state_dict_post_hooks.values()):
            replaced = hook(self, result)
            result = result if replaced is None else replaced
        return result

    @trimmed
    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load the state and options that `state_dict` returned, here or in PyTorch.

        All checks come first: if it raises, the optimizer is unchanged.

        Args:
            state_dict: Its tensors may be flambeau's, PyTorch's, or NumPy arrays.

        Raises:
            ValueError: The groups, or the shapes of the state, do not fit the parameters; the state
                of one lacks an entry, or belongs to a parameter that no group has.
            KeyError: ``"state"`` or ``"param_groups"`` is missing.
        """
        state_dict = dict(state_dict)
        for hook in tuple(self._optimizer_load_state_dict_pre_hooks.values()):
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        loaded: Loaded = check_and_convert(self.param_groups, state_dict, self._expected_shapes)
        found = {"state": loaded.state, "param_groups": loaded.groups}
        finishing.finish(lambda _: self.__setstate__(found))
        for hook in tuple(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    def _first_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The initial state of ``param``, if using it changes nothing."""
        return {}

    def _expected_shapes(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The required shapes of the entries of a parameter's state, if known."""
        return {}

    def _watched_hooks(self) -> tuple[Any, ...]:
        """The hooks of a step, for the guard of a compiled one."""
        return tuple(
            Same(hook)
            for hooks in (
                _global_optimizer_pre_hooks,
                self._optimizer_step_pre_hooks,
                self._optimizer_step_post_hooks,
                _global_optimizer_post_hooks,
            )
            for hook in hooks.values()
        )


def _split_names(params: Any) -> tuple[list[Any], list[str] | None]:
    """The parameters of a new group, and their names if they came with names."""
    if isinstance(params, Tensor):
        return [params], None
    if isinstance(params, set | frozenset):
        raise TypeError(
            "the parameters of an optimizer need an order that is the same in every run, which a "
            "set does not have; use a list"
        )
    members = list(params)
    names = [each[0] for each in members if isinstance(each, tuple)]
    if not names:
        return members, None
    if len(names) != len(members):
        raise ValueError(
            "either all parameters of an optimizer have names or none: "
            f"{len(members) - len(names)} of {len(members)} have none"
        )
    return [each[1] for each in members], names


def _fill_with_zeros(grad: Tensor) -> None:
    if grad.grad_fn is not None:
        grad.detach_()
    else:
        grad.requires_grad_(False)
    grad.zero_()
