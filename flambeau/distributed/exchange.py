"""Exchanges of arrays that each process has for itself, also inside of compiled functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from flambeau.core.devices import spanning
from flambeau.core.fusion.stream import boundary
from flambeau.core.programs.compiled import compiled
from flambeau.core.programs.deferred import computed
from flambeau.core.support.jax_private import axis_env
from flambeau.core.support.modes import modes
from flambeau.core.values.trace import TracedValueError
from flambeau.distributed.process_group import ProcessGroup, group_or_world

__all__: list[str] = []

# Exchange arrays together up to this many bytes.
PIECE = 25 << 20


def exchanged(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    group: ProcessGroup,
    *numbers: Any,
    **options: Any,
) -> Any:
    """The results of a function of this process's arrays and those of the others.

    Args:
        function: A function of a list of arrays, ``numbers`` and ``options``.
        arrays: This process's arrays, of the same shapes and dtypes in each.
        group: The processes.
        *numbers: The same in each process.
        **options: The same in each process; each value is a program.

    Raises:
        DistBackendError: Another process has ended, or runs another program.
        TracedValueError: In a compiled function, if the group is not that of all processes.
    """
    if not arrays:
        return []
    trace = modes.trace
    if trace is not None:
        if axis_env is None or group.ranks != group_or_world(None).ranks:
            raise TracedValueError(
                "processes exchange tensors in a compiled function, and the group has only some of "
                "the processes; let it have all, or exchange tensors outside of the function"
            )
        trace.spans_processes = True
        with axis_env([(spanning.PROCESSES, group.size())]):
            return function([*arrays], *numbers, **options)
    boundary()
    arrays = [*map(computed, arrays)]
    where = next(iter(arrays[0].devices()))
    mesh = spanning.mesh_of(group.ranks, where.platform)
    results = _program(function, mesh, tuple(options.items()))(arrays, *numbers)
    # Back to the device of each: a module may have several.
    pairs = zip(results, arrays, strict=True)
    return [jax.device_put(each, next(iter(own.devices()))) for each, own in pairs]


@functools.lru_cache(maxsize=256)
def _program(function: Any, mesh: Mesh, options: tuple[Any, ...]) -> Callable[..., Any]:
    return spanning.each_on_its_own(
        lambda spread: compiled(spread, function.__name__),
        functools.partial(function, **dict(options)),
        mesh,
    )


def from_process(arrays: list[Any], place: int) -> list[Any]:
    """The arrays of one process, by its rank in the group."""
    is_source = jax.lax.axis_index(spanning.PROCESSES) == place

    def sent(flat: Any) -> Any:
        # As bytes, which keep the sign of zero.
        own = jnp.where(is_source, flat.view(np.uint8), np.uint8(0))
        return jax.lax.psum(own, spanning.PROCESSES).view(flat.dtype)

    return _in_pieces(sent, arrays)


def sums(arrays: list[Any]) -> list[Any]:
    """The sums of the arrays of all processes."""
    return _in_pieces(lambda flat: jax.lax.psum(flat, spanning.PROCESSES), arrays)


def means(arrays: list[Any], divisor: Any, piece: int = PIECE) -> list[Any]:
    """The sums of the arrays of all processes, divided by a number, in pieces of some bytes."""
    return _in_pieces(
        lambda flat: jax.lax.psum(flat / jnp.asarray(divisor, flat.dtype), spanning.PROCESSES),
        arrays,
        piece,
    )


def _in_pieces(function: Callable[[Any], Any], arrays: list[Any], piece: int = PIECE) -> list[Any]:
    """The results of an elementwise function, called for few large arrays of all elements."""
    results: list[Any] = [None] * len(arrays)
    for places in pieces(arrays, piece):
        flat = function(jnp.concatenate([arrays[i].reshape(-1) for i in places]))
        first = 0
        for i in places:
            size = arrays[i].size
            results[i] = flat[first : first + size].reshape(arrays[i].shape)
            first += size
    return results


def pieces(arrays: Sequence[Any], most: float) -> list[list[int]]:
    """The positions of arrays that are exchanged together: of one dtype, and of so many bytes."""
    found: list[list[int]] = []
    # The last piece of each dtype, and its bytes.
    last: dict[Any, tuple[list[int], int]] = {}
    for i, each in enumerate(arrays):
        size = each.size * each.dtype.itemsize
        piece, before = last.get(each.dtype, ([], most))
        if not piece or before + size > most:
            piece, before = [], 0
            found.append(piece)
        piece.append(i)
        last[each.dtype] = piece, before + size
    return found
