"""One XLA program from a Python function: Cells that were read come in, those written go out."""

from flambeau.compile.errors import CompileError
from flambeau.compile.function import CompiledFunction, compile

__all__ = ["CompileError", "CompiledFunction", "compile"]
