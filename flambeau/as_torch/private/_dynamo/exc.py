"""Errors of PyTorch's compiler, for ``except``; `Unsupported` is the one that is raised here."""

from flambeau.compile.errors import CompileError as Unsupported

__all__ = [
    "BackendCompilerFailed", "InternalTorchDynamoError", "RecompileLimitExceeded",
    "TensorifyScalarRestartAnalysis", "TorchDynamoException", "TorchRuntimeError", "Unsupported",
    "UserError",
]  # fmt: skip

TorchDynamoException = Unsupported


class BackendCompilerFailed(RuntimeError):
    """Never raised here."""


class InternalTorchDynamoError(RuntimeError):
    """Never raised here."""


class RecompileLimitExceeded(RuntimeError):
    """Never raised here."""


class TensorifyScalarRestartAnalysis(Exception):
    """Never raised here."""


class TorchRuntimeError(RuntimeError):
    """Never raised here."""


class UserError(RuntimeError):
    """Never raised here."""
