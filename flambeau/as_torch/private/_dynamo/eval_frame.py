"""What `compile` gives for a module."""

from flambeau.nn.compiled import CompiledModule as OptimizedModule

__all__ = ["OptimizedModule"]
