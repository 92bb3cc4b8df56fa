"""Tracing by example, under the names of `torch.jit.trace`: traced functions are compiled.

PyTorch's traced programs keep the control flow of the examples. Here each call uses the program for
its own arguments, so its result is the function's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flambeau.compile import compile
from flambeau.nn.module import Module

__all__ = ["trace", "trace_module"]


def trace(
    func: Callable[..., Any],
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    *,
    example_kwarg_inputs: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Compile a function or module and call it once with example arguments.

    Args:
        func: The function or module.
        example_inputs: Its arguments: a tuple, or one tensor.
        optimize: Accepted for compatibility, like all further arguments but
            ``example_kwarg_inputs``.
        check_trace: See above: each result is the function's.
        check_inputs: See above.
        check_tolerance: See above.
        strict: See above.
        example_kwarg_inputs: Keyword arguments.
        options: See above.

    Returns:
        The result of `flambeau.compile` with ``fullgraph=False``.

    Raises:
        RuntimeError: There are no examples.

    >>> import flambeau
    >>> from flambeau.jit import trace
    >>> double = trace(lambda x: x + x, flambeau.ones(2))
    >>> double(flambeau.ones(3))
    tensor([2., 2., 2.])
    """
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("trace() needs example_inputs or example_kwarg_inputs")
    result = compile(func, fullgraph=False)
    _call(result, example_inputs, example_kwarg_inputs)
    return result


def trace_module(mod: Module, inputs: Mapping[str, Any], *args: Any, **options: Any) -> Any:
    """Compile a module and call each method named in ``inputs`` once with its examples.

    Only ``forward`` is compiled.

    Raises:
        AttributeError: ``mod`` lacks a method.
    """
    result = compile(mod, fullgraph=False)
    for name, examples in inputs.items():
        _call(result if name == "forward" else getattr(result, name), examples, None)
    return result


def _call(function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None) -> None:
    args = () if args is None else args
    function(*(args if isinstance(args, tuple | list) else (args,)), **(kwargs or {}))
