"""What a function can ask about being compiled, under the names of `torch.compiler`."""

from __future__ import annotations

from flambeau._absent import Absent as _Absent
from flambeau.compile import compile
from flambeau.core.modes import modes

__all__ = ["compile", "is_compiling", "is_dynamo_compiling", "is_exporting"]

__getattr__ = _Absent(__name__)


def is_compiling() -> bool:
    """Whether `flambeau.compile` is tracing the function that asks.

    >>> import flambeau
    >>> flambeau.compiler.is_compiling()
    False
    >>> double = flambeau.compile(lambda x: x * 2 if flambeau.compiler.is_compiling() else x)
    >>> double(flambeau.ones(2))
    tensor([2., 2.])
    """
    return modes.trace is not None


def is_dynamo_compiling() -> bool:
    """`is_compiling`, under an older name."""
    return is_compiling()


def is_exporting() -> bool:
    """``False``: programs are not exported."""
    return False
