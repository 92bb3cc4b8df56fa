"""Tracing by example, as `torch.jit.trace` does it: what is traced is compiled.

A program of PyTorch's tracer keeps what Python decided for the examples, right or wrong for others.
Here each call has the program for its own arguments, so it gives what the function gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from flambeau.compile import compile
from flambeau.nn.module import Module

__all__ = ["freeze", "load", "optimize_for_inference", "save", "trace", "trace_module"]


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
    """A function or module, compiled, after one call with examples of its arguments.

    Args:
        func: The function or module.
        example_inputs: Its arguments: a tuple, or one tensor.
        optimize: Accepted for PyTorch's sake, as all that follows but ``example_kwarg_inputs``.
        check_trace: See above: each call gives what the function gives.
        check_inputs: See above.
        check_tolerance: See above.
        strict: See above.
        example_kwarg_inputs: Arguments by name.
        options: See above.

    Returns:
        What `flambeau.compile` gives with ``fullgraph=False``.

    Raises:
        RuntimeError: There are no examples.

    >>> import flambeau
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
    """A module, compiled, after one call of each method named in ``inputs`` with its examples.

    ``forward`` is compiled; other methods stay as they are.

    Raises:
        AttributeError: ``mod`` has no method of a name.
    """
    result = compile(mod, fullgraph=False)
    for name, examples in inputs.items():
        _call(result if name == "forward" else getattr(result, name), examples, None)
    return result


def _call(function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any] | None) -> None:
    args = () if args is None else args
    function(*(args if isinstance(args, tuple | list) else (args,)), **(kwargs or {}))


def freeze(
    mod: Any,
    preserved_attrs: list[str] | None = None,
    optimize_numerics: bool = True,
) -> Any:
    """The module given, as it is: XLA computes what does not depend on the arguments once."""
    return mod


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """The module given, as it is: `flambeau.compile` optimizes."""
    return mod


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """Refuse: programs are not files.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        "jit.save(): programs of TorchScript cannot be written; keep the class, "
        "flambeau.save(module.state_dict(), path), and for a new module call "
        "load_state_dict(flambeau.load(path))"
    )


def load(
    f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False
) -> NoReturn:
    """Refuse: programs of TorchScript cannot be run.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        "jit.load(): programs of TorchScript cannot be read; write state_dict() in PyTorch, and "
        "call load_state_dict(flambeau.load(path)) on a module of the class"
    )
