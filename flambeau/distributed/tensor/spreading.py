"""Tensors on several devices: placing them, and their additional methods."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.core import Tracer
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from flambeau.core.devices import meshes, spanning
from flambeau.core.kernels.kernel import Kernel
from flambeau.core.operators.dispatch import run
from flambeau.core.support import world
from flambeau.core.support.jax_private import ArrayImpl
from flambeau.core.support.modes import modes
from flambeau.core.tape import nodes as tape
from flambeau.core.values.dual import tangent_of
from flambeau.core.values.inside import capture
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.tensor_class import TensorMeta
from flambeau.distributed.device_mesh import DeviceMesh, as_mesh
from flambeau.distributed.tensor.parts import first_device, of_own_parts, own_part
from flambeau.distributed.tensor.placements import (
    Partial,
    Placement,
    Replicate,
    Shard,
    placements_of,
    sharding_of,
)
from flambeau.ops.shapes.shape import cat

__all__ = ["DTensor", "distribute_tensor"]


def lies(tensor: Tensor) -> NamedSharding | None:
    """The sharding of a tensor on a mesh, or the planned one; ``None`` for all other tensors."""
    array = tensor._cell.array
    if type(array) is ArrayImpl and tensor._view is not None:
        array = tensor._read()
    sharding = None if isinstance(array, Tracer) else getattr(array, "sharding", None)
    return sharding if isinstance(sharding, NamedSharding) else None


class _DTensorMeta(TensorMeta):
    """Counts tensors whose elements are on a mesh."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is not DTensor:
            return super().__instancecheck__(instance)
        if not isinstance(instance, Tensor) or instance.is_sparse:
            return False
        return lies(instance) is not None


class DTensor(Tensor, metaclass=_DTensorMeta):
    """A tensor whose elements are on the devices of a mesh.

    It is not a separate class: every tensor on a mesh, including parameters, is an instance, and
    has `placements`, `device_mesh`, `redistribute`, `full_tensor` and `to_local`.

    >>> import flambeau
    >>> from flambeau.distributed.tensor import DTensor, distribute_tensor
    >>> from flambeau.distributed.device_mesh import init_device_mesh
    >>> mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("data",))
    >>> x = distribute_tensor(flambeau.ones(4), mesh)
    >>> isinstance(x, DTensor), isinstance(flambeau.ones(4), DTensor)
    (True, False)
    >>> x.placements
    (Replicate(),)
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> DTensor:
        raise TypeError(
            "a DTensor is made by distribute_tensor(tensor, mesh, placements) or "
            "DTensor.from_local(tensor, mesh, placements)"
        )

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: Any = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Any = None,
        stride: Any = None,
        grad_placements: Any = None,
    ) -> Any:
        """The tensor whose part on each device of a mesh is ``local_tensor``.

        One process passes the part for all its devices, so their parts are equal: along a dimension
        with `Shard`, the parts are concatenated; with `Partial`, they are summed. On a mesh over
        several processes, each passes the part of its devices.

        Args:
            local_tensor: The part.
            device_mesh: The mesh; by default all devices.
            placements: One for each dimension of the mesh; by default `Replicate`.
            run_check: Accepted for compatibility, like ``shape``, ``stride`` and
                ``grad_placements``.

        Raises:
            NotImplementedError: A placement is `Partial` on a mesh over several processes.
        """
        mesh = as_mesh(device_mesh)
        whole: Any = local_tensor
        settled: list[Placement] = []
        given = [Replicate()] * mesh.ndim if placements is None else placements
        if not mesh.is_this_process_alone:
            return of_own_parts(local_tensor, mesh, given)
        for count, each in zip(mesh.shape, given, strict=True):
            if isinstance(each, Shard):
                whole = cat([whole] * count, each.dim)
            elif isinstance(each, Partial) and each.reduce_op == "sum":
                whole = whole * count
            settled.append(Replicate() if isinstance(each, Partial) else each)
        return put(whole, sharding_of(mesh, settled, whole.shape))


def distribute_tensor(
    tensor: Tensor,
    device_mesh: Any = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """The elements of a leaf on the devices of a mesh.

    Args:
        tensor: A leaf, on one device, on a mesh or on the meta device.
        device_mesh: A `DeviceMesh`, a slice of one, or JAX's mesh; by default all devices.
        placements: One for each dimension of the mesh; by default `Replicate`.
        src_data_rank: Accepted for compatibility: one process passes the tensor for all its
            devices.

    Raises:
        RuntimeError: ``tensor`` is not a leaf, or a placement is `Partial`.
        ValueError: The placements do not fit, or a size is not divisible by the number of devices
            that shard it.

    >>> import flambeau
    >>> from flambeau.distributed.tensor import Shard, distribute_tensor
    >>> from flambeau.distributed.device_mesh import init_device_mesh
    >>> mesh = init_device_mesh("cpu", (1,))
    >>> distribute_tensor(flambeau.ones(4, 2), mesh, [Shard(0)]).placements
    (Shard(dim=0),)
    """
    if not tensor.is_leaf:
        raise RuntimeError(
            "`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf "
            "tensor; use tensor.redistribute(mesh, placements) or DTensor.from_local()"
        )
    sharding = sharding_of(as_mesh(device_mesh), placements, tensor.shape, before=lies(tensor))
    result = put(tensor.detach(), sharding)
    result = result.detach() if result is tensor else result
    return result.requires_grad_(tensor.requires_grad)


def put(tensor: Tensor, sharding: Any) -> Any:
    """``tensor`` with a JAX sharding; gradients flow back to its former devices."""
    inside = modes.trace is not None or capture() is not None
    if inside or isinstance(tensor._cell.array, Tracer):
        return run(_constraint(sharding), (tensor,))
    array = tensor._read()
    if getattr(array, "sharding", None) == sharding:
        return tensor
    result = Tensor._wrap(meshes.placed(array, sharding))
    if tensor.requires_grad and modes.grad_enabled:
        node = _RedistributeBackward((tape.edge_of(tensor),))
        node.origin = array.sharding
        result._grad_fn, result._requires_grad = node, True
    if modes.dual is not None and (tangent := tangent_of(tensor)) is not None:
        modes.dual.attach(result, put(tangent, sharding))
    return result


class _RedistributeBackward(tape.Node):
    """Moves the cotangent back to the sharding of the input."""

    __slots__ = ("origin",)

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`."""
        (cotangent,) = cotangents
        return ((put if as_tensors else meshes.placed)(cotangent, self.origin),)


@functools.lru_cache(maxsize=1024)
def _constraint(sharding: Any) -> Kernel:
    function = functools.partial(_constrained, sharding)
    return Kernel(function, "redistribute", "RedistributeBackward0", linear=True)


def _constrained(sharding: Any, array: Any) -> Any:
    return jax.lax.with_sharding_constraint(array, sharding)


def place(tensor: Tensor, sharding: Any) -> None:
    """Move a tensor and its gradient to a sharding, in place."""
    if tensor._view is None:
        cell = tensor._cell
        spanning.check_alike(cell.array, sharding)
        cell.write(meshes.placed(cell.array, sharding))
    else:
        tensor.data = put(tensor.detach(), sharding)
    if tensor._grad is not None and not tensor._grad.is_sparse:
        place(tensor._grad, sharding)
    world.bump()


def constrain(tensor: Tensor, mesh: DeviceMesh, placements: Sequence[Placement] | Placement) -> Any:
    """``tensor`` sharded as given along the dimensions of ``mesh``, and unchanged along others.

    Inside a compiled function the present sharding is unknown; if ``mesh`` is a slice, XLA decides
    the sharding of the first dimension, the batch.
    """
    before = None if modes.trace is not None else lies(tensor)
    sharding = sharding_of(mesh, placements, tensor.shape, before=before)
    if mesh.is_slice and modes.trace is not None and tensor.ndim:
        spec = [*sharding.spec, *[None] * (tensor.ndim - len(sharding.spec))]
        if spec[0] is None:
            spec[0] = PartitionSpec.UNCONSTRAINED
        sharding = NamedSharding(mesh.jax(), PartitionSpec(*spec))
    return put(tensor, sharding)


def redistribute(
    self: Tensor,
    device_mesh: Any = None,
    placements: Sequence[Placement] | None = None,
    *,
    async_op: bool = False,
    forward_dtype: Any = None,
    backward_dtype: Any = None,
) -> Any:
    """The tensor with other placements; gradients flow back, with the placements of this one.

    Args:
        device_mesh: The mesh; by default that of the tensor.
        placements: One for each dimension of the mesh; by default the present ones.
        async_op: Accepted for compatibility: nothing waits.
        forward_dtype: A dtype to convert to first.
        backward_dtype: Accepted for PyTorch's sake.

    Raises:
        ValueError: The placements do not fit, or a size is not divisible by the number of devices
            that shard it.
        RuntimeError: A placement is `Partial`, or no mesh is known inside a compiled function.
    """
    given: Any = self if forward_dtype is None else self.to(forward_dtype)
    sharding = lies(self)
    if device_mesh is None and sharding is None:
        raise RuntimeError(
            "redistribute(): inside a compiled function it is not known where a tensor lies; pass "
            "device_mesh"
        )
    mesh = as_mesh(sharding.mesh if device_mesh is None and sharding else device_mesh)
    if placements is None:
        placements = None if sharding is None else placements_of(sharding)
    return constrain(given, mesh, [Replicate()] * mesh.ndim if placements is None else placements)


def full_tensor(self: Tensor, *, grad_placements: Any = None) -> Any:
    """The whole tensor on this process's first device; a gradient flows back.

    On a mesh over several processes, all must call it.
    """
    sharding = lies(self)
    if modes.trace is not None or sharding is None:
        return self
    return put(self, SingleDeviceSharding(first_device(self._read())))


def to_local(self: Tensor, *, grad_placements: Any = None) -> Any:
    """The part on this process's first device; a gradient flows back.

    Inside a compiled function, which computes for all devices, the result is the whole tensor.
    """
    sharding = lies(self)
    if modes.trace is not None or sharding is None:
        return self
    if not sharding.is_fully_addressable:
        # Each process has another part, so none can slice it from the whole.
        return own_part(self)
    device = first_device(self._read())
    parts = sharding.devices_indices_map(tuple(self.shape))[device]
    whole = all(each == slice(None) for each in parts)
    return put(self if whole else self[parts], SingleDeviceSharding(device))


class _OfSpread:
    """Attributes that only tensors on a mesh have.

    Args:
        get: Returns the attribute.
    """

    def __init__(self, get: Callable[[Tensor], Any], name: str) -> None:
        self.get = get
        self.name = name
        self.__doc__ = get.__doc__

    def __get__(self, tensor: Tensor | None, owner: Any = None) -> Any:
        if tensor is None:
            return self.get
        known = not tensor.is_sparse and lies(tensor) is not None
        if not known and (modes.trace is None or self.name in ("placements", "device_mesh")):
            raise AttributeError(
                f"'Tensor' object has no attribute '{self.name}': it lies on no mesh, or in a "
                "compiled function on one that is not known yet; distribute_tensor() puts it on one"
            )
        return self.get(tensor)


def _placements(self: Tensor) -> tuple[Placement, ...]:
    """The placement of the tensor along each dimension of its mesh."""
    found = lies(self)
    assert found is not None
    return placements_of(found)


def _device_mesh(self: Tensor) -> DeviceMesh:
    """The mesh of the tensor, with all its dimensions."""
    found = lies(self)
    assert found is not None
    return as_mesh(found.mesh)


def _bound(function: Callable[..., Any]) -> Callable[[Tensor], Any]:
    return functools.wraps(function)(lambda tensor: types.MethodType(function, tensor))


for _name, _get in {
    "placements": _placements,
    "device_mesh": _device_mesh,
    "redistribute": _bound(redistribute),
    "full_tensor": _bound(full_tensor),
    "to_local": _bound(to_local),
}.items():
    setattr(Tensor, _name, _OfSpread(_get, _name))
