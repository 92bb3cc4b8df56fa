"""The names of CUDA graphs, which compiled functions replace."""

from __future__ import annotations

from typing import Any

from flambeau.compile import compile
from flambeau.cuda.streams import is_current_stream_capturing
from flambeau.nn.module import Module

__all__ = ["CUDAGraph", "graph", "is_current_stream_capturing", "make_graphed_callables"]

_ADVICE = (
    "there are no graphs of CUDA, in which a block of operators is captured: flambeau.compile "
    "makes one program of a function, which may be a whole step of training"
)


class CUDAGraph:
    """A CUDA graph, which does not exist here.

    Raises:
        RuntimeError: Always.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        raise RuntimeError(_ADVICE)


class graph:
    """A context manager whose block PyTorch captures in a `CUDAGraph`.

    Raises:
        RuntimeError: Always.
    """

    def __init__(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        raise RuntimeError(_ADVICE)


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Compile the given functions or modules; modules are compiled in place.

    Args:
        callables: One function or module, or a tuple of them.
        sample_args: Accepted for compatibility, like the following arguments: programs are compiled
            for the arguments of each call.

    >>> import flambeau
    >>> from flambeau.cuda import make_graphed_callables
    >>> double = make_graphed_callables(lambda x: x * 2, (flambeau.ones(2),))
    >>> double(flambeau.ones(3))
    tensor([2., 2., 2.])
    """
    if isinstance(callables, tuple):
        return tuple(make_graphed_callables(each, ()) for each in callables)
    if isinstance(callables, Module):
        callables.compile()
        return callables
    return compile(callables)
