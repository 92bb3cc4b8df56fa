"""Making views, and the history that they inherit from their base."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from flambeau.core.kernels.kernel import Kernel
from flambeau.core.operators.overrides import OverrideNeeded, overrides
from flambeau.core.support.generations import remembered
from flambeau.core.support.modes import modes
from flambeau.core.tape import nodes as tape
from flambeau.core.tape.node import move_history, reshape_history
from flambeau.core.values.attributes import handle_on
from flambeau.core.values.cell import abstract
from flambeau.core.values.dual import suspended, tangent_of
from flambeau.core.values.inside import capture, stops_gradients
from flambeau.core.values.steps import Bitcast, Reshape, Step
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.view import MADE_IN_NO_GRAD, Ban, BanReason, View


@remembered
def _view_kernel(step: Step, name: str) -> Kernel:
    return Kernel(step.read, name, node_name_of_view(name), linear=True)


@functools.cache
def node_name_of_view(name: str) -> str:
    """The class name of a view's node; a digit after ``name`` numbers PyTorch's overload."""
    overload = name[-1] if name[-1].isdigit() else "0"
    return f"{camel(name.rstrip('0123456789'))}Backward{overload}"


def camel(name: str) -> str:
    """``index_put`` as ``IndexPut``; capitals inside a word stay."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def make_view(source: Tensor, step: Step, name: str, starts: tuple[Any, ...] | None = None) -> Any:
    """A view of ``source`` by one more step.

    Args:
        source: The tensor to view, itself possibly a view.
        step: The step to the viewed part.
        name: The operator, which names the node on the tape.
        starts: The step's start positions: integers, or 0-d arrays in a traced program.

    Returns:
        A tensor on the same Cell.
    """
    running = capture()
    if running is not None and _is_traced(starts):
        # A position computed inside a transformation is not known outside of it.
        source = running.lift(source)
    positions = _positions(starts)
    view = unrecorded_view(source, step, name, positions)
    if modes.grad_enabled:
        if source.requires_grad:
            _record_view(source, view, step, name, positions)
    elif view._view.ban is None:
        view._view.ban = MADE_IN_NO_GRAD
    return view


def make_views(
    source: Tensor, steps: list[tuple[Step, Any]], whole: Any, name: str
) -> tuple[Any, ...]:
    """Several views of ``source`` that one operator returns, recorded as one node.

    Args:
        source: The tensor to view, itself possibly a view.
        steps: For each view its step and start positions.
        whole: A hashable function from the array to all parts at once, which is differentiated.
        name: The operator, which names the node on the tape.

    Returns:
        Tensors on the same Cell. PyTorch forbids recorded writes to them.
    """
    views = tuple([unrecorded_view(source, step, name, starts) for step, starts in steps])
    ban = Ban(BanReason.SEVERAL, name) if modes.grad_enabled else MADE_IN_NO_GRAD
    for each in views:
        if each._view.ban is None:
            each._view.ban = ban
    if modes.grad_enabled and views and source.requires_grad:
        kernel = _parts_kernel(whole, name)
        cls = tape.node_class(kernel.node_name)
        node = cls(kernel, (_aval(source),), (tape.edge_of(source),), len(views))
        for number, each in enumerate(views):
            each._grad_fn, each._output_nr, each._requires_grad = node, number, True
    return views


@remembered
def _parts_kernel(whole: Any, name: str) -> Kernel:
    return Kernel(whole, name, node_name_of_view(name), linear=True)


def unrecorded_view(source: Tensor, step: Step, name: str, starts: Any) -> Any:
    """`make_view` without a node on the tape, for a view that is only written to."""
    if overrides(type(source)):
        raise OverrideNeeded
    if stops_gradients():
        source = source.detach()
    view = handle_on(source._cell, Tensor)
    if modes.trace is not None:
        modes.trace.derive(view, source)
    before = source._view
    positions = _positions(starts)
    if before is None:
        array = source._cell.array
        shape, numpy_dtype = step.result(tuple(array.shape), array.dtype)
        view._view = View((step,), (name,), positions, shape, numpy_dtype, source)
    else:
        shape, numpy_dtype = step.result(before.shape, before.numpy_dtype)
        if before.starts is not None:
            positions = _joined(before.starts, positions)
        base, origin = before.base, before.origin
        if base is None:
            # A detached view's history starts at itself, its elements at the Cell's array.
            base, origin = source, len(before.steps)
        view._view = View(
            (*before.steps, step), (*before.names, name), positions, shape, numpy_dtype, base,
            origin, before.ban,
        )  # fmt: skip
    if modes.trace is not None:
        modes.trace.note(source)
    if source._inference:
        view._inference = True
    if modes.dual is not None and not isinstance(step, Bitcast):
        _view_tangent(source, view, step, name, starts)
    return view


def _view_tangent(source: Tensor, view: Tensor, step: Step, name: str, starts: Any) -> None:
    """Make the tangent of a view a view of its source's tangent."""
    level, tangent = modes.dual, tangent_of(source)
    if tangent is not None and not modes.inference:
        with suspended():
            level.attach(view, make_view(tangent, step, name, starts))
    elif source._tangent is not None:
        # The base has a tangent but the view has none, nor do views of the view.
        level.attach(view, None)


def _is_traced(starts: Any) -> bool:
    """Whether a position is known only when the program runs."""
    if isinstance(starts, tuple):
        return any(isinstance(each, Tracer) for each in starts)
    return isinstance(starts, Tracer)


def _positions(starts: Any) -> Any:
    """Start positions as one array; a `jax.Array` if one is known only when the program runs."""
    if starts is None or isinstance(starts, np.ndarray | Array):
        return starts
    if any(isinstance(each, Array) for each in starts):
        return _stacked(starts)
    try:
        return np.array(starts, np.int64)
    except jax.errors.InconclusiveDimensionOperation:  # a symbolic size of `jax.export`
        return _stacked(starts)


def _stacked(starts: Any) -> Any:
    return jnp.stack([jnp.asarray(each, np.int64) for each in starts])


def _joined(before: Any, positions: Any) -> Any:
    if positions is None:
        return before
    if isinstance(before, Array) or isinstance(positions, Array):
        return jnp.concatenate((before, positions))
    return np.concatenate((before, positions))


def _record_view(source: Tensor, view: Tensor, step: Step, name: str, starts: Any) -> None:
    edge = tape.edge_of(source)
    assert edge is not None
    node = _view_node(edge, _aval(source), step, name, starts)
    if node is not None:
        view._grad_fn, view._requires_grad = node, True


def _aval(tensor: Tensor) -> jax.ShapeDtypeStruct:
    """The shape and dtype of a tensor."""
    of = tensor._view
    if of is not None:
        return abstract(of.shape, of.numpy_dtype)
    array = tensor._cell.array
    return abstract(tuple(array.shape), array.dtype)


def _view_node(edge: Any, aval: jax.ShapeDtypeStruct, step: Step, name: str, starts: Any) -> Any:
    """The node of one view step, or ``None`` where no gradient passes."""
    if isinstance(step, Bitcast):
        return None
    kernel = _view_kernel(step, name)
    return tape.node_class(kernel.node_name)(kernel, (aval, starts), (edge, None), 1)


def replay_view(tensor: Tensor, of: View) -> None:
    """Recompute a view's history from its base's, which an in-place write has moved.

    Raises:
        RuntimeError: The view was made in no_grad mode or together with others; PyTorch then calls
            its history ambiguous.
    """
    base = of.history_base()
    if not base._requires_grad:
        move_history(tensor, None, 0)
        return
    if of.ban is not None:
        raise forbidden_write("its base or another view of it", of)
    edge: Any = tape.edge_of(base)
    aval = _aval(base)
    steps, names, starts = of.from_base()
    used = 0
    for step, name in zip(steps, names, strict=True):
        own = starts[used : used + step.starts] if step.starts and starts is not None else None
        used += step.starts
        node = edge and _view_node(edge, aval, step, name, own)
        edge = node and (node, 0)
        aval = abstract(*step.result(aval.shape, aval.dtype))
    move_history(tensor, edge and edge[0], 0)


def view_of_tangent(base: Tensor, of: View) -> Tensor | None:
    """The view of a base's tangent that belongs to a view; ``None`` if the view has no gradient.

    Args:
        base: The tangent of the base.
        of: The view's relation to the base.
    """
    steps, names, starts = of.from_base()
    view, used = base, 0
    for step, name in zip(steps, names, strict=True):
        if isinstance(step, Bitcast):
            return None
        own = starts[used : used + step.starts] if step.starts and starts is not None else None
        used += step.starts
        view = make_view(view, step, name, own)
    return view


def guarded_view(source: Tensor, function: str) -> Any:
    """An alias of ``source`` that follows the same base and forbids recorded writes.

    Args:
        source: A view; or a tensor, of which the alias becomes a view.
        function: The custom `Function` that returns the alias.
    """
    alias, ban = source.detach(), Ban(BanReason.FUNCTION, function)
    of = source._view
    if of is not None and of.base is not None:
        alias._view = View(
            of.steps, of.names, of.starts, of.shape, of.numpy_dtype, of.base, of.origin, ban
        )
    else:
        steps, names, starts = ((), (), None) if of is None else (of.steps, of.names, of.starts)
        shape, numpy_dtype = tuple(source.shape), source.dtype.numpy
        alias._view = View(steps, names, starts, shape, numpy_dtype, source, len(steps), ban)
    return alias


def forbidden_write(name: str, of: View) -> RuntimeError:
    """The error about a recorded write that PyTorch does not allow for this view."""
    assert of.ban is not None
    if of.ban.reason is BanReason.NO_GRAD:
        return RuntimeError(
            f"a view was made in no_grad mode and {name} is changed in place while gradients are "
            "recorded; make and change it either both inside no_grad() or both outside"
        )
    if of.ban.reason is BanReason.FUNCTION:
        return RuntimeError(
            f"{of.ban.operator}.apply() gave a view of its input, or the input itself, and {name} "
            "is changed in place while gradients are recorded, past the gradient that the "
            "Function defines; let its forward return a clone()"
        )
    return RuntimeError(
        f"a view is one of several that {of.ban.operator}() gave and {name} is changed in place "
        "while gradients are recorded, which views made together do not allow; use an operator "
        "that is not in place, or make this view by itself with narrow() or an index"
    )


def leaf_error(target: Tensor, name: str) -> RuntimeError:
    """The error about a recorded write to a leaf."""
    own = target._requires_grad and target.is_leaf
    kind = "a leaf" if own or not target._is_view() else "a view of a leaf"
    return RuntimeError(
        f"{name}(): {kind} Variable that requires grad is being used in an in-place operation "
        "while gradients are recorded; do it under no_grad() or on tensor.data"
    )


def alias_of_leaf(leaf: Tensor, alias: Tensor) -> None:
    """Make ``alias`` a view of the whole of ``leaf`` on the tape."""
    _record_view(leaf, alias, Reshape(tuple(leaf.shape)), "alias", None)


def become_view(target: Tensor, step: Step, name: str, starts: Any = None) -> Tensor:
    """Make ``target`` a view of its former self, as `unsqueeze_` does.

    Raises:
        RuntimeError: ``target`` is a leaf that requires grad while gradients are recorded.
    """
    recorded = modes.grad_enabled and target.requires_grad
    if recorded and target.is_leaf:
        raise leaf_error(target, f"{name}_")
    if modes.trace is not None:
        modes.trace.exchange(target)
    former = handle_on(target._cell, Tensor)
    former._copy_fields(target)
    view = unrecorded_view(former, step, name, starts)
    target._tangent = view._tangent
    if recorded:
        _record_view(former, view, step, name, starts)
        if view._grad_fn is None:
            move_history(target, None, 0)
        else:
            kernel = _view_kernel(step, name)
            reshape_history(target, view._grad_fn, lambda grad: kernel.run((grad, starts)))
    own = former._view is None or former._view.base is None
    if own and not recorded:
        view._view.base = None
    if former._view is None:
        view._view.ban, view._view.of_itself = None, True
    else:
        view._view.ban, view._view.of_itself = former._view.ban, own or former._view.of_itself
    target._become(view._cell, view._view)
    return target


# The methods of `Tensor` that this file defines.
Tensor._replay_view = replay_view
Tensor._view_of_tangent = staticmethod(view_of_tangent)
Tensor._make_alias_of_leaf = alias_of_leaf
