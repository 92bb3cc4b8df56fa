"""TorchScript's classes, for annotations, ``isinstance`` and subclasses."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from flambeau.nn.module import Module

__all__ = [
    "Attribute", "CompilationUnit", "RecursiveScriptModule", "ScriptFunction", "ScriptModule",
    "TopLevelTracedModule", "TracedModule", "TracerWarning",
]  # fmt: skip


# The modules that were passed to `script`.
_scripted: weakref.WeakSet[Module] = weakref.WeakSet()


class _ScriptModules(type(Module)):
    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        is_module = cls is ScriptModule or cls is RecursiveScriptModule
        return is_module and isinstance(instance, Module) and instance in _scripted


class ScriptModule(Module, metaclass=_ScriptModules):
    """A module that was passed to `script`, or an instance of a subclass; it runs in Python."""


class RecursiveScriptModule(ScriptModule):
    """PyTorch's class of scripted modules: modules that were passed to `script`."""


class TracedModule(ScriptModule):
    """PyTorch's class of traced modules; nothing here is an instance."""


class TopLevelTracedModule(TracedModule):
    """PyTorch's class of traced root modules; nothing here is an instance."""


class ScriptFunction:
    """PyTorch's class of TorchScript functions; nothing here is an instance."""


class CompilationUnit:
    """PyTorch's container of TorchScript programs; nothing here is an instance."""


class Attribute(NamedTuple):
    """A typed attribute of a module, whose type only TorchScript reads."""

    value: Any
    type: Any


class TracerWarning(Warning):
    """A warning of TorchScript's tracer, which is never issued here."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Do nothing: there are no such warnings."""
