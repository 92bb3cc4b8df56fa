"""`torch._tensor_str`: parts of the text of a tensor, for classes that write their own."""

from __future__ import annotations

from flambeau.core import format
from flambeau.core.format import _options as PRINT_OPTS
from flambeau.core.tensor import Tensor

__all__ = ["PRINT_OPTS"]


def _tensor_str(self: Tensor, indent: int) -> str:
    """The numbers of a tensor in brackets; lines after the first begin with ``indent`` spaces."""
    return format.format_array(self.detach().jax(), indent=indent)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """A text, then the suffixes after commas, on new lines where they do not fit, and a bracket."""
    return format.with_suffixes(tensor_str, suffixes, indent=indent, starts_line=force_newline)
