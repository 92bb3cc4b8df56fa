"""Deferred computation: the elements that a tensor on the meta device would have elsewhere.

Inside ``with device("meta"):`` every array carries a plan instead of elements: the kernel, draw or
constant that would compute it, and the plans of the inputs. Results computed from such arrays
later, and values written over them, carry plans too. Running a plan gives the array that the same
code would have given on a real device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding

from flambeau.core.devices.device import META, device, get_default_device
from flambeau.core.devices.donation import put
from flambeau.core.devices.meshes import placed
from flambeau.core.kernels.kernel import Kernel
from flambeau.core.support.modes import modes
from flambeau.core.types import AnyArray, DTypeLike, Function, Leaf, Tree
from flambeau.core.values.cell import abstract, is_abstract
from flambeau.core.values.upload import upload


class Plan:
    """One step of a deferred computation.

    Args:
        compute: A function of the device and the inputs' arrays that returns an array or a tuple of
            them.
        inputs: Planned arrays, and other values that are passed to ``compute`` unchanged.
    """

    __slots__ = ("compute", "inputs")

    def __init__(self, compute: Function, inputs: tuple[Leaf, ...] = ()) -> None:
        self.compute: Function = compute
        self.inputs: tuple[Leaf, ...] = inputs


class Planned(jax.ShapeDtypeStruct):
    """The shape and dtype of an array, and the plan that computes it.

    Attributes:
        plan: The step whose result it is.
        part: The index among several results, or ``None`` for the only one.
    """

    __slots__ = ("part", "plan")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: DTypeLike,
        plan: Plan,
        part: int | None = None,
        sharding: Sharding | None = None,
    ) -> None:
        super().__init__(shape, dtype, sharding=sharding)
        self.plan: Plan = plan
        self.part: int | None = part

    def update(self, **changes: Any) -> Planned:
        """The same plan for an array with another sharding."""
        return Planned(self.shape, self.dtype, self.plan, self.part, changes["sharding"])


def is_recording() -> bool:
    """Whether new arrays on meta record a plan, which they do if meta is the default device."""
    return get_default_device().type == "meta" and modes.trace is None


def has_plan(value: object) -> bool:
    """Whether the value of a Cell can be computed later."""
    return isinstance(value, Planned)


def is_to_be_followed(value: object) -> bool:
    """Whether a value that overwrites ``value`` outside the block needs a plan.

    If so, compute it inside ``with META.clone():``.
    """
    return isinstance(value, Planned) and not is_recording()


def following(value: object) -> contextlib.AbstractContextManager[object]:
    """A block that records plans if ``value``, which the block overwrites, carries one."""
    return META.clone() if is_to_be_followed(value) else contextlib.nullcontext()


def planned(
    shape: tuple[int, ...], dtype: DTypeLike, compute: Function, inputs: tuple[Leaf, ...] = ()
) -> jax.ShapeDtypeStruct:
    """The value of a Cell on the meta device, with its plan if plans are recorded."""
    if not is_recording():
        return abstract(shape, dtype)
    return Planned(shape, dtype, Plan(compute, inputs))


def constant(array: AnyArray) -> jax.ShapeDtypeStruct:
    """A NumPy or JAX array as the value of a Cell on the meta device."""
    return planned(tuple(array.shape), array.dtype, lambda where: _placed(array, where))


def applied(function: Function, arrays: tuple[Leaf, ...], results: Tree) -> Tree:
    """The ``results`` that a compiled function gives for ``arrays``.

    They have a plan if the arrays on the meta device, of which there may be none, all have one.
    """
    if not _can_plan(arrays):
        return results
    plan = Plan(lambda where, *inputs: function(*inputs), arrays)
    if isinstance(results, tuple):
        return tuple(Planned(e.shape, e.dtype, plan, i) for i, e in enumerate(results))
    return Planned(results.shape, results.dtype, plan)


def on_meta(kernel: Kernel, arrays: tuple[Leaf, ...]) -> Tree:
    """The results of ``kernel`` on the meta device, with their plan."""
    return applied(kernel.forward, arrays, kernel.on_meta(arrays))


def _can_plan(arrays: tuple[Leaf, ...]) -> bool:
    if modes.trace is not None:
        return False
    known = [isinstance(each, Planned) for each in arrays if is_abstract(each)]
    return all(known) and (bool(known) or get_default_device().type == "meta")


def carry_out(value: Planned, where: device) -> jax.Array:
    """Compute the array of ``value`` on a device.

    Intermediate arrays are freed as soon as the last step that takes them is done.
    """
    order = _steps_before(value.plan)
    uses: dict[Plan, int] = {value.plan: 1}
    for plan in order:
        for each in plan.inputs:
            if isinstance(each, Planned):
                uses[each.plan] = uses.get(each.plan, 0) + 1
    results: dict[Plan, Tree] = {}
    with jax.default_device(where.jax_device):
        for plan in order:
            inputs = [_take(each, results, uses) for each in plan.inputs]
            # Otherwise the next step would begin before the inputs of this one are freed.
            results[plan] = jax.block_until_ready(plan.compute(where, *inputs))
            del inputs
    array = _take(value, results, uses)
    if value.sharding is not None:
        return placed(array, value.sharding)
    return _placed(array, where)


def _take(value: Leaf, results: dict[Plan, Tree], uses: dict[Plan, int]) -> Leaf:
    if not isinstance(value, Planned):
        return value
    uses[value.plan] -= 1
    result = results[value.plan] if uses[value.plan] else results.pop(value.plan)
    return result if value.part is None else result[value.part]


def _steps_before(last: Plan) -> list[Plan]:
    """The steps that lead to ``last``, itself included, inputs first."""
    order: dict[Plan, None] = {}
    stack = [(last, False)]
    while stack:
        plan, inputs_done = stack.pop()
        if plan in order:
            continue
        if inputs_done:
            order[plan] = None
            continue
        stack.append((plan, True))
        stack.extend((e.plan, False) for e in reversed(plan.inputs) if isinstance(e, Planned))
    return list(order)


def _placed(array: AnyArray, where: device) -> jax.Array:
    target = where.jax_device
    return upload(array, target) if isinstance(array, np.ndarray) else put(array, target)
