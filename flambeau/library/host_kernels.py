"""Kernels that need the numbers of their tensors, in programs that are being traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from flambeau.compile.errors import CompileError
from flambeau.core.modes import modes, no_grad
from flambeau.core.tensor import Tensor
from flambeau.core.trace import TracedValueError, current
from flambeau.core.tracers import Tracer

# The errors of a kernel that asks a traced tensor for its numbers.
_NOT_KNOWN = (TracedValueError, CompileError, jax.errors.JAXTypeError)


def is_traced(values: list[Any]) -> bool:
    """Whether a tensor among ``values``, or in a list among them, has no numbers yet."""
    return any(isinstance(each._read(), Tracer) for each in tensors_of(values))


def tensors_of(values: Any) -> list[Tensor]:
    """The tensors among ``values``, and in lists and tuples among them."""
    found: list[Tensor] = []
    for each in values:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, list | tuple):
            found.extend(tensors_of(each))
    return found


def run_traced(
    name: str, kernel: Callable[..., Any], fake: Callable[..., Any] | None, values: list[Any],
    call: Callable[[Callable[..., Any], list[Any]], Any],
) -> Any:  # fmt: skip
    """The kernel's result on tensors that are being traced.

    A kernel that is made of this library's functions becomes a part of the program. Another one is
    called back by the program, with the numbers.

    Args:
        name: The operator's.
        kernel: The kernel.
        fake: What gives empty tensors of the results' shapes and dtypes, if there is such a
            function.
        values: The operator's arguments.
        call: Calls a function with arguments.

    Raises:
        RuntimeError: The kernel needs the numbers, and there is no ``fake``.
    """
    trace = current()
    refused = None if trace is None else trace.refused
    try:
        return call(kernel, values)
    except _NOT_KNOWN as error:
        if fake is None:
            raise RuntimeError(
                f"{name} needs the numbers of its tensors, which are not known while a program is "
                "being traced. Register a fake implementation (register_fake) that gives the "
                "shapes of its results: the program then calls the kernel when it runs"
            ) from error
    if trace is not None:
        # The program calls the kernel, which then finds the numbers that it has asked for.
        trace.refused = refused
    return _called_back(name, kernel, fake, values, call)


def _called_back(name: str, kernel: Any, fake: Any, values: list[Any], call: Any) -> Any:
    tensors = tensors_of(values)
    arrays = [each._read() for each in tensors]
    # The program keeps this; the values themselves end with the trace.
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
    """Whether a kernel gives a single tensor, and its tensors."""
    if isinstance(result, Tensor):
        return True, [result]
    return False, [] if result is None else list(result)


def _empty(array: Any) -> Tensor:
    """A tensor on the meta device."""
    return Tensor._wrap(jax.ShapeDtypeStruct(array.shape, array.dtype))


def _with_tensors(values: Any, tensors: list[Tensor]) -> list[Any]:
    """``values`` with other tensors in the places of theirs, which are taken from a list."""
    return [
        tensors.pop(0) if isinstance(each, Tensor)
        else type(each)(_with_tensors(each, tensors)) if isinstance(each, list | tuple)
        else each
        for each in values
    ]  # fmt: skip


class _outside:
    """A block that runs as if nothing were traced: a program calls it when it runs."""

    def __enter__(self) -> None:
        self._before = dict(vars(modes))
        vars(modes).clear()

    def __exit__(self, *exception: object) -> None:
        vars(modes).clear()
        vars(modes).update(self._before)
