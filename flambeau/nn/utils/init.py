"""Making a module without computing its initial values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from flambeau.nn.module import Module

__all__ = ["skip_init"]

AnyModule = TypeVar("AnyModule", bound=Module)


def skip_init(module_cls: Callable[..., AnyModule], *args: object, **kwargs: object) -> AnyModule:
    """``module_cls(*args, **kwargs)`` with uninitialized parameters and buffers.

    For a module whose values are set later, by another initializer or from a checkpoint. It is made
    on the meta device, where initializers do nothing and draw no random numbers, and then given
    uninitialized elements on the requested device.

    Args:
        module_cls: A subclass of `Module` that meets two requirements: it takes an argument
            ``device``, which it passes on to all its parameters, buffers and submodules; and its
            constructor applies only the functions of `flambeau.nn.init` to them.
        *args: The arguments of its constructor.
        **kwargs: Likewise; ``device`` is the CPU by default.

    Raises:
        RuntimeError: ``module_cls`` is a class but no subclass of `Module`, or takes no ``device``.
        TypeError: ``module_cls`` is not a class.

    >>> from flambeau import nn
    >>> nn.utils.skip_init(nn.Linear, 10, 5)
    Linear(in_features=10, out_features=5, bias=True)
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        kind = RuntimeError if isinstance(module_cls, type) else TypeError
        raise kind(f"skip_init() takes a subclass of Module, got {module_cls!r}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(
            f"skip_init() cannot make a {module_cls.__name__}: its constructor must take an "
            "argument device and pass it on to all parameters, buffers and submodules, and must "
            "compute nothing with them but the functions of flambeau.nn.init"
        )
    final_device = kwargs.pop("device", "cpu")
    module: Any = module_cls(*args, device="meta", **kwargs)
    return module.to_empty(device=final_device)
