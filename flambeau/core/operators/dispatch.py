"""Running a kernel on tensors: unwrap, compute, wrap, record. The one path every operator takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.export import is_symbolic_dim

from flambeau.core.devices import device as devices
from flambeau.core.devices import exhaustion
from flambeau.core.devices.meshes import settled
from flambeau.core.kernels.kernel import INEXACT, Kernel
from flambeau.core.operators.companions import loose, together
from flambeau.core.operators.number import KINDS as NUMBERS
from flambeau.core.operators.number import Number
from flambeau.core.operators.overrides import OverrideNeeded, overrides
from flambeau.core.programs.deferred import ARRAYS
from flambeau.core.support import errors
from flambeau.core.support.modes import modes
from flambeau.core.tape import checks, forward, packing
from flambeau.core.tape import nodes as tape
from flambeau.core.tape.transform import lifted
from flambeau.core.values.attributes import handle_on
from flambeau.core.values.cell import Cell, is_abstract
from flambeau.core.values.inside import stops_gradients
from flambeau.core.values.plan import on_meta
from flambeau.core.values.tensor import PLAIN_TYPES, Tensor
from flambeau.core.values.tracers import constant, no_longer_known, warn_of_constants

# Types that are accepted in place of a tensor and take no gradient.
_PLAIN_CONSTANTS: set[type] = {int, float, bool, complex, type(None)}
_CONSTANT_TYPES: set[type] = {*_PLAIN_CONSTANTS, *NUMBERS.values()}

# The errors of JAX, NumPy and Python for arguments that an operator cannot take.
FAILURES = (
    TypeError, ValueError, OverflowError, ZeroDivisionError, AttributeError, LookupError,
    AssertionError,
)  # fmt: skip

# A failure raised inside these packages is reported as the operator's; errors of other code are
# passed on unchanged.
_OPERATOR_PACKAGES = ("flambeau", "jax", "jaxlib", "numpy", "opt_einsum")


def run(kernel: Kernel, inputs: tuple[Any, ...], bare: bool = False) -> Any:
    """Compute ``kernel`` on tensors and numbers, recording it where a gradient is wanted.

    Args:
        kernel: The kernel.
        inputs: Tensors, Python numbers or ``None``, as the kernel's function takes them.
        bare: Whether an array may be returned in place of a Tensor that takes no gradient.

    Returns:
        A Tensor, or a tuple of them.
    """
    if (
        modes.trace is not None
        or (modes.inside is not None and modes.inside.capture is not None)
        or modes.autocast is not None
        or modes.dual is not None
    ):
        return _run_general(kernel, inputs)
    if devices.others_in_use:
        inputs = together(inputs)
    arrays = []
    recorded = False
    for each in inputs:
        kind = type(each)
        if kind in PLAIN_TYPES:
            if each._view is None:
                array = each._cell.array
            else:
                array = each._read()
                each._follow_base()
            if type(array) not in ARRAYS:
                return _run_general(kernel, inputs)
            if each._requires_grad:
                recorded = True
            arrays.append(array)
        elif kind in _PLAIN_CONSTANTS:
            arrays.append(each)
        else:
            return _run_general(kernel, inputs)
    recorded = recorded and modes.grad_enabled and kernel.differentiable
    if recorded and kernel.keep_residuals:
        return _run_recorded(kernel, inputs, arrays)
    results = _computed(kernel, arrays)
    if recorded:
        return _record(kernel, inputs, arrays, results)
    if type(results) is not tuple and kernel.returns is None and not modes.inference:
        return results if bare else handle_on(Cell(results), Tensor)
    return _wrap_all(kernel, results)


def run_with_constants(
    kernel: Kernel, tensors: tuple[Tensor, ...], constants: tuple[Any, ...]
) -> Any:
    """`run` on tensors and then arrays that take no gradient, such as indices and positions.

    NumPy arrays among the constants must not be changed afterwards.
    """
    if modes.dual is not None:
        return forward.run_with_constants(run_with_constants, kernel, tensors, constants)
    trace = modes.trace
    if trace is not None:
        for each in tensors:
            trace.note(each)
    elif devices.others_in_use:
        tensors = together(tensors)
    tensors = lifted(tensors)
    arrays = [*(each._read() for each in tensors), *constants]
    inputs = (*tensors, *(None for _ in constants))
    recorded = kernel.differentiable and modes.grad_enabled
    recorded = recorded and any(each.requires_grad for each in tensors)
    if any(map(is_abstract, arrays)):
        results = on_meta(kernel, tuple(arrays))
        if recorded:
            return _record(kernel, inputs, arrays, results)
        return _wrap_all(kernel, results)
    if recorded:
        return _run_recorded(kernel, inputs, arrays)
    results = _computed(kernel, arrays)
    return _wrap_all(kernel, results)


def _run_general(kernel: Kernel, inputs: tuple[Any, ...]) -> Any:
    """`run` for the unusual cases: modes of the thread, meta, foreign operands."""
    inputs = tuple(
        each
        if type(each) in PLAIN_TYPES or type(each) in _CONSTANT_TYPES
        else _operand(kernel, each)
        for each in inputs
    )
    if devices.others_in_use and modes.trace is None:
        inputs = together(inputs)
    if modes.autocast is not None:
        inputs = modes.autocast.cast(kernel, inputs)
    if modes.dual is not None:
        return forward.run(_run_cast, kernel, inputs)
    return _run_cast(kernel, inputs)


def _run_cast(kernel: Kernel, inputs: tuple[Any, ...]) -> Any:
    """`run` on plain operands that autocast has already cast."""
    tensors = [each for each in inputs if isinstance(each, Tensor)]
    trace = modes.trace
    if trace is not None:
        for each in tensors:
            trace.note(each)
    if modes.inside is not None and modes.inside.capture is not None:
        inputs = lifted(inputs)
        tensors = [each for each in inputs if isinstance(each, Tensor)]
    arrays = [each._read() if isinstance(each, Tensor | Number) else each for each in inputs]
    if any(map(is_abstract, arrays)):
        return _run_on_meta(kernel, inputs, arrays)
    if trace is None and modes.inside is None and any(isinstance(e, Tracer) for e in arrays):
        warn_of_constants(tensors)
    if devices.others_in_use and trace is None:
        arrays = loose(arrays)
    if kernel.differentiable and modes.grad_enabled and any(each.requires_grad for each in tensors):
        return _run_recorded(kernel, inputs, arrays)
    results = _computed(kernel, arrays)
    return _wrap_all(kernel, results)


def _operand(kernel: Kernel, value: Any) -> Any:
    """Convert an unusual operand; raise `OverrideNeeded` if it overrides functions."""
    if overrides(type(value)):
        raise OverrideNeeded
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bool | int | float | complex):
        return value
    if isinstance(value, Array):
        return Tensor._wrap(settled(value))
    if is_symbolic_dim(value):
        return Tensor._wrap(jnp.asarray(value, np.int64))
    if isinstance(value, np.ndarray):
        raise TypeError(
            f"{kernel.name}() takes Tensors and numbers, got a numpy.ndarray of shape "
            f"{list(value.shape)}; convert it with from_numpy()"
        )
    raise TypeError(
        f"{kernel.name}() takes Tensors and numbers, got {type(value).__name__}: {value!r:.80}"
    )


def _run_on_meta(kernel: Kernel, inputs: tuple[Any, ...], arrays: list[Any]) -> Any:
    for array in arrays:
        # PyTorch lets a 0-d CPU tensor stand for a number.
        if hasattr(array, "shape") and not is_abstract(array) and array.shape:
            raise _different_devices(kernel, f"meta and {Tensor._wrap(array).device}")
    try:
        results = on_meta(kernel, tuple(arrays))
    except FAILURES as error:
        raise _explained(kernel, arrays, error) from None
    wants_grad = (
        kernel.differentiable
        and modes.grad_enabled
        and any(isinstance(each, Tensor) and each.requires_grad for each in inputs)
    )
    if wants_grad:
        return _record(kernel, inputs, arrays, results)
    return _wrap_all(kernel, results)


def _run_recorded(kernel: Kernel, inputs: tuple[Any, ...], arrays: list[Any]) -> Any:
    if modes.trace is not None:
        # The program as a whole is differentiated by JAX, which must follow the tape's edges only.
        arrays = [
            array if isinstance(each, Tensor) and each.requires_grad else constant(array)
            for each, array in zip(inputs, arrays, strict=True)
        ]
    if not kernel.keep_residuals:
        return _record(kernel, inputs, arrays, _computed(kernel, arrays))
    needs = tuple([isinstance(each, Tensor) and each.requires_grad for each in inputs])
    results, vjp = _computed(kernel, arrays, kernel.forward_with_residuals(needs))
    return _record(kernel, inputs, arrays, results, vjp)


def _record(
    kernel: Kernel, inputs: tuple[Any, ...], arrays: list[Any], results: Any, vjp: Any = None
) -> Any:
    """Wrap ``results`` and put their node on the tape."""
    edges = []
    for each in inputs:
        if type(each) in _CONSTANT_TYPES:
            edges.append(None)
            continue
        if each._inference and not kernel.linear:
            raise RuntimeError(
                "a tensor made in inference_mode cannot be saved for backward; clone() it first"
            )
        edges.append(tape.edge_of(each))
    saved = arrays if not kernel.linear else kernel.saved(arrays)
    if modes.packing is not None:
        cls = packing.node_class(kernel)
    else:
        name = kernel.node_name if kernel.overloads is None else _overload(kernel, inputs)
        cls = tape.node_class(name)
    if type(results) is not tuple and kernel.returns is None:
        result = handle_on(Cell(results), Tensor)
        if results.dtype in INEXACT:
            result._grad_fn = cls(kernel, saved, tuple(edges), 1, vjp)
            result._requires_grad = True
            if vjp is not None:
                result._grad_fn.results = inexact_avals((results,))
        return result
    node = cls(kernel, saved, tuple(edges), len(results), vjp)
    if vjp is not None:
        node.results = inexact_avals(results)
    wrapped = [Tensor._wrap(each) for each in results]
    for number, each in enumerate(wrapped):
        if each._cell.array.dtype in INEXACT:
            each._grad_fn, each._output_nr, each._requires_grad = node, number, True
    return _returned(kernel, wrapped)


def _overload(kernel: Kernel, inputs: tuple[Any, ...]) -> str:
    """The name of the node of a kernel that has several; see `Kernel.overloads`."""
    kinds = ("-" if e is None else "n" if type(e) in _CONSTANT_TYPES else "t" for e in inputs)
    assert kernel.overloads is not None
    return kernel.overloads.get("".join(kinds), kernel.node_name)


def inexact_avals(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shape and dtype of each array that can have a cotangent, ``None`` for the others."""
    return tuple(
        jax.ShapeDtypeStruct(each.shape, each.dtype) if each.dtype in INEXACT else None
        for each in arrays
    )


def _wrap_all(kernel: Kernel, results: Any) -> Any:
    if stops_gradients():
        results = jax.tree.map(constant, results)
    if not isinstance(results, tuple):
        result = Tensor._wrap(results)
        if modes.inference:
            result._inference = True
        return result
    wrapped = [Tensor._wrap(each) for each in results]
    if modes.inference:
        for each in wrapped:
            each._inference = True
    return _returned(kernel, wrapped)


def _returned(kernel: Kernel, wrapped: list[Tensor]) -> Any:
    return tuple(wrapped) if kernel.returns is None else kernel.returns(*wrapped)


def _computed(kernel: Kernel, arrays: list[Any], forward: Callable[..., Any] | None = None) -> Any:
    """The results of a kernel, in one of its forms."""
    forward = kernel.forward if forward is None else forward
    try:
        results = forward(*arrays)
    except FAILURES as error:
        raise _reason(kernel, arrays, error) from None
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        raise exhaustion.named(error) from error.__cause__
    if checks.nan:
        checks.refuse_nan(kernel, arrays, results)
    return results


def _reason(kernel: Kernel, arrays: list[Any], error: Exception) -> Exception:
    """The failure of a kernel, explained."""
    if isinstance(error, jax.errors.UnexpectedTracerError):
        return no_longer_known()
    named = exhaustion.named(error)
    if isinstance(named, exhaustion.OutOfMemoryError):
        return named
    places = {
        min(each.devices(), key=lambda d: d.id)
        for each in arrays
        if isinstance(each, Array) and not isinstance(each, Tracer)
    }
    if len(places) > 1:
        return _different_devices(kernel, " and ".join(sorted(str(each) for each in places)))
    return _explained(kernel, arrays, error)


def _different_devices(kernel: Kernel, names: str) -> RuntimeError:
    return RuntimeError(
        f"{kernel.name}(): Expected all tensors to be on the same device, but got {names}; move "
        "them to one"
    )


def _explained(kernel: Kernel, arrays: Sequence[Any], error: Exception) -> Exception:
    """A failure inside an operator, as PyTorch's type of error with the operands."""
    package = _package_of(error)
    if errors.is_on_purpose(error) or package not in _OPERATOR_PACKAGES:
        return error
    operands = ", ".join(
        f"{array.dtype}{list(array.shape)}" if hasattr(array, "shape") else repr(array)
        for array in arrays
    )
    reason = str(error).split("\n")[0]
    # JAX has a TypeError for shapes and dtypes too; Python's is for values of other types.
    shaped = "dtype" in reason or "shape" in reason or package != "flambeau"
    kind = TypeError if isinstance(error, TypeError) and not shaped else RuntimeError
    return kind(f"{kernel.name}() cannot take operands {operands}: {reason}")


def _package_of(error: Exception) -> str:
    """The package whose code raised ``error``."""
    step = error.__traceback__
    assert step is not None
    while step.tb_next is not None:
        step = step.tb_next
    return step.tb_frame.f_globals.get("__name__", "").partition(".")[0]


Kernel.run = run
