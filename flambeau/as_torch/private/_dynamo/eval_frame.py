"""The class of compiled modules."""

from flambeau.nn.compiled import CompiledModule as OptimizedModule

__all__ = ["OptimizedModule"]
