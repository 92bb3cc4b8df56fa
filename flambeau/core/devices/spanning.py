"""Arrays on devices of several processes, each of which runs the same program on them.

A program may also compute in each process with arrays of its own, and exchange some of them; see
`each_on_its_own`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, Sharding

from flambeau.core.devices import exhaustion
from flambeau.core.devices.donation import put
from flambeau.core.support.jax_private import ArrayImpl
from flambeau.core.types import Function, JaxDevice, Leaf, Tree

_Result = TypeVar("_Result")

#: The axis of a mesh with one device of each process.
PROCESSES = "process"

#: The number of connected processes; set by `distributed`.
world: int = 1

#: Called before a program is compiled, with its name, its text, and the arguments that only this
#: process has; set by `distributed`.
agree: Callable[[str, str, list[tuple[str, bytes]]], None] | None = None

#: Called with the name of a failed program and its error; raises a more precise error if another
#: process has ended. Set by `distributed`.
explain: Callable[[str, Exception], None] | None = None

#: The waits of this process's threads, by a number: a name, the processes that take part, and how
#: many programs over as many processes this one had begun.
waiting: dict[int, tuple[str, tuple[int, ...], int]] = {}
#: The number of programs that this process has begun, and the last one's name, by the number of
#: processes.
begun: dict[int, tuple[int, str]] = {}

_placements, _waits = itertools.count(), itertools.count()


def spans(array: object) -> bool:
    """Whether an array has elements on devices of other processes."""
    return type(array) is ArrayImpl and not array.is_fully_addressable


def elements_given(leaves: Sequence[Leaf]) -> list[tuple[str, bytes]]:
    """The shapes and elements of the arguments that this process has on one device."""
    arrays = (each for each in leaves if type(each) is ArrayImpl and each.is_fully_addressable)
    return [(f"{e.dtype}{[*e.shape]}", np.asarray(e).tobytes()) for e in arrays]


def check_alike(array: Leaf, sharding: Sharding) -> None:
    """Check that all processes have the same elements, which a mesh over several replicates."""
    if agree is None or sharding.is_fully_addressable or type(array) is not ArrayImpl:
        return
    if not spans(array):
        agree("placement on a mesh", f"placement {next(_placements)}", elements_given([array]))


def local(array: jax.Array) -> jax.Array | None:
    """The elements held by this process; ``None`` if it holds only some of them."""
    if not spans(array):
        return array
    return array.addressable_data(0) if array.is_fully_replicated else None


def elements(array: jax.Array) -> np.ndarray:
    """The elements as a NumPy array.

    Raises:
        RuntimeError: Other processes hold some of them.
    """
    found = local(array)
    if found is None:
        raise RuntimeError(
            f"this process has only some elements of a tensor of shape {[*array.shape]}, which is "
            "divided over the devices of several processes: to_local() gives them, and "
            "full_tensor(), called by all processes, gives all"
        )
    if found is array:
        try:
            return np.asarray(array)
        except exhaustion.FAILURES as error:
            # The error of a computation that ran out of memory after its call.
            raise exhaustion.named(error) from error.__cause__
    # If programs run asynchronously, this is where Python waits for them.
    processes, number = processes_of(array.sharding), next(_waits)
    count, last = begun.get(len(processes), (0, ""))
    waiting[number] = f"reading a tensor after {last}", processes, count
    try:
        return np.asarray(found)
    finally:
        del waiting[number]


@functools.lru_cache(maxsize=256)
def processes_of(sharding: Sharding) -> tuple[int, ...]:
    """The processes that have the devices of a sharding."""
    return tuple(sorted({each.process_index for each in sharding.device_set}))


def run(
    program: Callable[..., _Result],
    arguments: Sequence[Leaf],
    name: str,
    processes: tuple[int, ...],
) -> _Result:
    """The results of a program on devices of several processes; on CPUs, once they are computed.

    While it runs, `waiting` has its name.

    XLA's CPU devices share one pool of threads, and a program that waits for other processes blocks
    them: two such programs at once would deadlock.

    Raises:
        DistBackendError: Another process has ended.
    """
    number, size = next(_waits), len(processes)
    count = begun.get(size, (0, ""))[0] + 1
    begun[size] = count, name
    waiting[number] = name, processes, count
    try:
        results = program(*arguments)
        arrays = (each for each in jax.tree.leaves(results) if type(each) is ArrayImpl)
        if any(each.platform() == "cpu" for each in arrays):
            jax.block_until_ready(results)
        return results
    except Exception as error:
        if explain is not None:
            explain(name, error)
        raise
    finally:
        del waiting[number]


@functools.lru_cache(maxsize=256)
def mesh_of(ranks: tuple[int, ...], platform: str) -> Mesh:
    """The first device of each process, along the axis `PROCESSES`."""
    firsts: dict[int, JaxDevice] = {}
    for each in jax.devices(platform):
        firsts.setdefault(each.process_index, each)
    devices = np.array([firsts[rank] for rank in ranks], dtype=object)
    return Mesh(devices, (PROCESSES,), axis_types=(AxisType.Auto,))


def each_on_its_own(
    compile: Callable[[Function], Function],
    function: Function,
    mesh: Mesh,
) -> Function:
    """A program by which each process computes with arrays of its own.

    Args:
        compile: Gives the program of a function.
        function: A function of arrays and numbers; `jax.lax.psum` and its like over the axis
            `PROCESSES` exchange values.
        mesh: See `mesh_of`.
    """
    # JAX takes the arrays of the processes for copies of one, and does not compare them.
    alike = PartitionSpec()
    program = compile(
        jax.shard_map(function, mesh=mesh, in_specs=alike, out_specs=alike, check_vma=False)
    )
    sharding, own = NamedSharding(mesh, alike), mesh.local_devices[0]

    def whole(array: Leaf) -> Leaf:
        if not isinstance(array, jax.Array):
            return array
        part = array if array.devices() == {own} else jax.device_put(array, own)
        return jax.make_array_from_single_device_arrays(array.shape, sharding, [part])

    def run(*arguments: Tree) -> Tree:
        return own_parts(program(*jax.tree.map(whole, arguments)))

    return run


def own_parts(results: Tree) -> Tree:
    """The results of a program of `each_on_its_own` as arrays of this process."""
    return jax.tree.map(lambda each: each.addressable_data(0) if spans(each) else each, results)


def moved(array: Any, sharding: Sharding) -> jax.Array:
    """A concrete array with ``sharding``, if either of the two spans several processes.

    An array of this process is assumed to be equal on all processes.
    """
    if array.is_fully_addressable:
        return uploaded(np.asarray(array), sharding)
    if sharding.is_fully_addressable:
        everywhere = NamedSharding(array.sharding.mesh, PartitionSpec())
        return put(_divided(everywhere)(array).addressable_data(0), sharding)
    return _divided(sharding)(array)


def uploaded(array: np.ndarray, sharding: Sharding) -> jax.Array:
    """A NumPy array, equal on all processes, with ``sharding``."""
    if sharding.is_fully_addressable:
        return jax.device_put(array, sharding)
    return jax.make_array_from_callback(
        array.shape, sharding, lambda index: array[index], dtype=array.dtype
    )


@functools.lru_cache(maxsize=256)
def _divided(sharding: Sharding) -> Callable[[jax.Array], jax.Array]:
    program = jax.jit(lambda array: array, out_shardings=sharding)

    def divide(array: jax.Array) -> jax.Array:
        if array.sharding == sharding:
            return array
        if agree is not None:
            agree("redistribute", f"{array.aval} {array.sharding} to {sharding}", [])
        return run(program, (array,), "redistribute", processes_of(sharding))

    return divide
