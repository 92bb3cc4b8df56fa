"""Rules that select the modules inside a model to shard separately.

Here each parameter is gathered at each use, so a rule has no effect: these functions and classes
are for programs that use them.
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
    """Selects modules by class.

    Args:
        module_classes: The classes.
    """

    def __init__(self, module_classes: Collection[type[Module]]) -> None:
        self._module_classes = {*module_classes}

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, tuple(self._module_classes))


class CustomPolicy:
    """Selects modules by a function.

    Args:
        lambda_fn: Takes a module; returns true, or options, to select it.
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
    """The result of ``lambda_fn`` for ``module``; true while modules are searched."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    transformer_layer_cls: set[type[Module]],
) -> bool:
    """Whether ``module`` has one of the classes; true while modules are searched."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 100_000_000,
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Whether ``module`` has at least ``min_num_params`` elements that no other module has taken.

    Args:
        module: The module.
        recurse: Whether submodules are searched.
        nonwrapped_numel: The number of these elements.
        min_num_params: The minimum number.
        force_leaf_modules: Classes whose submodules are not searched; attention by default.
        exclude_wrap_modules: Classes that are never selected; lists and dictionaries by default.
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
    """A block in which `wrap` shards modules by ``wrapper_cls``."""
    _wrappers.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrappers.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """``module`` sharded by the enclosing `enable_wrap`; without one, the module itself."""
    if not _wrappers:
        return module
    wrapper, options = _wrappers[-1]
    return wrapper(module, **(options | wrap_overrides))


_wrappers: list[tuple[Any, dict[str, Any]]] = []
