"""Kernels that need concrete values, in traced programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from flambeau.compile.errors import CompileError
from flambeau.core.support.modes import modes, no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import TracedValueError, current
from flambeau.core.values.tracers import Tracer
from flambeau.core.values.trees import map_tensors, members_of

# The errors of a kernel that reads the value of a tracer.
_NOT_KNOWN = (TracedValueError, CompileError, jax.errors.JAXTypeError)


def is_traced(values: list[Any]) -> bool:
    """Whether ``values``, or lists among them, contain a traced tensor."""
    return any(isinstance(each._read(), Tracer) for each in tensors_of(values))


def tensors_of(values: Any) -> list[Tensor]:
    """The tensors in ``values``, including those in lists and tuples."""
    return [each for each in members_of(values) if isinstance(each, Tensor)]


def run_traced(
    name: str, kernel: Callable[..., Any], fake: Callable[..., Any] | None, values: list[Any],
    call: Callable[[Callable[..., Any], list[Any]], Any],
) -> Any:  # fmt: skip
    """The kernel's result on traced tensors.

    A kernel written with this library's functions is traced. Any other kernel becomes a host
    callback.

    Args:
        name: The operator's name.
        kernel: The kernel.
        fake: The function that computes empty results, or ``None``.
        values: The operator's arguments.
        call: A function that calls a function with the arguments.

    Raises:
        RuntimeError: The kernel needs concrete values, and there is no ``fake``.
    """
    trace = current()
    refused = None if trace is None else trace.refused
    try:
        return call(kernel, values)
    except _NOT_KNOWN as error:
        if fake is None:
            raise RuntimeError(
                f"{name} needs the values of its tensors, which are unknown while a program is "
                "being traced. Register a fake implementation (register_fake) that gives the "
                "shapes of its results: the program then calls the kernel when it runs"
            ) from error
    if trace is not None:
        # The callback runs the kernel with concrete values, so the trace may continue.
        trace.refused = refused
    return _called_back(name, kernel, fake, values, call)


def _called_back(name: str, kernel: Any, fake: Any, values: list[Any], call: Any) -> Any:
    tensors = tensors_of(values)
    arrays = [each._read() for each in tensors]
    # The callback outlives the trace, so it must not reference the traced values.
    on_meta = _with_tensors(values, [_empty(each) for each in arrays])
    shapes = as_outputs(call(fake, on_meta))
    single, outputs = shapes
    expected = [jax.ShapeDtypeStruct(tuple(e.shape), e.dtype.numpy) for e in outputs]

    def on_host(*numbers: Any) -> Any:
        with _outside(), no_grad():
            given = [Tensor._wrap(jax.numpy.asarray(each)) for each in numbers]
            _, results = as_outputs(call(kernel, _with_tensors(on_meta, given)))
        for result, shape in zip(results, expected, strict=True):
            if tuple(result.shape) != shape.shape or result.dtype.numpy != shape.dtype:
                raise RuntimeError(
                    f"{name}: the kernel gives a tensor of shape {tuple(result.shape)} and dtype "
                    f"{result.dtype}, its fake implementation {shape.shape} and {shape.dtype}"
                )
        return [np.asarray(each._read()) for each in results]

    found = jax.pure_callback(on_host, expected, *arrays, vmap_method="sequential")
    wrapped = [Tensor._wrap(each) for each in found]
    return wrapped[0] if single else wrapped


def as_outputs(result: Any) -> tuple[bool, list[Any]]:
    """Whether a kernel returns a single tensor, and its tensors."""
    if isinstance(result, Tensor):
        return True, [result]
    return False, [] if result is None else list(result)


def _empty(array: Any) -> Tensor:
    """A meta tensor."""
    return Tensor._wrap(jax.ShapeDtypeStruct(array.shape, array.dtype))


def _with_tensors(values: Any, tensors: list[Tensor]) -> Any:
    """``values`` with their tensors replaced by those of a list, in order."""
    remaining = iter(tensors)
    return map_tensors(lambda _: next(remaining), values)


class _outside:
    """A context manager that suspends tracing, for a callback."""

    def __enter__(self) -> None:
        self._before = dict(vars(modes))
        vars(modes).clear()

    def __exit__(self, *exception: object) -> None:
        vars(modes).clear()
        vars(modes).update(self._before)
