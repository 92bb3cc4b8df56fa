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
        self._adopt(auto(jax.sharding.Mesh(devices, names)), names)

    @classmethod
    def from_jax(cls, mesh: Any) -> DeviceMesh:
        """A `DeviceMesh` for a JAX mesh."""
        new = cls.__new__(cls)
        new._adopt(auto(mesh), tuple(mesh.axis_names))
        return new

    def _adopt(self, mesh: Any, names: tuple[str, ...]) -> None:
        self._jax = mesh
        self.mesh_dim_names = names
        self.device_type: str = from_jax_device(mesh.devices.flat[0]).type

    def jax(self) -> Any:
        """The JAX mesh with all dimensions, of which a slice has some."""
        return self._jax

    @property
    def is_slice(self) -> bool:
        """Whether this mesh is a slice of one with more dimensions."""
        return len(self.mesh_dim_names) < len(self._jax.axis_names)

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh along some dimensions.

        Raises:
            KeyError: There is no dimension of that name.
        """
        chosen = (names,) if isinstance(names, str) else tuple(names)
        unknown = [each for each in chosen if each not in self.mesh_dim_names]
        if unknown or not chosen or len({*chosen}) < len(chosen):
            raise KeyError(
                f"Invalid mesh_dim_names {chosen} specified: this mesh has the dimensions "
                f"{self.mesh_dim_names}"
            )
        new = type(self).__new__(type(self))
        new._adopt(self._jax, chosen)
        return new

    @property
    def is_this_process_alone(self) -> bool:
        """Whether this process owns all devices of the mesh (for a slice, of the whole mesh)."""
        return all(each.process_index == jax.process_index() for each in self._jax.devices.flat)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of devices in each dimension."""
        return tuple(self._jax.shape[each] for each in self.mesh_dim_names)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.mesh_dim_names)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of devices, in total or along one dimension."""
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    @property
    def mesh(self) -> Any:
        """The indices of the devices, as a tensor; for a slice, those of its first row."""
        from flambeau.ops.factories.from_data import from_numpy

        order = {each: i for i, each in enumerate(jax.devices(_PLATFORMS[self.device_type]))}
        kept = [each for each in self._jax.axis_names if each in self.mesh_dim_names]
        first = tuple(
            slice(None) if each in self.mesh_dim_names else 0 for each in self._jax.axis_names
        )
        ranks = np.vectorize(order.__getitem__, otypes=[np.int64])(self._jax.devices)[first]
        return from_numpy(np.transpose(ranks, [kept.index(e) for e in self.mesh_dim_names]).copy())

    def get_coordinate(self) -> list[int]:
        """The coordinate in this mesh of this process's first device."""
        here = [each.process_index == jax.process_index() for each in self._jax.devices.flat]
        place = np.unravel_index(here.index(True), self._jax.devices.shape)
        return [int(place[self._jax.axis_names.index(each)]) for each in self.mesh_dim_names]

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The coordinate, along one dimension, of this process's first device.

        Raises:
            RuntimeError: The mesh has several dimensions, and none is given.
        """
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"get_local_rank() of a mesh with the dimensions {self.mesh_dim_names} must be "
                "told mesh_dim"
            )
        names = self.mesh_dim_names
        number = names.index(mesh_dim) if isinstance(mesh_dim, str) else mesh_dim or 0
        return self.get_coordinate()[number]

    def get_rank(self) -> int:
        """The index of this process's first device."""
        platform = _PLATFORMS[self.device_type]
        return jax.devices(platform).index(jax.local_devices(backend=platform)[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return (self._jax, self.mesh_dim_names) == (other._jax, other.mesh_dim_names)

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
