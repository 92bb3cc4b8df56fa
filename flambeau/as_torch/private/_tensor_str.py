"""`torch._tensor_str`: helpers for classes that format their own tensors."""

from __future__ import annotations

from flambeau.core.support import format
from flambeau.core.support.format import _options as PRINT_OPTS
from flambeau.core.values.tensor import Tensor

__all__ = ["PRINT_OPTS"]


def _tensor_str(self: Tensor, indent: int) -> str:
    """The elements of a tensor in brackets, with lines after the first indented by ``indent``."""
    return format.format_array(self.detach().jax(), indent=indent)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """A text with comma-separated suffixes and a closing bracket, wrapped where necessary."""
    return format.with_suffixes(tensor_str, suffixes, indent=indent, starts_line=force_newline)
