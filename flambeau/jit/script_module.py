"""Classes of TorchScript's, for annotations, ``isinstance`` and subclasses."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from flambeau.nn.module import Module

__all__ = [
    "Attribute", "CompilationUnit", "Error", "RecursiveScriptModule", "ScriptFunction",
    "ScriptModule", "ScriptWarning", "TopLevelTracedModule", "TracedModule", "TracerWarning",
    "TracingCheckError",
]  # fmt: skip


# The modules that `script` was given.
_scripted: weakref.WeakSet[Module] = weakref.WeakSet()


class _ScriptModules(type(Module)):
    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        is_module = cls is ScriptModule or cls is RecursiveScriptModule
        return is_module and isinstance(instance, Module) and instance in _scripted


class ScriptModule(Module, metaclass=_ScriptModules):
    """A module that `script` was given, or of a subclass of this; it computes by Python."""


class RecursiveScriptModule(ScriptModule):
    """PyTorch's class of a module in TorchScript: a module that `script` was given."""


class TracedModule(ScriptModule):
    """PyTorch's class of a module in TorchScript; nothing here is an instance."""


class TopLevelTracedModule(TracedModule):
    """PyTorch's class of a module in TorchScript; nothing here is an instance."""


class ScriptFunction:
    """PyTorch's class of a function in TorchScript; nothing here is an instance."""


class CompilationUnit:
    """PyTorch's container of TorchScript programs; nothing here is an instance."""


class Attribute(NamedTuple):
    """An attribute of a module with its type, which PyTorch takes apart when it makes a program."""

    value: Any
    type: Any


class Error(RuntimeError):
    """An exception in a program of TorchScript's, which is never raised here."""


class ScriptWarning(Warning):
    """A warning of TorchScript's, which is never given here."""


class TracerWarning(Warning):
    """A warning of TorchScript's, which is never given here."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Nothing: there are none."""


class TracingCheckError(Exception):
    """An error of TorchScript's, which is never raised here."""
