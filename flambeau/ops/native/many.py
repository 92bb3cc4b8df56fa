"""Native kernels over many arrays in one pass: optimizer steps, and clipping to a norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from flambeau.ops.native.call import call_kernel, has_kernel

__all__: list[str] = []

#: Arrays from arrays, all of them in tuples.
Plain = Callable[..., tuple[Any, ...]]

# The maximum number of parameters of a call. XLA compares each pair of aliased arrays with each
# array of the call, so one call for a thousand parameters takes a minute to compile.
_AT_ONCE = 16


def takes(name: str, arrays: Sequence[Any]) -> bool:
    """Whether the kernel of this name supports these arrays.

    Over several devices each array has its own sharding, and XLA's loops compute the shards.

    Args:
        name: The kernel's name, without ``flambeau_``.
        arrays: All arrays of the kernel.
    """
    return (
        jax.device_count() == 1
        and all(each.dtype == jnp.float32 for each in arrays)
        and has_kernel(name, arrays[0])
    )


def update(
    name: str,
    numbers: Callable[[Any], Sequence[Any]],
    options: Any,
    members: Sequence[Sequence[Any]],
    plain: Callable[..., Sequence[Any]],
    **flags: bool,
) -> list[Sequence[Any]]:
    """A step of an optimizer for several parameters.

    Args:
        name: The kernel's name, without ``flambeau_``.
        numbers: From ``options`` to the numbers that the kernel uses; ``None`` becomes 0.
        options: The optimizer's options, numbers and 0-d arrays in any structure.
        members: For each parameter: the parameter, its gradient, and its state.
        plain: From ``options`` and one of ``members`` to its new parameter and state, by XLA's
            operators.
        **flags: The kernel's other attributes.

    Returns:
        For each of ``members`` its new parameter and state, which may reuse the memory of the old
        ones.
    """
    found: list[Sequence[Any]] = []
    for start in range(0, len(members), _AT_ONCE):
        some = members[start : start + _AT_ONCE]
        found += _updated(name, numbers, options, some, plain, flags)
    return found


def _updated(
    name: str, numbers: Any, options: Any, members: Sequence[Any], plain: Any, flags: Any
) -> list[Sequence[Any]]:
    """`update` by one call."""
    width = len(members[0])
    arrays = [each for own in members for each in own]
    # All except the gradients, which come second.
    changed = [place for place in range(len(arrays)) if place % width != 1]

    def kernel(options: Any, *given: Any) -> tuple[Any, ...]:
        taken = [0.0 if each is None else each for each in numbers(options)]
        vector = jnp.stack([jnp.asarray(each, jnp.float64) for each in taken])
        return call_kernel(
            name, [given[place].shape for place in changed], vector, *given, batch=0,
            aliases=tuple((1 + place, result) for result, place in enumerate(changed)), **flags,
        )  # fmt: skip

    def one_by_one(options: Any, *given: Any) -> tuple[Any, ...]:
        found: list[Any] = []
        for start in range(0, len(given), width):
            found += plain(options, *given[start : start + width])
        return tuple(found)

    found = _with_rules(kernel, one_by_one)(options, *arrays)
    return [found[start : start + width - 1] for start in range(0, len(found), width - 1)]


def clip(arrays: Sequence[Any], max_norm: Any, tiny: float, plain: Plain) -> tuple[Any, ...]:
    """The norm of arrays as one vector, and the arrays scaled so that it is at most ``max_norm``.

    Args:
        arrays: In single precision.
        max_norm: A number or a 0-d array.
        tiny: Added to the norm before it divides.
        plain: The same function of ``max_norm`` and the arrays, by XLA's operators.
    """

    def kernel(limit: Any, *given: Any) -> tuple[Any, ...]:
        shapes = [(), *(each.shape for each in given)]
        limit = limit.reshape(1).astype(jnp.float64)
        return call_kernel("clip", shapes, limit, *given, batch=0, tiny=float(tiny))

    return _with_rules(kernel, plain)(jnp.asarray(max_norm), *arrays)


def _with_rules(kernel: Plain, plain: Plain) -> Plain:
    """``kernel``, with the batching rule and the derivatives of ``plain``."""

    @custom_vmap
    def once(*given: Any) -> tuple[Any, ...]:
        return kernel(*given)

    @once.def_vmap
    def more(size: int, are_batched: Any, *given: Any) -> Any:
        axes = jax.tree.map(lambda each: 0 if each else None, tuple(are_batched))
        found = jax.vmap(plain, axes, axis_size=size)(*given)
        return found, (True,) * len(found)

    derived = jax.custom_jvp(once)
    derived.defjvp(lambda primals, tangents: jax.jvp(plain, primals, tangents))
    return derived
