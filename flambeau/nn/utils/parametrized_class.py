"""The class of a module with parametrized tensors, which are properties."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NoReturn

from flambeau.core.values.tensor import Tensor
from flambeau.nn.module import Module


def inject_class(module: Module) -> None:
    """Give a module its own subclass of its class."""
    module.__class__ = _subclass(type(module))


def _subclass(cls: type) -> type:
    members: dict[str, object] = {"__getstate__": _refuse_pickle}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = _deepcopy
    return type(f"Parametrized{cls.__name__}", (cls,), members)


def _refuse_pickle(self: object) -> NoReturn:
    raise RuntimeError(
        f"{type(self).__name__} was made at run time and cannot be pickled; save its state_dict() "
        "and register the parametrizations again before loading it"
    )


def _deepcopy(self: Module, memo: dict[int, object]) -> object:
    if id(self) in memo:
        return memo[id(self)]
    cls = type(self)
    # Of its own class, so that parametrizations can change in only one of the two.
    own = _subclass(cls.__bases__[0])
    for name, value in vars(cls).items():
        if isinstance(value, property):
            setattr(own, name, value)
    replica = object.__new__(own)
    memo[id(self)] = replica
    replica.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return replica


def inject_property(cls: type, name: str, compute: Callable[[Module, str], Tensor]) -> None:
    """Make the attribute ``name`` a property computed by ``compute(module, name)``.

    Assignment sets its source tensors.
    """

    def get(self: Module) -> Tensor:
        return compute(self, name)

    def put(self: Module, value: object) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(cls, name, property(get, put))


def remove_property(cls: type, name: str) -> None:
    """Undo `inject_property`."""
    delattr(cls, name)
