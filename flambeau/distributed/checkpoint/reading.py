"""Reading a checkpoint into tensors with their shardings."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from flambeau.checkpoint.elements import array_of
from flambeau.checkpoint.errors import CheckpointError
from flambeau.checkpoint.io import load as load_file
from flambeau.checkpoint.parts import Parts, check_part_name
from flambeau.checkpoint.safetensors_file import second_names
from flambeau.core.values.cell import is_abstract
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.checkpoint.flattening import flattened
from flambeau.distributed.checkpoint.torch_folder import TorchFolder, is_torch_folder

__all__ = ["Checkpoint"]

_READABLE = (".json", ".safetensors")


class Checkpoint:
    """An open checkpoint, for use in a ``with`` block.

    Args:
        path: A folder of safetensors files or of PyTorch's ``distributed.checkpoint``, an index, a
            safetensors file, or a file of `flambeau.save` or `torch.save`, which is read
            completely.

    Attributes:
        path: The given path.
        values: Values other than tensors, by name.

    Raises:
        CheckpointError: There is no complete checkpoint, or it is damaged.
        OSError: The file cannot be read: ``FileNotFoundError`` if there is none.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.values: dict[str, Any] = {}
        self._parts: Parts | TorchFolder | None = None
        self._tensors: dict[str, Tensor] = {}
        self._tied: dict[str, str] = {}
        if is_torch_folder(self.path):
            self._parts = folder = TorchFolder(self.path)
            with contextlib.ExitStack() as failing:
                failing.push(self.__exit__)
                self.values = folder.values()
                failing.pop_all()
        elif self.path.is_dir() or self.path.suffix in _READABLE:
            self._parts = Parts(self.path)
            values = self._parts.facts.get("values")
            if isinstance(values, str):
                self.values = self._loaded_values(self._parts, values)
        else:
            whole = load_file(self.path, map_location="cpu")
            if not isinstance(whole, dict):
                raise self.error(f"it holds no state dict, but a {type(whole).__name__}")
            for name, place in flattened(whole).items():
                kind = self._tensors if isinstance(place.value, Tensor) else self.values
                kind[name] = place.value
            self._tied = second_names(self._tensors)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *error: object) -> None:
        if self._parts is not None:
            self._parts.__exit__(*error)

    @property
    def tensor_names(self) -> list[str]:
        """The names of all tensors."""
        return [*self._tensors] if self._parts is None else self._parts.names

    def first_name(self, name: str) -> str:
        """The first name of a tensor with several names; otherwise its name."""
        return self._tied.get(name, name) if self._parts is None else self._parts.first_name(name)

    def error(self, reason: str) -> CheckpointError:
        """An error with the name of the checkpoint."""
        return CheckpointError(reason, file=repr(os.fspath(self.path)))

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor; opens its part."""
        if self._parts is None:
            return tuple(self._tensors[name].shape)
        return self._parts.stored(name).shape

    def dtype_of(self, name: str) -> Any:
        """NumPy's dtype of a tensor."""
        if self._parts is None:
            return self._tensors[name].dtype.numpy
        return np.dtype(self._parts.stored(name).dtype)

    def elements(self, name: str) -> np.ndarray:
        """All elements of a tensor."""
        shape, _, read = self._reader(name)
        return read(tuple(slice(0, n) for n in shape))

    def tensor(self, name: str, sharding: Any, dtype: Any = None) -> Tensor:
        """A tensor with a sharding; the elements of each device are read separately.

        Args:
            name: Its name.
            sharding: JAX's sharding.
            dtype: NumPy's dtype to convert to; by default the stored one.
        """
        shape, of, read = self._reader(name)
        wanted = of if dtype is None else dtype
        known: dict[tuple[tuple[int, int], ...], np.ndarray] = {}

        def part(index: Any) -> np.ndarray:
            # Elements on several devices are read only once.
            region = tuple(each.indices(n)[:2] for each, n in zip(index, shape, strict=True))
            if region not in known:
                known[region] = read(tuple(slice(*each) for each in region)).astype(
                    wanted, copy=False
                )
            return known[region]

        return Tensor._wrap(jax.make_array_from_callback(shape, sharding, part, dtype=wanted))

    def _reader(self, name: str) -> tuple[tuple[int, ...], Any, Callable[[Any], np.ndarray]]:
        if self._parts is None:
            whole = array_of(self._tensors[name])
            return whole.shape, whole.dtype, lambda region: whole[region]
        parts, stored = self._parts, self._parts.stored(name)
        return stored.shape, np.dtype(stored.dtype), lambda region: parts.read(stored, region)

    def _loaded_values(self, parts: Parts, name: str) -> dict[str, Any]:
        try:
            check_part_name(name)
        except CheckpointError as error:
            raise self.error(error.reason) from None
        try:
            found = load_file(parts.folder / name)
        except FileNotFoundError:
            raise self.error(f"its part {name!r} is missing") from None
        if not isinstance(found, dict):
            raise self.error(f"its part {name!r} holds no dictionary")
        return found


def sharding_of(tensor: Tensor) -> Any:
    """The sharding of a tensor's elements; on the meta device, the planned one."""
    array = tensor._cell.array
    if not is_abstract(array):
        array = tensor._read()
    sharding = getattr(array, "sharding", None)
    if sharding is None:
        return SingleDeviceSharding(jax.local_devices(backend="cpu")[0])
    return sharding
