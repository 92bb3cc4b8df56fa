"""Running a kernel on tensors: unwrap, compute, wrap, record. The one path every operator takes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.core import Tracer
from jaxlib._jax import ArrayImpl

from flambeau.core import dtype as dtypes
from flambeau.core import tape, view
from flambeau.core.cell import Cell, is_abstract
from flambeau.core.kernel import Kernel
from flambeau.core.modes import modes
from flambeau.core.overrides import OverrideNeeded, overrides
from flambeau.core.promotion import can_cast
from flambeau.core.tensor import PLAIN_TYPES, Tensor
from flambeau.core.view import Step, View

# What may stand where a tensor is expected and takes no gradient.
_CONSTANT_TYPES: set[type] = {int, float, bool, complex, type(None)}
_INEXACT = {each.numpy for each in dtypes.ALL_DTYPES if each.category >= dtypes.FLOATING}


def run(kernel: Kernel, inputs: tuple[Any, ...]) -> Any:
    """Compute ``kernel`` on tensors and numbers, recording it where a gradient is wanted.

    Args:
        kernel: What to compute.
        inputs: Tensors, Python numbers or ``None``, as the kernel's function takes them.

    Returns:
        A Tensor, or a tuple of them.
    """
    if modes.trace is not None:
        return _run_general(kernel, inputs)
    arrays = []
    wants_grad = False
    for each in inputs:
        kind = type(each)
        if kind in PLAIN_TYPES:
            if each._view is None:
                array = each._cell.array
            else:
                array = each._read()
                each._follow_base()
            if type(array) is not ArrayImpl:
                return _run_general(kernel, inputs)
            if each._requires_grad:
                wants_grad = True
            arrays.append(array)
        elif kind in _CONSTANT_TYPES:
            arrays.append(each)
        else:
            return _run_general(kernel, inputs)
    if wants_grad and modes.grad_enabled and kernel.differentiable:
        return _run_recorded(kernel, inputs, arrays)
    try:
        results = kernel.forward(*arrays)
    except (TypeError, ValueError) as error:
        results = _recover(kernel, arrays, error)
    if type(results) is not tuple and kernel.returns is None and not modes.inference:
        made = object.__new__(Tensor)
        made._cell = Cell(results)
        return made
    return _wrap_all(kernel, results)


def _run_general(kernel: Kernel, inputs: tuple[Any, ...]) -> Any:
    """`run` for everything unusual: traces, transformations, the meta device, foreign operands."""
    inputs = tuple(
        each
        if type(each) in PLAIN_TYPES or type(each) in _CONSTANT_TYPES
        else _operand(kernel, each)
        for each in inputs
    )
    tensors = [each for each in inputs if isinstance(each, Tensor)]
    trace = modes.trace
    if trace is not None:
        for each in tensors:
            trace.note(each)
    arrays = [each._read() if isinstance(each, Tensor) else each for each in inputs]
    if any(map(is_abstract, arrays)):
        return _run_on_meta(kernel, inputs, arrays)
    if kernel.differentiable and modes.grad_enabled and any(each.requires_grad for each in tensors):
        return _run_recorded(kernel, inputs, arrays)
    try:
        results = kernel.forward(*arrays)
    except (TypeError, ValueError) as error:
        results = _recover(kernel, arrays, error)
    return _wrap_all(kernel, results)


def _operand(kernel: Kernel, value: Any) -> Any:
    """Something that is no plain tensor or number, as one; or a demand for its override."""
    if overrides(type(value)):
        raise OverrideNeeded
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bool | int | float | complex):
        return value
    if isinstance(value, np.ndarray | Array):
        return Tensor._wrap(jax.numpy.asarray(value))
    raise TypeError(
        f"{kernel.name}() takes Tensors and numbers, got {type(value).__name__}: {value!r:.80}"
    )


def _run_on_meta(kernel: Kernel, inputs: tuple[Any, ...], arrays: list[Any]) -> Any:
    for array in arrays:
        # PyTorch lets a 0-d CPU tensor stand for a number.
        if hasattr(array, "shape") and not is_abstract(array) and array.shape:
            raise RuntimeError(
                f"{kernel.name}() got tensors on different devices, meta and "
                f"{Tensor._wrap(array).device}; move them to one"
            )
    try:
        results = kernel.on_meta(tuple(arrays))
    except (TypeError, ValueError) as error:
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
    vjp = None
    try:
        if kernel.keep_residuals:
            needs = tuple([isinstance(each, Tensor) and each.requires_grad for each in inputs])
            results, vjp = kernel.forward_with_residuals()(needs, *arrays)
        else:
            results = kernel.forward(*arrays)
    except (TypeError, ValueError) as error:
        results = _recover(kernel, arrays, error)
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
        if each._inference:
            raise RuntimeError(
                "a tensor made in inference_mode cannot be saved for backward; clone() it first"
            )
        node = each._grad_fn
        if node is not None:
            edges.append((node, each._output_nr))
        else:
            edges.append(tape.edge_of(each) if each._requires_grad else None)
    saved = arrays if not kernel.linear else kernel.saved(arrays)
    cls = tape.node_class(kernel.node_name)
    if type(results) is not tuple and kernel.returns is None:
        made = object.__new__(Tensor)
        made._cell = Cell(results)
        if results.dtype in _INEXACT:
            made._grad_fn = cls(kernel, saved, tuple(edges), 1, vjp)
            made._requires_grad = True
            if vjp is not None:
                made._grad_fn.results = inexact_avals((results,))
        return made
    node = cls(kernel, saved, tuple(edges), len(results), vjp)
    if vjp is not None:
        node.results = inexact_avals(results)
    wrapped = [Tensor._wrap(each) for each in results]
    for number, each in enumerate(wrapped):
        if each._cell.array.dtype in _INEXACT:
            each._grad_fn, each._output_nr, each._requires_grad = node, number, True
    return _returned(kernel, wrapped)


def inexact_avals(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shape and dtype of each array that a cotangent can arrive for, ``None`` for the others."""
    return tuple(
        jax.ShapeDtypeStruct(each.shape, each.dtype) if each.dtype in _INEXACT else None
        for each in arrays
    )


def _wrap_all(kernel: Kernel, results: Any) -> Any:
    if not isinstance(results, tuple):
        made = Tensor._wrap(results)
        if modes.inference:
            made._inference = True
        return made
    wrapped = [Tensor._wrap(each) for each in results]
    if modes.inference:
        for each in wrapped:
            each._inference = True
    return _returned(kernel, wrapped)


def _returned(kernel: Kernel, wrapped: list[Tensor]) -> Any:
    return tuple(wrapped) if kernel.returns is None else kernel.returns(*wrapped)


def _recover(kernel: Kernel, arrays: list[Any], error: Exception) -> Any:
    """Run again after what PyTorch allows and JAX does not, or explain the failure."""
    places = {
        min(each.devices(), key=lambda d: d.id)
        for each in arrays
        if isinstance(each, Array) and not isinstance(each, Tracer)
    }
    if len(places) > 1:
        large = {
            min(each.devices(), key=lambda d: d.id)
            for each in arrays
            if isinstance(each, Array) and each.ndim
        }
        if len(large) != 1:
            names = " and ".join(sorted(str(each) for each in places))
            raise RuntimeError(
                f"{kernel.name}() got tensors on different devices, {names}; move them to one"
            ) from None
        # PyTorch lets a 0-d tensor from the CPU stand for a number.
        (target,) = large
        moved = [jax.device_put(e, target) if isinstance(e, Array) else e for e in arrays]
        return kernel.forward(*moved)
    raise _explained(kernel, arrays, error) from None


def _explained(kernel: Kernel, arrays: Sequence[Any], error: Exception) -> Exception:
    """JAX's complaint about shapes or dtypes as PyTorch's type of error, with the facts."""
    if _is_ours(error):
        return error
    operands = ", ".join(
        f"{array.dtype}{list(array.shape)}" for array in arrays if hasattr(array, "shape")
    )
    reason = str(error).split("\n")[0]
    return RuntimeError(f"{kernel.name}() cannot take operands {operands}: {reason}")


def _is_ours(error: Exception) -> bool:
    """Whether an operator's own check raised ``error``, rather than JAX."""
    frame = error.__traceback__
    last = ""
    while frame is not None:
        last = frame.tb_frame.f_globals.get("__name__", "")
        frame = frame.tb_next
    return last.startswith("flambeau.")


# Views


@functools.cache
def _view_kernel(step: Step, name: str) -> Kernel:
    return Kernel(step.read, name, node_name_of_view(name), linear=True)


@functools.cache
def node_name_of_view(name: str) -> str:
    """The class name of a view's node; a digit at the end of ``name`` numbers PyTorch's overload."""
    overload = name[-1] if name[-1].isdigit() else "0"
    return f"{_camel(name.rstrip('0123456789'))}Backward{overload}"


def _camel(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def make_view(source: Tensor, step: Step, name: str, starts: tuple[int, ...] | None = None) -> Any:
    """A view of ``source`` by one more step.

    Args:
        source: The tensor to look at, itself possibly a view.
        step: What part of it to see.
        name: The operator, which names the node on the tape.
        starts: The step's start positions.

    Returns:
        A tensor on the same Cell.
    """
    made = _unrecorded_view(source, step, name, starts)
    if modes.grad_enabled:
        if source.requires_grad:
            _record_view(source, made, step, name, starts)
    elif not made._view.made:
        made._view.made = "in no_grad mode"
    return made


def make_views(
    source: Tensor, steps: list[tuple[Step, Any]], whole: Any, name: str
) -> tuple[Any, ...]:
    """Several views of ``source`` that one operator gives, recorded as one node.

    Args:
        source: The tensor to look at, itself possibly a view.
        steps: For each view its step and start positions.
        whole: A hashable function from the array to all parts at once, which is differentiated.
        name: The operator, which names the node on the tape.

    Returns:
        Tensors on the same Cell. PyTorch forbids recorded writes to them.
    """
    made = tuple([_unrecorded_view(source, step, name, starts) for step, starts in steps])
    for each in made:
        if not each._view.made:
            each._view.made = name if modes.grad_enabled else "in no_grad mode"
    if modes.grad_enabled and made and source.requires_grad:
        kernel = _parts_kernel(whole, name)
        aval = jax.ShapeDtypeStruct(tuple(source.shape), source.dtype.numpy)
        cls = tape.node_class(kernel.node_name)
        node = cls(kernel, (aval,), (tape.edge_of(source),), len(made))
        for number, each in enumerate(made):
            each._grad_fn, each._output_nr, each._requires_grad = node, number, True
    return made


@functools.cache
def _parts_kernel(whole: Any, name: str) -> Kernel:
    return Kernel(whole, name, node_name_of_view(name), linear=True)


def _unrecorded_view(source: Tensor, step: Step, name: str, starts: Any) -> Any:
    if overrides(type(source)):
        raise OverrideNeeded
    made = object.__new__(Tensor)
    made._cell = source._cell
    before = source._view
    positions = None if starts is None else np.array(starts, np.int64)
    if before is None:
        array = source._cell.array
        shape, numpy_dtype = step.result(tuple(array.shape), array.dtype)
        made._view = View((step,), (name,), positions, shape, numpy_dtype, source)
    else:
        shape, numpy_dtype = step.result(before.shape, before.numpy_dtype)
        if before.starts is not None:
            joined = (before.starts, positions) if positions is not None else (before.starts,)
            positions = np.concatenate(joined)
        base, origin = before.base, before.origin
        if base is None:
            # A detached view's history starts at itself, its elements at the Cell's array.
            base, origin = source, len(before.steps)
        made._view = View(
            (*before.steps, step), (*before.names, name), positions, shape, numpy_dtype, base,
            origin, before.made,
        )  # fmt: skip
    if modes.trace is not None:
        modes.trace.note(source)
    if modes.inference or source._inference:
        made._inference = True
    return made


def _record_view(source: Tensor, made: Tensor, step: Step, name: str, starts: Any) -> None:
    edge = tape.edge_of(source)
    assert edge is not None
    node = _view_node(edge, tuple(source.shape), source.dtype.numpy, step, name, starts)
    if node is not None:
        made._grad_fn, made._requires_grad = node, True


def _view_node(
    edge: Any, shape: tuple[int, ...], numpy_dtype: Any, step: Step, name: str, starts: Any
) -> Any:
    """The node of one view step, or ``None`` where no gradient passes."""
    if isinstance(step, view.Bitcast):
        return None
    kernel = _view_kernel(step, name)
    aval = jax.ShapeDtypeStruct(shape, numpy_dtype)
    saved = (aval, None if starts is None else np.array(starts, np.int64))
    return tape.node_class(kernel.node_name)(kernel, saved, (edge, None), 1)


def replay_view(tensor: Tensor, of: View) -> None:
    """Compute a view's history anew from its base's, which an in-place write has moved.

    Raises:
        RuntimeError: The view was made in no_grad mode or together with others; PyTorch then calls
            its history ambiguous.
    """
    base = of.history_base()
    tensor._output_nr = 0
    if not base._requires_grad:
        tensor._grad_fn, tensor._requires_grad = None, False
        return
    if of.made:
        raise _forbidden_write("its base or another view of it", of)
    edge: Any = tape.edge_of(base)
    shape, numpy_dtype = tuple(base.shape), base.dtype.numpy
    steps, names, starts = of.from_base()
    used = 0
    for step, name in zip(steps, names, strict=True):
        own = starts[used : used + step.starts] if step.starts and starts is not None else None
        used += step.starts
        node = edge and _view_node(edge, shape, numpy_dtype, step, name, own)
        edge = node and (node, 0)
        shape, numpy_dtype = step.result(shape, numpy_dtype)
    tensor._grad_fn, tensor._requires_grad = (edge[0], True) if edge else (None, False)


def _forbidden_write(what: str, of: View) -> RuntimeError:
    if of.made == "in no_grad mode":
        return RuntimeError(
            f"a view was made in no_grad mode and {what} is changed in place while gradients are "
            "recorded; make and change it either both inside no_grad() or both outside"
        )
    return RuntimeError(
        f"a view is one of several that {of.made}() gave and {what} is changed in place while "
        "gradients are recorded, which views made together do not allow; use an operator that is "
        "not in place, or make this view by itself with narrow() or an index"
    )


def alias_of_leaf(leaf: Tensor, alias: Tensor) -> None:
    """Give ``alias`` the history of being a view of the whole of ``leaf``."""
    _record_view(leaf, alias, view.Reshape(tuple(leaf.shape)), "alias", None)


def become_view(
    target: Tensor, step: Step, name: str, starts: tuple[int, ...] | None = None
) -> Tensor:
    """Let ``target`` itself become a view of what it was, as `unsqueeze_` and its kin do.

    Raises:
        RuntimeError: ``target`` is a leaf that requires grad while gradients are recorded, or
            belongs to the world outside the function that is being compiled.
    """
    recorded = modes.grad_enabled and target.requires_grad
    if recorded and target.is_leaf:
        raise _leaf_error(target, f"{name}_")
    if modes.trace is not None and not isinstance(target._cell.array, Tracer):
        raise RuntimeError(
            f"{name}_() would change the shape of a tensor from outside the compiled function, "
            f"which a compiled program cannot do; use {name}() on it"
        )
    former = object.__new__(Tensor)
    former.__dict__.update(target.__dict__)
    made = _unrecorded_view(former, step, name, starts)
    if recorded:
        _record_view(former, made, step, name, starts)
        target._grad_fn, target._output_nr = made._grad_fn, 0
    elif former._view is None or former._view.base is None:
        made._view.base = None
    made._view.made = "" if former._view is None else former._view.made
    target._view = made._view
    return target


# Writing in place


def put(target: Tensor, value: Tensor, name: str) -> Tensor:
    """Write ``value`` to ``target`` in place: its elements and its history.

    Args:
        target: The tensor to overwrite.
        value: The new value, computed from the old one where the operator asks so.
        name: The in-place operator, for messages.

    Returns:
        ``target``.

    Raises:
        RuntimeError: The shapes differ, the dtype would lose its category, or ``target`` is a leaf
            that requires grad while gradients are recorded.
    """
    if value.shape != target.shape:
        raise RuntimeError(
            f"{name}(): the result of shape {list(value.shape)} does not fit the tensor of shape "
            f"{list(target.shape)} that it is to overwrite"
        )
    if value.dtype is not target.dtype:
        if not can_cast(value.dtype, target.dtype):
            raise RuntimeError(
                f"{name}(): a result of {value.dtype} cannot be stored in a tensor of "
                f"{target.dtype}; convert the tensor first"
            )
        value = value.to(target.dtype)
    base = target._history_base()
    if modes.grad_enabled and (value._requires_grad or base.requires_grad):
        _move_history(target, base, value, name)
        return target
    if target._inference and not modes.inference:
        raise RuntimeError(f"{name}(): inference tensors can only be changed in inference_mode")
    target._store(value._read())
    return target


def _move_history(target: Tensor, base: Tensor, value: Tensor, name: str) -> None:
    """Write ``value`` to ``target``, and let its history, or its base's, begin at the write."""
    if base._requires_grad and base.is_leaf:
        raise _leaf_error(target, name)
    if target is base:
        if not value._requires_grad:
            value = run(_overwrite_kernel(name.strip("_")), (target, value))
        array = value._read()
        target._grad_fn, target._output_nr = value._grad_fn, value._output_nr
        target._requires_grad = True
        target._rebased += 1
        target._store(array)
        return
    of = target._view
    assert of is not None
    if of.made:
        raise _forbidden_write("it", of)
    moved = _scattered(base, of, value)
    base._grad_fn, base._output_nr, base._requires_grad = moved._grad_fn, 0, True
    base._rebased += 1
    base._store(moved._read())


def _scattered(base: Tensor, of: View, value: Tensor) -> Tensor:
    """The whole of ``base`` with the viewed part replaced, recorded."""
    steps, _, starts = of.from_base()
    kernel = _scatter_kernel(steps)
    inputs, arrays = (base, value, None), [base._read(), value._read(), starts]
    if is_abstract(arrays[0]):
        return _record(kernel, inputs, arrays, kernel.on_meta(tuple(arrays)))
    return _run_recorded(kernel, inputs, arrays)


def _leaf_error(target: Tensor, name: str) -> RuntimeError:
    kind = "a leaf" if not target._is_view() else "a view of a leaf"
    return RuntimeError(
        f"{name}(): {kind} tensor that requires grad cannot be changed in place while "
        "gradients are recorded; do it under no_grad() or on tensor.data"
    )


@functools.cache
def _overwrite_kernel(name: str) -> Kernel:
    """Replaces all of a tensor by something that takes no gradient."""
    return Kernel(_second, name, f"{_camel(name)}Backward0", linear=True)


def _second(old: Any, new: Any) -> Any:
    return new


@functools.cache
def _scatter_kernel(steps: tuple[Step, ...]) -> Kernel:
    def copy_slices(array: Any, part: Any, starts: Any) -> Any:
        return view.write_through(steps, array, starts, part)

    return Kernel(copy_slices, "copy_slices", "CopySlices", linear=True)


def put_out(out: Any, value: Any, name: str) -> Any:
    """Store an operator's result, or each of several, in the ``out=`` the caller gave."""
    if isinstance(value, tuple):
        for one, part in zip(out, value, strict=True):
            put_out(one, part, name)
        return out
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): out must be a Tensor, got {type(out).__name__}")
    if modes.grad_enabled and (out.requires_grad or value.requires_grad):
        raise RuntimeError(
            f"{name}(): out= takes no part in gradients; one of the arguments requires grad"
        )
    if not can_cast(value.dtype, out.dtype):
        raise RuntimeError(f"{name}(): a result of {value.dtype} cannot be stored in {out.dtype}")
    if out.shape != value.shape:
        if out.numel():
            import warnings

            warnings.warn(
                f"{name}(): out of shape {list(out.shape)} was resized to {list(value.shape)}",
                stacklevel=3,
            )
        if out._view is not None:
            raise RuntimeError(f"{name}(): out is a view of the wrong shape and cannot be resized")
    out._store(value.to(out.dtype)._read())
    return out
