"""A Python function as one XLA program: the Cells it reads are inputs, those it writes outputs."""

from flambeau.compile.errors import CompileError
from flambeau.compile.function import CompiledFunction, compile

__all__ = ["CompileError", "CompiledFunction", "compile"]
