"""The state of a module: tables of members and of hooks that announce every change.

A compiled program relies on a module's members, hooks and flags until they change. So each table
here calls `core.support.world.bump` after every change, by the module itself or by a user who
writes to ``module._modules`` directly.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeVar

from flambeau.core.support import naming
from flambeau.core.support.announcing import Announcing
from flambeau.core.support.modes import modes
from flambeau.core.support.world import bump
from flambeau.core.values.tensor import Tensor
from flambeau.nn.parameter import Parameter

Member = TypeVar("Member")


class Table(Announcing):
    """A dictionary that belongs to a module."""

    __slots__ = ()
    announces_changes = True

    if not TYPE_CHECKING:

        def __deepcopy__(self, memo: dict[int, object]) -> Self:
            found = memo[id(self)] = type(self)()
            for key, value in self.items():
                found[copy.deepcopy(key, memo)] = copy.deepcopy(value, memo)
            return found

        def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[object, ...]:
            if naming.package != "torch":
                return super().__reduce_ex__(protocol)
            # PyTorch's modules have plain dictionaries.
            plain = OrderedDict if isinstance(self, OrderedDict) else dict
            return plain, (), None, None, iter(self.items())


class Registry(Table, dict[str, Member]):
    """Members of a module by name."""

    __slots__ = ()

    def _before_change(self) -> None:
        if modes.trace is not None:
            modes.trace.touch(self)

    def _after_change(self) -> None:
        bump()

    # Without the wrapper, since every assignment of a member runs this.
    def __setitem__(self, key: str, value: Member) -> None:
        if modes.trace is not None:
            modes.trace.touch(self)
        dict.__setitem__(self, key, value)
        bump()


class HookRegistry(Table, OrderedDict[int, Any]):
    """Hooks, or marks on hooks, by the ``id`` of their `RemovableHandle`, in calling order."""

    __slots__ = ()

    def _before_change(self) -> None:
        if modes.trace is not None:
            modes.trace.touch_hooks(self)

    def _after_change(self) -> None:
        bump()


class ModuleState:
    """The registries of every module, on which the parts of `Module` are built.

    Attributes:
        training: Whether layers such as dropout behave as in training.
        _parameters, _buffers, _modules: The members by name; ``None`` marks a name without a value.
        _non_persistent_buffers_set: Names of the buffers that are not saved.
        _backward_pre_hooks, _backward_hooks: Called with gradients; ``_is_full_backward_hook`` is
            the kind of the latter, ``None`` while undecided.
        _forward_hooks, _forward_pre_hooks: Called around `forward`; the registries named after
            them mark the hooks that take keyword arguments or that run even if `forward` fails.
        _state_dict_hooks, _state_dict_pre_hooks: Called around saving.
        _load_state_dict_pre_hooks, _load_state_dict_post_hooks: Called around loading.
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _backward_pre_hooks: HookRegistry
    _backward_hooks: HookRegistry
    _is_full_backward_hook: bool | None
    _forward_hooks: HookRegistry
    _forward_hooks_with_kwargs: HookRegistry
    _forward_hooks_always_called: HookRegistry
    _forward_pre_hooks: HookRegistry
    _forward_pre_hooks_with_kwargs: HookRegistry
    _state_dict_hooks: HookRegistry
    _state_dict_pre_hooks: HookRegistry
    _load_state_dict_pre_hooks: HookRegistry
    _load_state_dict_post_hooks: HookRegistry
    _modules: dict[str, Any]


def new_state() -> dict[str, object]:
    """The attributes of a module without members, except its training flag."""
    return {
        "_parameters": Registry(),
        "_buffers": Registry(),
        "_non_persistent_buffers_set": set(),
        "_backward_pre_hooks": HookRegistry(),
        "_backward_hooks": HookRegistry(),
        "_is_full_backward_hook": None,
        "_forward_hooks": HookRegistry(),
        "_forward_hooks_with_kwargs": HookRegistry(),
        "_forward_hooks_always_called": HookRegistry(),
        "_forward_pre_hooks": HookRegistry(),
        "_forward_pre_hooks_with_kwargs": HookRegistry(),
        "_state_dict_hooks": HookRegistry(),
        "_state_dict_pre_hooks": HookRegistry(),
        "_load_state_dict_pre_hooks": HookRegistry(),
        "_load_state_dict_post_hooks": HookRegistry(),
        "_modules": Registry(),
    }


TABLES: dict[str, Any] = {
    name: type(table) for name, table in new_state().items() if isinstance(table, dict)
}


def as_table(name: str, value: object) -> object:
    """``value`` converted for the module attribute ``name``, one of `TABLES`.

    A plain dictionary becomes a table, so that later changes to it are announced too.
    """
    kind = TABLES[name]
    return kind(value) if isinstance(value, dict) and not isinstance(value, kind) else value
