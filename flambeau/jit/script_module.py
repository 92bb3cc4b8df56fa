"""Classes of TorchScript's, for annotations, ``isinstance`` and subclasses."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.nn.module import Module

__all__ = [
    "Attribute", "CompilationUnit", "Error", "RecursiveScriptModule", "ScriptFunction",
    "ScriptModule", "ScriptWarning", "TopLevelTracedModule", "TracedModule", "TracerWarning",
    "TracingCheckError",
]  # fmt: skip


class ScriptModule(Module):
    """A module: subclasses of it compute by Python, and nothing that `script` gives is one."""


class RecursiveScriptModule(ScriptModule):
    """PyTorch's class of a module in TorchScript; nothing here is an instance."""


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
