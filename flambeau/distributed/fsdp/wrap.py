"""Rules for the modules inside of a model that are divided by themselves.

Here each parameter is gathered where it is used, so a rule changes nothing: these functions and
classes are for programs that name them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import Any

from flambeau.nn.module import Module

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap",
    "lambda_auto_wrap_policy", "size_based_auto_wrap_policy", "transformer_auto_wrap_policy",
    "wrap",
]  # fmt: skip


class ModuleWrapPolicy:
    """Names modules by their classes.

    Args:
        module_classes: The classes.
    """

    def __init__(self, module_classes: Collection[type[Module]]) -> None:
        self._module_classes = {*module_classes}

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))


class CustomPolicy:
    """Names modules by a function.

    Args:
        lambda_fn: Takes a module; true, or options for it, if the module is named.
    """

    def __init__(self, lambda_fn: Callable[[Module], Any]) -> None:
        self._lambda_fn = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or bool(self._lambda_fn(module))


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """True for each module."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """The answer of ``lambda_fn`` for ``module``; true while modules are looked for."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    transformer_layer_cls: set[type[Module]],
) -> bool:
    """Whether ``module`` is of one of the classes; true while modules are looked for."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 100_000_000,
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Whether ``module`` has at least ``min_num_params`` elements that no other one has taken.

    Args:
        module: The module.
        recurse: Whether modules inside of it are asked about.
        nonwrapped_numel: The number of these elements.
        min_num_params: The least number.
        force_leaf_modules: Classes whose submodules are not asked about; attention by default.
        exclude_wrap_modules: Classes that are never named; lists and dictionaries by default.
    """
    from flambeau.nn import ModuleDict, ModuleList, MultiheadAttention

    leaves = (MultiheadAttention,) if force_leaf_modules is None else tuple(force_leaf_modules)
    excluded = exclude_wrap_modules or {ModuleList, ModuleDict}
    is_large = nonwrapped_numel >= min_num_params
    if recurse:
        return is_large and not isinstance(module, leaves)
    return is_large and not isinstance(module, tuple(excluded))


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """A block in which `wrap` divides modules by ``wrapper_cls``."""
    _wrappers.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrappers.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """``module`` divided as the block of `enable_wrap` says; outside of one, the module itself."""
    if not _wrappers:
        return module
    wrapper, options = _wrappers[-1]
    return wrapper(module, **(options | wrap_overrides))


_wrappers: list[tuple[Any, dict[str, Any]]] = []
