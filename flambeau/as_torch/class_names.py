"""PyTorch's module names for classes and functions, under the name torch.

Packages look at ``type(x).__module__``, and pickles name classes by it. The original module of a
class is kept in `naming.homes`, which flambeau's own code uses (`naming.module_of`).
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import FunctionType, ModuleType
from typing import Any, ForwardRef

from flambeau.core.support import naming

__all__: list[str] = []

#: Modules whose public classes belong to another module of PyTorch.
_ELSEWHERE = {
    "as_torch.torch_version": "torch_version",
    "autograd.function_context": "autograd.function",
    "autograd.function_node": "autograd.function",
    "autograd.saved_tensors": "autograd.graph",
    "core.devices.device": "",
    "core.support.dtype": "",
    "core.devices.exhaustion": "",
    "core.operators.function_modes": "overrides",
    "core.devices.layout": "",
    "core.support.modes": "autograd.grad_mode",
    "core.tape.node": "autograd.graph",
    "core.values.tensor": "",
    "cuda.devices": "cuda",
    "distributions.elementwise_transforms": "distributions.transforms",
    "distributions.transform": "distributions.transforms",
    "distributions.vector_transforms": "distributions.transforms",
    "fx.codegen": "fx.graph",
    "fx.tracer": "fx._symbolic_trace",
    "nn.module": "nn.modules.module",
    "nn.modules.adaptive_pooling": "nn.modules.pooling",
    "nn.modules.classification_loss": "nn.modules.loss",
    "nn.modules.margin_loss": "nn.modules.loss",
    "nn.modules.multihead_attention": "nn.modules.activation",
    "nn.modules.parameter_container": "nn.modules.container",
    "nn.modules.regression_loss": "nn.modules.loss",
    "nn.modules.rnn_base": "nn.modules.rnn",
    "nn.modules.rnn_cells": "nn.modules.rnn",
    "nn.modules.softmax": "nn.modules.activation",
    "nn.modules.transformer_layers": "nn.modules.transformer",
    "nn.modules.transformer_stacks": "nn.modules.transformer",
    "nn.uninitialized": "nn.parameter",
    "nn.utils.packed_sequence": "nn.utils.rnn",
    "nn.utils.parametrization_list": "nn.utils.parametrize",
    "nn.utils.pruning_method": "nn.utils.prune",
    "nn.utils.pruning_rules": "nn.utils.prune",
    "optim._adafactor": "optim",
    "optim._muon": "optim",
    "optim.lr_scheduler.base": "optim.lr_scheduler",
    "optim.lr_scheduler.combined": "optim.lr_scheduler",
    "optim.lr_scheduler.cosine": "optim.lr_scheduler",
    "optim.lr_scheduler.cycles": "optim.lr_scheduler",
    "optim.lr_scheduler.factors": "optim.lr_scheduler",
    "optim.lr_scheduler.plateau": "optim.lr_scheduler",
    "optim.step_hooks": "optim.optimizer",
    "random.generator": "_C",
    "rare.symbolic": "",
    "rare.tensor_types": "",
    "sparse.legacy": "sparse",
    "streams": "",
}

#: Classes there that PyTorch does not have.
_UNKNOWN = frozenset(
    ("ContextDecorator", "NamedOnly", "Retained", "SavedCopies", "Predefined", "kept_modes")
)

#: The packages whose modules have PyTorch's names.
_ROOMS = frozenset(
    (
        "amp", "autograd", "cuda", "distributed", "distributions", "func", "futures", "fx", "jit",
        "nn", "optim", "overrides", "profiler", "return_types", "serialization", "storage", "utils",
    )
)  # fmt: skip

# Functions of other modules that pickles call.
_CALLED = ("_load_from_bytes", "_get_layout")

#: Namespaces whose functions are public under their own names.
_NAMESPACES = ("nn.functional", "nn.init", "")


class _Renaming(SourceFileLoader):
    """A loader that executes a module of flambeau and renames its classes."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        super().exec_module(module)
        rename(module)


def found(name: str, path: Any) -> ModuleSpec | None:
    """The spec of a module of flambeau, with a loader that renames its classes."""
    spec = PathFinder.find_spec(name, path)
    if spec is not None and spec.origin is None:
        # An empty folder.
        return None
    if spec is not None and type(spec.loader) is SourceFileLoader:
        spec.loader.__class__ = _Renaming
    return spec


def rename_all() -> None:
    """Rename the classes of all loaded modules."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "flambeau"]:
        rename(sys.modules[name])


def rename(module: ModuleType) -> None:
    """Give a module's classes, and a namespace's functions, PyTorch's names."""
    home = module.__name__.partition(".")[2]
    target = _target(home)
    if target is not None:
        if target == home and target.partition(".")[0] in _ROOMS:
            # The namespace in which `typing.get_type_hints` resolves the classes' annotations.
            sys.modules.setdefault(f"torch.{home}", module)
        for name, value in [*vars(module).items()]:
            if _is_renamed(home, name, value) and value.__module__ == module.__name__:
                _keep_annotations(value)
                _set(value, _distribution(home, name) or target)
    if home in _NAMESPACES:
        for name, value in [*vars(module).items()]:
            is_named = not name.startswith("_") and getattr(value, "__name__", None) == name
            if is_named and isinstance(value, FunctionType) and _is_own(value):
                _set(value, home)


def _keep_annotations(value: Any) -> None:
    """Keep string annotations resolvable in the module that defines them."""
    texts = vars(value).get("__annotations__", {}) if isinstance(value, type) else {}
    for name, text in texts.items():
        if isinstance(text, str):
            texts[name] = ForwardRef(
                text, is_argument=False, module=value.__module__, is_class=True
            )


def put_back() -> None:
    """Restore all original names."""
    for value, module in naming.homes.items():
        _assign(value, module)
    naming.homes.clear()


def _target(home: str) -> str | None:
    """The PyTorch module for the classes of a flambeau module."""
    if home in _ELSEWHERE:
        return _ELSEWHERE[home]
    private = home.partition("as_torch.private.")[2]
    if private and private != "_settings":
        return private
    return home if home.partition(".")[0] in _ROOMS else None


def _distribution(home: str, name: str) -> str | None:
    """The PyTorch module of a distribution."""
    if not home.startswith("distributions."):
        return None
    from flambeau.distributions.module_names import module_of

    return module_of(home.partition(".")[2], name)


def _is_renamed(home: str, name: str, value: Any) -> bool:
    """Whether a class, or a function that pickles call, is renamed to a PyTorch module."""
    if isinstance(value, FunctionType):
        return home.startswith("as_torch.private") or name in _CALLED
    if not isinstance(value, type):
        return False
    is_public = not name.startswith("_") and value.__qualname__ == name
    return home not in _ELSEWHERE or (is_public and name not in _UNKNOWN)


def _is_own(value: Any) -> bool:
    return value.__module__.partition(".")[0] == "flambeau"


def _set(value: Any, target: str) -> None:
    naming.homes[value] = value.__module__
    _assign(value, f"torch.{target}" if target else "torch")


def _assign(value: Any, module: str) -> None:
    # Bypasses the metaclass of Tensor, which would invalidate compiled functions.
    if isinstance(value, type):
        type.__setattr__(value, "__module__", module)
    else:
        value.__module__ = module
