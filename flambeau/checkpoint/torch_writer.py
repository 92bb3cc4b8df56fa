"""Writing files for `torch.load`: a zip archive of a pickle and one file of bytes per tensor.

The pickle names functions of PyTorch, which is not installed: Python's own pickler writes it, with
custom reductions for tensors. Bytes begin at multiples of 64, so that a reader can map them into
memory. The format is described at https://docs.pytorch.org/docs/2.13/notes/serialization.html
"""

from __future__ import annotations

import io
import pickle
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, NamedTuple

from flambeau.checkpoint.elements import at_one_moment, bytes_of, elements_of, unexpanded
from flambeau.checkpoint.sparse_tensors import parts_of
from flambeau.checkpoint.torch_names import CLASS_OF, UNTYPED
from flambeau.core.devices.device import device
from flambeau.core.devices.layout import layout, memory_format
from flambeau.core.support.dtype import NamedOnly, dtype
from flambeau.core.values.tensor import Size, Tensor
from flambeau.nn.parameter import Parameter
from flambeau.sparse.tensor import SparseTensor

__all__ = ["Call", "Global", "TorchPickler", "write_archive"]

_FOLDER = "archive"
_PROTOCOL = 2
_VERSION = b"3\n"
_ALIGNMENT = 64
# Sizes in a zip archive's headers: the fixed part, the head of an extra field, and the zip64 field,
# which files of more than 2 GiB need.
_HEADER, _EXTRA_HEAD, _ZIP64_FIELD = 30, 4, 20
_PADDING_FIELD = b"FB"


class Global(NamedTuple):
    """A member of a module, by name."""

    module: str
    name: str

    def __call__(self, *args: Any) -> Any:
        # The pickler requires that a function's replacement is callable.
        raise NotImplementedError(f"{self.module}.{self.name} is only named here")


class Call(NamedTuple):
    """The result of a function."""

    function: Global
    args: tuple[Any, ...]


class _Storage(NamedTuple):
    """The bytes of a tensor, as an entry of the archive."""

    of: dtype
    key: str
    elements: int


_CLASSES = {of: Global("torch", name) for of, name in CLASS_OF.items()}
_UNTYPED = Global("torch.storage", UNTYPED)
_TENSOR = Global("torch", "Tensor")
_SIZE = Global("torch", "Size")
_DEVICE = Global("torch", "device")
_LAYOUT = Global("torch.serialization", "_get_layout")
_REBUILD = Global("torch._utils", "_rebuild_tensor_v2")
_REBUILD_WITH_DTYPE = Global("torch._utils", "_rebuild_tensor_v3")
_REBUILD_META = Global("torch._utils", "_rebuild_meta_tensor_no_storage")
_REBUILD_SPARSE = Global("torch._utils", "_rebuild_sparse_tensor")
_REBUILD_PARAMETER = Global("torch._utils", "_rebuild_parameter")
_REBUILD_PARAMETER_WITH_STATE = Global("torch._utils", "_rebuild_parameter_with_state")
_REBUILD_WITH_STATE = Global("torch._tensor", "_rebuild_from_type_v2")


class TorchPickler(pickle._Pickler):
    """Python's pickler, with PyTorch's form of tensors, dtypes, devices and sizes.

    The pickler in C looks up the names that it writes, and would not find them.
    """

    dispatch: ClassVar[dict[type, Any]] = {**pickle._Pickler.dispatch}

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, _PROTOCOL)
        # By key, in order; and the keys, by a value that is equal for tensors on the same elements.
        self.tensors: dict[str, Tensor] = {}
        self._keys: dict[Any, str] = {}

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is not _Storage:
            return None
        cls = _CLASSES.get(obj.of)
        # Saved as a CPU tensor, it loads on a machine without its accelerator.
        if cls is None:
            return "storage", _UNTYPED, obj.key, "cpu", obj.elements * obj.of.itemsize
        return "storage", cls, obj.key, "cpu", obj.elements

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is Tensor:
            return self._reduced_tensor(obj)
        if kind is Parameter:
            return self._reduced_parameter(obj)
        if kind is Call:
            return tuple(obj)
        if kind is Size:
            return _SIZE, (tuple(obj),)
        if kind is device:
            return _DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index)
        if kind is layout:
            return _LAYOUT, (f"torch.{obj.name}",)
        if isinstance(obj, SparseTensor):
            return _REBUILD_SPARSE, (obj.layout, parts_of(obj))
        return NotImplemented

    def _save_name(self: Any, obj: Global) -> None:
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    def _save_constant(self: Any, obj: Any) -> None:
        self.write(pickle.GLOBAL + f"torch\n{obj.name}\n".encode())
        self.memoize(obj)

    dispatch[Global] = _save_name
    dispatch[dtype] = dispatch[NamedOnly] = dispatch[memory_format] = _save_constant

    def _reduced_tensor(self, tensor: Tensor) -> tuple[Any, ...]:
        plain = self._elements(tensor, tensor.requires_grad)
        state = tensor._user_attributes()
        if not state:
            return tuple(plain)
        return _REBUILD_WITH_STATE, (plain.function, _TENSOR, plain.args, state)

    def _reduced_parameter(self, parameter: Parameter) -> tuple[Any, ...]:
        args = self._elements(parameter, False), parameter.requires_grad, OrderedDict()
        state = parameter._user_attributes()
        if not state:
            return _REBUILD_PARAMETER, args
        return _REBUILD_PARAMETER_WITH_STATE, (*args, state)

    def _elements(self, tensor: Tensor, requires_grad: bool) -> Call:
        shape = tuple(tensor.shape)
        source, strides = unexpanded(tensor)
        if tensor.is_meta:
            return Call(_REBUILD_META, (tensor.dtype, shape, strides, requires_grad))
        # Several names of one tensor share an entry, and are one tensor after loading.
        key = self._keys.setdefault(elements_of(source), str(len(self._keys)))
        self.tensors.setdefault(key, source)
        storage = _Storage(tensor.dtype, key, source.numel())
        args = storage, 0, shape, strides, requires_grad, OrderedDict()
        if tensor.dtype in _CLASSES:
            return Call(_REBUILD, args)
        return Call(_REBUILD_WITH_DTYPE, (*args, tensor.dtype))


def write_archive(obj: Any, file: BinaryIO) -> None:
    """Write an object that holds tensors to an open file.

    Args:
        obj: An object that Python can pickle.
        file: Open for writing bytes.

    Raises:
        pickle.PicklingError: Part of the object cannot be pickled; nothing has been written then.
        TypeError: Likewise.
        AttributeError: Likewise.
    """
    pickled = io.BytesIO()
    pickler = TorchPickler(pickled)
    pickler.dump(obj)
    archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
    try:
        for name, content in _entries(pickled.getbuffer(), pickler.tensors):
            _add(archive, file.tell(), name, content)
        archive.close()
    except BaseException:
        # Otherwise `ZipFile` would finish the file, or fail because an entry is open, and that
        # error would replace the actual one, such as a full disk or an interrupt.
        archive.fp = None
        raise


def _entries(pickled: Any, tensors: dict[str, Tensor]) -> Iterator[tuple[str, Any]]:
    yield "data.pkl", pickled
    yield "byteorder", sys.byteorder.encode()
    for key, tensor in zip(tensors, at_one_moment(tensors.values()), strict=True):
        yield f"data/{key}", bytes_of(tensor)
    yield "version", _VERSION


def _add(archive: zipfile.ZipFile, start: int, name: str, content: Any) -> None:
    """Add an entry, at ``start``, so that its bytes begin at a multiple of the alignment."""
    entry = zipfile.ZipInfo(f"{_FOLDER}/{name}")
    size = len(content)
    start += _HEADER + len(entry.filename.encode()) + _EXTRA_HEAD
    if size * 1.05 > zipfile.ZIP64_LIMIT:
        start += _ZIP64_FIELD
    padding = -start % _ALIGNMENT
    entry.extra = _PADDING_FIELD + padding.to_bytes(2, "little") + bytes(padding)
    archive.writestr(entry, content)
