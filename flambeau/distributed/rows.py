"""The tensors of processes as the rows of one array, and programs over these rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from flambeau.core.devices import spanning
from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.arguments import member
from flambeau.distributed.reduce_op import BY_XLA, REDUCTIONS, ReduceOp
from flambeau.distributed.work import Work

__all__: list[str] = []

# Each returns a function of the rows of all processes, and whether each process gets another part.


def reduced(op: ReduceOp) -> tuple[Callable[[Any], Any], bool]:
    """The reduction of all rows."""
    return REDUCTIONS[op], False


def row(place: int) -> tuple[Callable[[Any], Any], bool]:
    """The row of one process."""
    return lambda rows: rows[place], False


def rows() -> tuple[Callable[[Any], Any], bool]:
    """All rows."""
    return lambda rows: rows, False


def part_of_row(place: int) -> tuple[Callable[[Any], Any], bool]:
    """The row of one process, split into a part for each process."""
    return lambda rows: rows[place], True


def reduced_part(op: ReduceOp) -> tuple[Callable[[Any], Any], bool]:
    """The reduction of all rows, split into a part for each process."""
    return REDUCTIONS[op], True


def column() -> tuple[Callable[[Any], Any], bool]:
    """A part of each row."""
    return lambda rows: jnp.swapaxes(rows, 0, 1), True


def into(
    target: Any,
    kind: Callable[..., Any],
    given: Any,
    group: Any,
    async_op: bool,
    name: str,
    *options: Any,
) -> Work | None:
    """Run a collective, and write the result into this process's tensors.

    Args:
        target: A tensor, a list of one for each row of the result, or ``None``.
        kind: A function above.
        given: This process's row: a tensor, or an array from `stacked`.
        group: The processes.
        async_op: Whether to return a `Work`.
        name: The collective's name in messages.
        *options: The options of ``kind``.

    Raises:
        DistBackendError: Another process does not arrive, or calls another collective.
        TypeError: A tensor is on a mesh, sparse or on the meta device.
    """
    found = member(group)
    if found is None:
        return None
    array = _array_of(given, name) if isinstance(given, Tensor) else given
    if found.channel is not None:
        said = "".join(f", {getattr(each, 'name', each)}" for each in options)
        found.channel.exchange(b"", f"{name}({array.dtype}{[*array.shape]}{said})")
    (where,) = array.sharding.device_set
    mesh = spanning.mesh_of(found.ranks, where.platform)
    spread = NamedSharding(mesh, PartitionSpec(spanning.PROCESSES))
    mine = jax.device_put(array, mesh.local_devices[0])[None]
    shape = found.size(), *array.shape
    whole = jax.make_array_from_single_device_arrays(shape, spread, [mine])
    program, divided = _program(mesh, kind, options)
    processes = tuple(sorted(found.ranks))
    result = spanning.run(program, (whole,), f"{name}()", processes).addressable_data(0)
    _write(target, jax.device_put(result[0] if divided else result, where))
    return Work(result=_flat(target)) if async_op else None


def stacked(tensors: Sequence[Tensor], name: str) -> Any:
    """Tensors of one shape as an array, with a row for each."""
    return jnp.stack([_array_of(each, name) for each in tensors])


def first_rows(tensors: Sequence[Tensor], length: int, name: str) -> Any:
    """The elements of tensors as rows of one length, padded with zeros at the end."""
    flat = [_array_of(each, name).reshape(-1) for each in tensors]
    return jnp.stack([jnp.pad(each, (0, length - each.size)) for each in flat])


def _array_of(tensor: Any, name: str) -> Any:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}() takes tensors, got {type(tensor).__name__}: {tensor!r:.80}")
    if tensor.is_sparse or tensor.is_meta:
        raise TypeError(f"{name}() takes dense tensors with elements, got one on {tensor.device}")
    array = tensor._read()
    if len(array.sharding.device_set) > 1:
        raise TypeError(
            f"{name}() takes a tensor on one device, of which each process has another; this one "
            "lies on a mesh, and is the same for all processes: use redistribute(), full_tensor() "
            "or to_local()"
        )
    return array


def _flat(target: Any) -> list[Any]:
    return [] if target is None else [target] if isinstance(target, Tensor) else [*target]


def _write(target: Any, result: Any) -> None:
    if isinstance(target, Tensor):
        _fill(target, result)
    elif target is not None:
        for each, part in zip(target, result, strict=True):
            _fill(each, part.reshape(-1)[: each.numel()])


def _fill(tensor: Tensor, elements: Any) -> None:
    with no_grad():
        tensor.detach().copy_(Tensor._wrap(elements.reshape(tuple(tensor.shape))))


@functools.lru_cache(maxsize=1024)
def _program(mesh: Mesh, kind: Any, options: tuple[Any, ...]) -> tuple[Any, bool]:
    function, divided = kind(*options)
    whole, parts = (
        NamedSharding(mesh, PartitionSpec(*each)) for each in ([], [spanning.PROCESSES])
    )
    by_all = [each for each in options if isinstance(each, ReduceOp) and each not in BY_XLA]

    def collective(rows: Any) -> Any:
        return function(jax.lax.with_sharding_constraint(rows, whole) if by_all else rows)

    return jax.jit(collective, out_shardings=parts if divided else whole), divided
