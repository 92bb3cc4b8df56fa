"""Arrays on several devices as inputs of programs, also beside arrays on one device.

JAX's meshes have axes of two types. Along Auto axes, XLA decides how results are sharded. Along
Explicit axes, the default of `jax.make_mesh`, sharding is part of an array's type, and a function
must state the sharding of a result that does not follow from the inputs. Operators state none, so
all their arrays are on meshes with Auto axes.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
from jax.core import Tracer
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec, Sharding

from flambeau.core.devices import spanning
from flambeau.core.devices.donation import put
from flambeau.core.support import errors
from flambeau.core.support.jax_private import ArrayImpl
from flambeau.core.support.modes import modes
from flambeau.core.types import Contents, JaxDevice, Leaf, Tree

_Mesh = TypeVar("_Mesh", Mesh, AbstractMesh)

#: Whether this process has met an array on a mesh; until then no check is needed.
in_use: bool = False


def note_use() -> None:
    """Make in-place writes check shardings from now on."""
    global in_use
    in_use = True


@functools.lru_cache(maxsize=256)
def auto(mesh: _Mesh) -> _Mesh:
    """``mesh``, concrete or abstract, with Auto axes only; unchanged if it has no others."""
    if all(each == AxisType.Auto for each in mesh.axis_types):
        return mesh
    types = (AxisType.Auto,) * len(mesh.axis_names)
    if isinstance(mesh, Mesh):
        return Mesh(mesh.devices, mesh.axis_names, axis_types=types)
    return mesh.update_axis_types(dict(zip(mesh.axis_names, types, strict=True)))


def settled(array: Leaf) -> Leaf:
    """``array`` with the same sharding on a mesh with Auto axes; any other value unchanged."""
    if type(array) is not ArrayImpl or type(array.sharding) is not NamedSharding:
        return array
    note_use()
    sharding = array.sharding
    mesh = auto(sharding.mesh)
    if mesh is sharding.mesh:
        return array
    spec = PartitionSpec(*sharding.spec)
    if getattr(sharding.spec, "unreduced", None):
        array = jax.sharding.reshard(array, NamedSharding(sharding.mesh, spec))
    return _put(array, NamedSharding(mesh, spec, memory_kind=sharding.memory_kind))


def surroundings() -> contextlib.AbstractContextManager[object]:
    """A block in which the Explicit axes of the user's current mesh are Auto."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or auto(mesh) is mesh:
        return contextlib.nullcontext()
    return jax.sharding.use_abstract_mesh(auto(mesh))


def mesh_of(array: object) -> Any:
    """The JAX mesh of a concrete array; ``None`` for all others."""
    if type(array) is ArrayImpl and type(array.sharding) is NamedSharding:
        return array.sharding.mesh
    return None


def mesh_here(array: object) -> Any:
    """`mesh_of`, if all of its devices are this process's."""
    return mesh_of(array) if type(array) is ArrayImpl and array.is_fully_addressable else None


def is_loose(array: object) -> bool:
    """Whether a concrete array is uncommitted: on a device only because JAX put it there."""
    return type(array) is ArrayImpl and not array.committed


def devices_of(array: jax.Array) -> tuple[JaxDevice, ...]:
    """The devices of a concrete array, in the order in which programs number them."""
    mesh = mesh_of(array)
    return tuple(array.sharding.device_set if mesh is None else mesh.devices.flat)


def together(leaves: list[Leaf]) -> list[Leaf] | None:
    """``leaves`` with all arrays on one mesh's devices; ``None`` if they are already or cannot be.

    The mesh with the most devices is used; arrays on some of its devices are replicated on all of
    them. So a number or a mask on one device can be used with sharded arrays.
    """
    arrays = [each for each in leaves if type(each) is ArrayImpl]
    widest = max((each for each in arrays if mesh_of(each)), key=_width, default=None)
    if widest is None:
        return None
    order, mesh = devices_of(widest), auto(mesh_of(widest))
    inside = {*order}
    if not all(inside.issuperset(each.sharding.device_set) for each in arrays if each.committed):
        return None
    moved = [_beside(each, mesh, order) if type(each) is ArrayImpl else each for each in leaves]
    same = all(new is old for new, old in zip(moved, leaves, strict=True))
    return None if same else moved


class DifferentDevicesError(RuntimeError, ValueError):
    """Arrays lie on devices that are not all the same."""


def check_devices(leaves: Sequence[Leaf]) -> None:
    """Fail unless all committed arrays are on the same devices.

    Raises:
        DifferentDevicesError: They are not.
    """
    arrays = [each for each in leaves if type(each) is ArrayImpl and each.committed]
    found = {frozenset(each.sharding.device_set): each for each in arrays}
    if len(found) > 1:
        texts = [f"{sorted(each.id for each in devices)}" for devices in found]
        text = (
            "Expected all tensors to be on the same device, but found tensors on the devices "
            f"{' and '.join(texts)}; put them on one mesh by distribute_tensor() or redistribute()"
        )
        raise errors.on_purpose(DifferentDevicesError(text))


def take_turns(leaves: Sequence[Leaf]) -> bool:
    """Whether a program on these devices must end before the next one begins.

    XLA's CPU devices share one pool of as many threads as there are devices. A program with
    collectives needs all of these threads, but a device with 32 queued programs blocks a thread
    with the next one.
    """
    return any(
        type(each) is ArrayImpl
        and type(each.sharding) is NamedSharding
        and _width(each) > 1
        and each.platform() == "cpu"
        for each in leaves
    )


def _width(array: jax.Array) -> int:
    return len(array.sharding.device_set)


def _beside(array: jax.Array, mesh: Mesh | AbstractMesh, order: tuple[JaxDevice, ...]) -> jax.Array:
    if not array.committed:
        return array
    if devices_of(array) == order:
        return settled(array)
    return _put(array, NamedSharding(mesh, PartitionSpec()))


def _put(array: jax.Array, sharding: Sharding) -> jax.Array:
    if sharding.is_fully_addressable and array.is_fully_addressable:
        return put(array, sharding)
    return spanning.moved(array, sharding)


def spreading(positions: Sequence[int], mesh: Mesh) -> Callable[[list[Leaf]], None]:
    """A function that replicates the uncommitted arrays at ``positions`` on each device, in place.

    JAX would copy them to all devices at each call; this copies an array only once.
    """
    sharding = NamedSharding(auto(mesh), PartitionSpec())
    last: dict[int, tuple[Leaf, jax.Array]] = {}

    def spread(arrays: list[Leaf]) -> None:
        for position in positions:
            array = arrays[position]
            found = last.get(position)
            if found is None or found[0] is not array:
                if not is_loose(array):
                    continue
                found = last[position] = array, put(array, sharding)
            arrays[position] = found[1]

    return spread


def placed(array: Contents, sharding: Sharding) -> Contents:
    """``array`` with ``sharding``; a tracer gets a sharding constraint.

    On the meta device, the array that is created later has this sharding.
    """
    note_use()
    if isinstance(array, jax.ShapeDtypeStruct):
        return array.update(sharding=sharding)
    if isinstance(array, Tracer) or modes.trace is not None:
        return jax.lax.with_sharding_constraint(array, sharding)
    return _put(array, sharding)


def lying_as(array: Contents, other: Contents) -> Contents:
    """``array`` with the sharding of the array it replaces; unchanged without a mesh."""
    sharding = getattr(other, "sharding", None)
    if type(sharding) is not NamedSharding or type(array) is not ArrayImpl:
        return array
    same = array.shape != other.shape or array.sharding == sharding
    return array if same else _put(array, sharding)


def text_of(sharding: Any) -> str:
    """The properties of an array's sharding that a program depends on, as text."""
    mesh = sharding.mesh
    ids = [each.id for each in mesh.devices.flat]
    facts = mesh.axis_names, mesh.devices.shape, ids, sharding.spec, sharding.memory_kind
    return repr(facts)


def constrained(results: Tree, like: Tree) -> Tree:
    """The results of a function that is being traced, with the shardings of other arrays.

    Args:
        results: Arrays in tuples and lists.
        like: The same structure, with an array or ``None`` for each result; an array on no mesh, or
            of another shape, is ignored.
    """
    leaves, tree = jax.tree.flatten(results)
    others = jax.tree.leaves(like, is_leaf=lambda each: each is None)
    return tree.unflatten([_like(*each) for each in zip(leaves, others, strict=True)])


def _like(result: jax.Array, other: Leaf) -> jax.Array:
    if mesh_of(other) is None or other.shape != result.shape:
        return result
    return jax.lax.with_sharding_constraint(result, other.sharding)
