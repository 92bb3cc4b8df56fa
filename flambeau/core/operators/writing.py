"""Writing in place: the elements of a tensor, and the history that follows the write."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.devices import meshes
from flambeau.core.kernels.casting import warn_of_lost_part
from flambeau.core.kernels.kernel import Kernel
from flambeau.core.kernels.promotion import can_cast
from flambeau.core.operators.dispatch import run, run_with_constants
from flambeau.core.operators.overrides import any_overrides, flattened, handle_torch_function
from flambeau.core.operators.viewing import camel, forbidden_write, leaf_error
from flambeau.core.programs import finishing
from flambeau.core.programs.deferred import ARRAYS
from flambeau.core.support.dtype import FLOATING
from flambeau.core.support.generations import remembered
from flambeau.core.support.modes import modes
from flambeau.core.support.tracebacks import trim
from flambeau.core.support.warning import warn
from flambeau.core.tape import forward
from flambeau.core.tape.node import history_mover
from flambeau.core.values import view
from flambeau.core.values.cell import Cell
from flambeau.core.values.convert import number_in
from flambeau.core.values.dual import tangent_of
from flambeau.core.values.history import is_part
from flambeau.core.values.steps import Step
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.view import View


def put(target: Tensor, value: Tensor, name: str) -> Tensor:
    """Write ``value`` to ``target`` in place: its elements and its history.

    Args:
        target: The tensor to overwrite.
        value: The new value, computed from the old one if the operator depends on it.
        name: The in-place operator, for messages.

    Returns:
        ``target``.

    Raises:
        RuntimeError: The shapes differ, the value's dtype has a higher category, or ``target`` is a
            leaf that requires grad while gradients are recorded.
    """
    if modes.dual is not None:
        return forward.written(put, target, value, name)
    if value._view is None and not value._requires_grad:
        array = value._cell.array
        if type(array) in ARRAYS and _is_simple(target, array):
            target._cell.write(array)
            return target
    check_fit(target, value, name)
    if value.dtype is not target.dtype:
        value = value.to(target.dtype)
    base = target._history_base()
    if modes.grad_enabled and (value._requires_grad or base.requires_grad):
        _move_history(target, base, value, name)
        return target
    if target._inference and not modes.inference:
        raise RuntimeError(f"{name}(): inference tensors can only be changed in inference_mode")
    target._store(value._read())
    return target


def put_array(target: Tensor, array: Any, name: str) -> Tensor:
    """`put` for an array of any kind in ``ARRAYS`` that takes no gradient."""
    if not _is_simple(target, array):
        return put(target, Tensor._wrap(array), name)
    target._cell.write(array)
    return target


def _is_simple(target: Tensor, array: Any) -> bool:
    """Whether an array that takes no gradient just replaces the one of a tensor, as mostly."""
    old = target._cell.array
    if target._view is not None or type(old) not in ARRAYS:
        return False
    before, now = old.aval, array.aval
    return (
        (before is now or (before.shape == now.shape and before.dtype == now.dtype))
        and modes.inside is None
        and not (target._requires_grad and modes.grad_enabled)
        and not target._inference
        and not meshes.in_use
    )


def store_all(targets: Sequence[Tensor], arrays: Sequence[Any]) -> None:
    """Overwrite the elements of several tensors; an interrupt leaves all unchanged or all written.

    Args:
        targets: The tensors.
        arrays: The new elements of each, of its shape and dtype.
    """

    def write(_: Any) -> None:
        for target, array in zip(targets, arrays, strict=True):
            target._store(array)

    finishing.finish(write)


def all_or_none(tensors: Sequence[Tensor], change: Callable[[], Any]) -> Any:
    """The result of ``change()``; if it raises, the tensors' elements are restored."""
    if modes.trace is not None:
        return change()
    arrays = [each._read() for each in tensors]
    try:
        return change()
    except BaseException:
        pairs = zip(tensors, arrays, strict=True)
        changed = [(each, array) for each, array in pairs if each._read() is not array]
        store_all([each for each, _ in changed], [array for _, array in changed])
        raise


def check_fit(target: Tensor, value: Tensor, name: str) -> None:
    """Fail if ``value`` cannot overwrite ``target``; arguments as for `put`.

    Raises:
        RuntimeError: The shapes differ, or the value's dtype has a higher category.
    """
    if value.shape != target.shape:
        raise RuntimeError(
            f"{name}(): the result of shape {list(value.shape)} does not fit the tensor of shape "
            f"{list(target.shape)} that it is to overwrite"
        )
    if value.dtype is not target.dtype and not can_cast(value.dtype, target.dtype):
        raise RuntimeError(
            f"{name}(): a result of {value.dtype} cannot be stored in a tensor of "
            f"{target.dtype}; convert the tensor first"
        )


def _move_history(target: Tensor, base: Tensor, value: Tensor, name: str) -> None:
    """Write ``value`` to ``target``, and start its history, or its base's, at the write."""
    _check_leaves(target, base, name)
    if target is base:
        if not value._requires_grad:
            value = run(_overwrite_kernel(name.strip("_")), (target, value))
        _write_recorded(target, value)
        return
    of = target._view
    assert of is not None
    if of.ban is not None:
        raise forbidden_write("it", of)
    _write_recorded(base, _scattered(base, of, value))


def _check_leaves(target: Tensor, base: Tensor, name: str) -> None:
    for each in (target, base):
        if each._requires_grad and each.is_leaf:
            raise leaf_error(target, name)


def _write_recorded(target: Tensor, value: Tensor) -> None:
    """Give ``target`` the elements and the history of ``value``; do neither if interrupted."""
    array = value._read()
    move = history_mover(target, value._grad_fn, value._output_nr)

    def write(_: Any) -> None:
        target._store(array)
        move()
        target._rebased += 1

    finishing.finish(write)


def _scattered(base: Tensor, of: View, value: Any) -> Tensor:
    """The base with the viewed part replaced, recorded as one node."""
    steps, _, starts = of.from_base()
    if isinstance(value, Tensor):
        return run_with_constants(_scatter_kernel(steps), (base, value), (starts,))
    return run_with_constants(_scatter_kernel(steps), (base,), (value, starts))


@functools.cache
def _overwrite_kernel(name: str) -> Kernel:
    """Replaces all of a tensor by a value that takes no gradient."""
    return Kernel(_second, name, f"{camel(name)}Backward0", linear=True)


def _second(old: Any, new: Any) -> Any:
    return new


@remembered
def _scatter_kernel(steps: tuple[Step, ...]) -> Kernel:
    def copy_slices(array: Any, part: Any, starts: Any) -> Any:
        return view.write_fitted(steps, array, starts, part)

    return Kernel(copy_slices, "copy_slices", "CopySlices", linear=True)


def assign(target: Tensor, value: Any, name: str) -> None:
    """Overwrite ``target`` with a tensor or number, converted to its dtype and broadcast.

    Args:
        target: The tensor to overwrite.
        value: A tensor on the same device, whose leading dimensions of size 1 do not count, or a
            Python number.
        name: The operator, for messages.

    Raises:
        RuntimeError: The value does not broadcast, a number does not fit the dtype, or ``target``
            is a leaf that requires grad while gradients are recorded.
    """
    if modes.dual is not None:
        forward.written(assign, target, value, name)
        return
    is_tensor = isinstance(value, Tensor)
    check_fits(value, target, name, to_infinity=True)
    if is_tensor:
        warn_of_lost_part(value.dtype, target.dtype)
    base = target._history_base()
    recorded = modes.grad_enabled and (base.requires_grad or (is_tensor and value.requires_grad))
    # Integers take no part in gradients, whatever value is written to them.
    recorded = recorded and base.dtype.category >= FLOATING
    of = target._view
    if recorded and of is not None and target is not base:
        _check_leaves(target, base, name)
        if of.ban is not None:
            raise forbidden_write("it", of)
        _write_recorded(base, _scattered(base, of, value))
        return
    if target._inference and not modes.inference:
        raise RuntimeError(f"{name}(): inference tensors can only be changed in inference_mode")
    if of is not None and not recorded and not target.is_meta:
        target._store(value._read() if is_tensor else value)
        return
    put(target, run(_fit_kernel(is_tensor), (target, value)), name)


def check_fits(value: Any, target: Tensor, name: str, to_infinity: bool = False) -> None:
    """Raise unless a tensor broadcasts to ``target``, or a number fits its dtype; see `number_in`.

    Raises:
        RuntimeError: It does not.
    """
    if isinstance(value, Tensor):
        shape, to = tuple(value.shape), tuple(target.shape)
        while len(shape) > len(to) and shape[0] == 1:
            shape = shape[1:]
        if len(shape) > len(to) or any(
            have not in (1, want) for have, want in zip(shape[::-1], to[::-1], strict=False)
        ):
            raise RuntimeError(
                f"{name}(): a value of shape {list(value.shape)} does not broadcast to the shape "
                f"{list(to)} that it is assigned to"
            )
        return
    if isinstance(value, bool | int | float | complex):
        number_in(value, target.dtype, name, to_infinity)


@functools.cache
def _fit_kernel(from_tensor: bool) -> Kernel:
    """Replaces all elements of a tensor; the old elements get a gradient of zeros."""

    def fit(old: Any, value: Any) -> Any:
        return view.fitted(value, old.shape, old.dtype)

    name, node_name = ("copy", "CopyBackwards") if from_tensor else ("fill", "FillBackward0")
    return Kernel(fit, name, node_name, linear=True)


def put_out(out: Any, value: Any, name: str, operands: tuple[Any, ...] = ()) -> Any:
    """Store an operator's result, or several results, in the caller's ``out=``.

    Args:
        out: A tensor, or one for each result.
        value: The result, or all of them.
        name: The operator, for messages.
        operands: The tensors that it was computed from; an operand is not resized.
    """
    if isinstance(value, tuple):
        for one, part in zip(out, value, strict=True):
            put_out(one, part, name, operands)
        return out
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): out must be a Tensor, got {type(out).__name__}")
    if modes.grad_enabled and (out.requires_grad or value.requires_grad):
        raise RuntimeError(
            f"{name}(): out= takes no part in gradients; one of the arguments requires grad"
        )
    if tangent_of(out) is not None or tangent_of(value) is not None:
        raise NotImplementedError(
            f"{name}(): out= passes no tangent on, and forward mode meets a dual tensor here; use "
            "the result"
        )
    if not can_cast(value.dtype, out.dtype):
        raise RuntimeError(f"{name}(): a result of {value.dtype} cannot be stored in {out.dtype}")
    if out.shape != value.shape:
        if any(each is out for each in operands):
            raise RuntimeError(
                f"{name}(): output with shape {list(out.shape)} doesn't match the broadcast shape "
                f"{list(value.shape)}, and is an operand; pass another tensor as out"
            )
        if out.numel():
            warn(
                f"{name}(): out of shape {list(out.shape)} was resized to {list(value.shape)}",
            )
        if is_part(out):
            raise RuntimeError(f"{name}(): out is a view of the wrong shape and cannot be resized")
        out._become(Cell(value.to(out.dtype)._read()), None)
        return out
    out._store(value.to(out.dtype)._read())
    return out


def make_in_place(face: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The operator that overwrites its first argument with the result of ``face``."""
    in_place_name = f"{name}_"
    # Functions that are composed of operators have none.
    bare = getattr(face, "bare", None)

    def in_place(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        values = (self, *args, *kwargs.values())
        if any_overrides(values):
            return handle_torch_function(in_place, flattened(values), self, *args, **kwargs)
        try:
            if bare is None:
                return put(self, face(self, *args, **kwargs), in_place_name)
            value = bare((self, *args), kwargs)
            write = put if isinstance(value, Tensor) else put_array
            return write(self, value, in_place_name)
        except Exception as error:
            trim(error)
            raise

    in_place.__name__ = in_place.__qualname__ = in_place_name
    in_place.__doc__ = f"`{name}`, in place: the tensor is overwritten and returned."
    return in_place
