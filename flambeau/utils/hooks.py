"""The handle that every hook registration returns."""

from flambeau.core.handle import RemovableHandle

__all__ = ["RemovableHandle"]
