"""Devices in a grid with named dimensions.

A mesh is a JAX mesh with Auto axes, with PyTorch's interface. One process may own several devices,
so a *rank* is the index of a device, not of a process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from flambeau._absent import Absent as _Absent
from flambeau.core.devices.device import from_jax_device
from flambeau.core.devices.meshes import auto
from flambeau.distributed.process_group import ProcessGroup, group_of

__all__ = ["DeviceMesh", "init_device_mesh"]

__getattr__: _Absent = _Absent(__name__)

# JAX's platform names by PyTorch's device types.
_PLATFORMS = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu"}


class DeviceMesh:
    """Devices that work together, as an array with named dimensions.

    ``mesh["data"]`` is the mesh along one dimension, and ``mesh["data", "model"]`` along some: it
    still has all devices. A tensor placed on it is replicated along the other dimensions, or keeps
    its sharding along them.

    Args:
        device_type: ``"cpu"``, ``"cuda"`` or ``"tpu"``.
        mesh: The indices of devices, in nested lists, an array or a tensor.
        mesh_dim_names: A name for each dimension; by default ``"dim_0"``, ``"dim_1"``, ...

    Attributes:
        device_type: The type of the devices.
        mesh_dim_names: The names of the dimensions.

    Raises:
        RuntimeError: There is no such device, a device occurs twice, or names and dimensions do not
            fit.

    >>> from flambeau.distributed import init_device_mesh
    >>> mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    >>> mesh
    DeviceMesh((data=1, model=1), 'cpu')
    >>> mesh["model"].size()
    1
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        ranks = np.asarray(mesh.numpy() if hasattr(mesh, "numpy") else mesh, dtype=np.int64)
        names = _checked_names(ranks.shape, mesh_dim_names)
        found = _devices(device_type)
        if ranks.size and not 0 <= ranks.min() <= ranks.max() < len(found):
            raise RuntimeError(
                f"the mesh names device {ranks.max() if ranks.min() >= 0 else ranks.min()}, but "
                f"there are {len(found)} devices of type {device_type!r}, counted from 0"
            )
        if len(np.unique(ranks)) != ranks.size:
            raise RuntimeError(f"a device is in the mesh twice: {ranks.tolist()}")
        devices = np.array([*found], dtype=object)[ranks]
        self._adopt(auto(jax.sharding.Mesh(devices, names)), {each: (each,) for each in names}, {})

    @classmethod
    def from_jax(cls, mesh: Any) -> DeviceMesh:
        """A `DeviceMesh` for a JAX mesh."""
        new = cls.__new__(cls)
        new._adopt(auto(mesh), {each: (each,) for each in mesh.axis_names}, {})
        return new

    @classmethod
    def from_group(
        cls,
        group: ProcessGroup | Sequence[ProcessGroup],
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """A mesh of the devices of a group's processes, in one dimension, unless ``mesh`` is given.

        Args:
            group: The processes, or a group for each dimension of ``mesh``.
            device_type: See the class.
            mesh: See the class; needed for several groups.
            mesh_dim_names: See the class.

        Raises:
            ValueError: There are several groups, and no ``mesh``.
        """
        if mesh is None:
            if not isinstance(group, ProcessGroup):
                raise ValueError(
                    "Must pass mesh if passing multiple ProcessGroups: their processes alone do "
                    "not say in which order the devices are"
                )
            owners = [each.process_index for each in _devices(device_type)]
            mesh = [i for rank in group.ranks for i, owner in enumerate(owners) if owner == rank]
        return cls(device_type, mesh, mesh_dim_names=mesh_dim_names)

    def _adopt(
        self, mesh: Any, axes: dict[str, tuple[str, ...]], flattened: dict[str, tuple[str, ...]]
    ) -> None:
        self._jax = mesh
        # The axes of the JAX mesh of which each dimension consists, and those of flattened ones.
        self._axes, self._flattened = axes, flattened
        self.mesh_dim_names: tuple[str, ...] = tuple(axes)
        self.device_type: str = from_jax_device(mesh.devices.flat[0]).type

    @property
    def axes(self) -> tuple[tuple[str, ...], ...]:
        """The axes of the JAX mesh of which each dimension consists: more than one if flattened."""
        return tuple(self._axes.values())

    def jax(self) -> Any:
        """The JAX mesh with all dimensions, of which a slice has some."""
        return self._jax

    @property
    def is_slice(self) -> bool:
        """Whether this mesh is a slice of one with more dimensions."""
        return len(self._kept()) < len(self._jax.axis_names)

    def _kept(self) -> list[str]:
        return [axis for axes in self._axes.values() for axis in axes]

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh along some dimensions.

        Raises:
            KeyError: There is no dimension of that name.
        """
        chosen = (names,) if isinstance(names, str) else tuple(names)
        known = {**self._flattened, **self._axes}
        axes = {each: known[each] for each in chosen if each in known}
        used = [axis for part in axes.values() for axis in part]
        if not chosen or len(axes) < len(chosen) or len({*used}) < len(used):
            raise KeyError(
                f"Invalid mesh_dim_names {chosen} specified: this mesh has the dimensions "
                f"{tuple(known)}"
            )
        return self._slice(axes)

    def _slice(self, axes: dict[str, tuple[str, ...]]) -> DeviceMesh:
        new = type(self).__new__(type(self))
        new._adopt(self._jax, axes, self._flattened)
        return new

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """This mesh with all its dimensions as one, which ``mesh[mesh_dim_name]`` then is too.

        Args:
            mesh_dim_name: Its name; by default the names of the dimensions, joined by ``_``.

        Raises:
            RuntimeError: The name is that of a dimension, or of another flattened one.
        """
        name = mesh_dim_name or "_".join(self.mesh_dim_names)
        order = self._jax.axis_names.index
        axes = tuple(sorted(self._kept(), key=order))
        taken = self._flattened.get(name, (name,) if name in self._jax.axis_names else axes)
        if taken != axes:
            raise RuntimeError(
                f"{name!r} already exists for submesh of the dimensions {taken}: "
                "give the flattened dimension another name"
            )
        self._flattened[name] = axes
        return self._slice({name: axes})

    @property
    def is_this_process_alone(self) -> bool:
        """Whether this process owns all devices of the mesh (for a slice, of the whole mesh)."""
        return all(each.process_index == jax.process_index() for each in self._jax.devices.flat)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of devices in each dimension."""
        return tuple(math.prod(self._jax.shape[e] for e in axes) for axes in self.axes)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.mesh_dim_names)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of devices, in total or along one dimension."""
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    @property
    def mesh(self) -> Any:
        """The indices of the devices, as a tensor; for a slice, of the one through this process."""
        from flambeau.ops.factories.from_data import from_numpy

        order = {each: i for i, each in enumerate(jax.devices(_PLATFORMS[self.device_type]))}
        numbers = np.vectorize(order.__getitem__, otypes=[np.int64])(self._jax.devices)
        place = self._place() or [0] * numbers.ndim
        return from_numpy(self._in_order(numbers, place).reshape(self.shape))

    def _in_order(self, grid: Any, place: Sequence[int]) -> Any:
        """The part of an array of the JAX mesh's shape with this mesh's axes, through ``place``."""
        names, kept = self._jax.axis_names, self._kept()
        where = zip(names, place, strict=True)
        part = grid[tuple(slice(None) if name in kept else i for name, i in where)]
        left = [each for each in names if each in kept]
        return np.transpose(part, [left.index(each) for each in kept]).copy()

    def _place(self) -> list[int] | None:
        """The indices of this process's first device in the JAX mesh, if it has one there."""
        here = [each.process_index == jax.process_index() for each in self._jax.devices.flat]
        if not any(here):
            return None
        return [*map(int, np.unravel_index(here.index(True), self._jax.devices.shape))]

    def get_coordinate(self) -> tuple[int, ...] | None:
        """The coordinate in this mesh of this process's first device; ``None`` if it has none."""
        found = self._place()
        if found is None:
            return None
        place, sizes = dict(zip(self._jax.axis_names, found, strict=True)), self._jax.shape
        return tuple(
            int(np.ravel_multi_index([place[e] for e in axes], [sizes[e] for e in axes]))
            for axes in self.axes
        )

    def _required_place(self) -> list[int]:
        place = self._place()
        if place is None:
            raise RuntimeError(f"process {jax.process_index()} has no device in {self!r}")
        return place

    @property
    def processes(self) -> tuple[int, ...]:
        """The processes that own this mesh's devices; for a slice, of the one through this process.

        Each is there once, in the order of its first device.

        Raises:
            RuntimeError: No device of the mesh is this process's.
        """
        devices = self._in_order(self._jax.devices, self._required_place())
        return tuple(dict.fromkeys(each.process_index for each in devices.flat))

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The processes that have this one's coordinates in all dimensions but one.

        Args:
            mesh_dim: The dimension; needed if the mesh has several.

        Raises:
            RuntimeError: The mesh has several dimensions, and none is given.
            ValueError: There is no process group.
        """
        axes = self._dim(mesh_dim, "get_group")
        return group_of(self._slice(dict([axes])).processes)

    def get_all_groups(self) -> list[ProcessGroup]:
        """The group of each dimension: see `get_group`."""
        return [*map(self.get_group, self.mesh_dim_names)]

    def _dim(self, mesh_dim: int | str | None, caller: str) -> tuple[str, tuple[str, ...]]:
        """The name and the axes of a dimension."""
        names = self.mesh_dim_names
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"{caller}() of a mesh with the dimensions {names} must be told mesh_dim"
            )
        name = mesh_dim if isinstance(mesh_dim, str) else names[mesh_dim or 0]
        if name not in self._axes:
            raise KeyError(f"this mesh has no dimension {name!r}, only {names}")
        return name, self._axes[name]

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The coordinate, along one dimension, of this process's first device.

        Raises:
            RuntimeError: The mesh has several dimensions, and none is given.
        """
        name, _ = self._dim(mesh_dim, "get_local_rank")
        self._required_place()
        return (self.get_coordinate() or ())[self.mesh_dim_names.index(name)]

    def get_rank(self) -> int:
        """The index of this process's first device."""
        platform = _PLATFORMS[self.device_type]
        return jax.devices(platform).index(jax.local_devices(backend=platform)[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return (self._jax, self._axes) == (other._jax, other._axes)

    def __hash__(self) -> int:
        return hash((self._jax, self.mesh_dim_names))

    def __repr__(self) -> str:
        sizes = zip(self.mesh_dim_names, self.shape, strict=True)
        named = ", ".join(f"{name}={size}" for name, size in sizes)
        return f"DeviceMesh(({named}), {self.device_type!r})"


def as_mesh(mesh: Any) -> DeviceMesh:
    """A `DeviceMesh` from PyTorch's or JAX's; by default all devices in one dimension.

    Raises:
        TypeError: ``mesh`` is neither.
    """
    if isinstance(mesh, DeviceMesh):
        return mesh
    if isinstance(mesh, jax.sharding.Mesh):
        return DeviceMesh.from_jax(mesh)
    if mesh is None:
        return DeviceMesh.from_jax(jax.sharding.Mesh(np.array(jax.devices()), ("data",)))
    raise TypeError(
        f"expected a DeviceMesh or a jax.sharding.Mesh, got {type(mesh).__name__}: {mesh!r:.80}"
    )


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """A mesh of the first devices of a type, ordered by their physical proximity.

    Args:
        device_type: ``"cpu"``, ``"cuda"`` or ``"tpu"``.
        mesh_shape: The number of devices in each dimension.
        mesh_dim_names: A name for each dimension.
        backend_override: Accepted for compatibility: XLA communicates.

    Raises:
        RuntimeError: Names and dimensions do not fit, or there are fewer devices.

    >>> from flambeau.distributed import init_device_mesh
    >>> init_device_mesh("cpu", (1,), mesh_dim_names=("data",)).shape
    (1,)
    """
    shape = tuple(mesh_shape)
    names = _checked_names(shape, mesh_dim_names)
    found, count = _devices(device_type), math.prod(shape)
    if count > len(found):
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {len(found)}, but found {count} "
            f"devices in the shape {shape}; on the CPU, "
            f'jax.config.update("jax_num_cpu_devices", {count}) before the first tensor makes more'
        )
    axes = (jax.sharding.AxisType.Auto,) * len(shape)
    return DeviceMesh.from_jax(jax.make_mesh(shape, names, axes, devices=found[:count]))


def _devices(device_type: str) -> Any:
    if device_type not in _PLATFORMS:
        hint = device_type.partition(":")[0]
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. Use {hint!r} instead"
            if ":" in device_type and hint in _PLATFORMS
            else f"device_type must be one of {', '.join(_PLATFORMS)}, got {device_type!r}"
        )
    try:
        return jax.devices(_PLATFORMS[device_type])
    except RuntimeError:
        raise RuntimeError(f"this machine has no devices of type {device_type!r}") from None


def _checked_names(shape: tuple[int, ...], names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return tuple(f"dim_{i}" for i in range(len(shape)))
    if len({*names}) != len(names):
        raise RuntimeError(f"Each mesh_dim_name must be unique, got {tuple(names)}")
    if len(names) != len(shape):
        raise RuntimeError(
            f"mesh_shape and mesh_dim_names should have same length, got {tuple(shape)} and "
            f"{tuple(names)}"
        )
    return tuple(names)
