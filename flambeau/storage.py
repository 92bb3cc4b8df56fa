"""The memory of tensors as flat bytes or elements, under the names of `torch.storage`.

A storage aliases the elements of its tensors. Its address is that of a JAX array, so it changes
when elements are written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from flambeau._absent import Absent as _Absent
from flambeau.core.devices.device import as_device, device
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.higher import higher
from flambeau.core.support.modes import no_grad
from flambeau.core.values.attributes import handle_on
from flambeau.core.values.convert import place
from flambeau.core.values.tensor import Tensor
from flambeau.ops.factories.conversion import TYPE_NAMES
from flambeau.rare.buffers import frombuffer

__all__ = ["TypedStorage", "UntypedStorage"]

__getattr__: _Absent = _Absent(__name__)


class UntypedStorage:
    """The memory of a tensor, as bytes.

    Args:
        content: The number of zero bytes, or the bytes as integers.
        device: The device; by default that of the factory functions.

    >>> import flambeau
    >>> x = flambeau.ones(2, 2)
    >>> storage = x[1].untyped_storage()
    >>> storage.nbytes(), storage == x.untyped_storage()
    (16, True)
    >>> _ = storage.fill_(0)
    >>> x.sum()
    tensor(0.)
    """

    def __init__(self, content: Any = 0, *, device: Any = None) -> None:
        array = np.zeros(content, np.uint8) if isinstance(content, int) else _bytes_of(content)
        self._whole = Tensor._wrap(place(array, as_device(device)))

    @classmethod
    def _of(cls, tensor: Tensor) -> UntypedStorage:
        """The memory that a tensor views."""
        result = object.__new__(cls)
        result._whole = handle_on(tensor._cell, Tensor)
        return result

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first bytes of a file, which are read on first use.

        Args:
            filename: The file, which must not change until then.
            shared: Whether writes go to the file, which is not supported.
            nbytes: The number of bytes.

        Raises:
            NotImplementedError: ``shared`` is true.
            RuntimeError: The file is shorter.
        """
        if shared:
            raise NotImplementedError(
                "from_file(): writes cannot reach a file; use shared=False, and write to the file "
                "with numpy.memmap"
            )
        size = Path(os.fsdecode(filename)).stat().st_size
        if size < nbytes:
            raise RuntimeError(f"from_file(): {filename} has {size} bytes, fewer than {nbytes}")
        result = object.__new__(cls)
        array = np.memmap(filename, np.uint8, "r", shape=(nbytes,)) if nbytes else np.empty(0, "u1")
        result._whole = Tensor._wrap(place(np.asarray(array), as_device("cpu")))
        return result

    @classmethod
    def from_buffer(
        cls, buffer: Any, count: int = -1, offset: int = 0, *, byte_order: str | None = None
    ) -> UntypedStorage:
        """A copy of an object's buffer; see `frombuffer`."""
        return cls._of(frombuffer(buffer, dtype=dtypes.uint8, count=count, offset=offset))

    def _flat(self, dtype: dtypes.dtype = dtypes.uint8) -> Tensor:
        """The elements as a flat view of a type."""
        if self._whole.dtype is dtype and self._whole.ndim == 1:
            return self._whole
        with no_grad():
            flat = self._whole.reshape(-1)
            if self.nbytes() % dtype.itemsize:
                flat = flat.view(dtypes.uint8)[: self.nbytes() // dtype.itemsize * dtype.itemsize]
            return flat.view(dtype)

    @property
    def device(self) -> device:
        """The device of the storage."""
        return self._whole.device

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a GPU."""
        return self.device.type == "cuda"

    @property
    def filename(self) -> None:
        """``None``: no file is mapped."""
        return None

    @property
    def _cdata(self) -> int:
        """A number that identifies the memory."""
        return id(self._whole._cell)

    def nbytes(self) -> int:
        """The number of bytes that it has."""
        return self._whole.numel() * self._whole.element_size()

    def size(self) -> int:
        """The number of bytes that it has."""
        return self.nbytes()

    def element_size(self) -> int:
        """1: the elements are bytes."""
        return 1

    def data_ptr(self) -> int:
        """The current address, unique to this storage; 0 on the meta device."""
        return self._whole.data_ptr()

    def is_pinned(self, device: Any = None) -> bool:
        """``False``: JAX manages host memory."""
        return False

    def is_shared(self) -> bool:
        """``False``: memory is not shared between processes."""
        return False

    def resizable(self) -> bool:
        """``False``: arrays have a fixed size."""
        return False

    def untyped(self) -> UntypedStorage:
        """Return the storage itself."""
        return self

    def tolist(self) -> list[int]:
        """The bytes as a list."""
        return self._flat().tolist()

    def clone(self) -> UntypedStorage:
        """A copy."""
        return self._of(self._flat().clone())

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """A copy on another device; the storage itself if it is there."""
        target = as_device(device)
        return self if target == self.device else self._of(self._flat().to(target))

    def cpu(self) -> UntypedStorage:
        """A copy in the CPU's memory; the storage itself if it is there."""
        return self.to(device="cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """A copy in a GPU's memory; the storage itself if it is there."""
        return self.to(device="cuda" if device is None else device)

    def fill_(self, value: int) -> UntypedStorage:
        """Set all bytes to one value."""
        self._flat().fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> UntypedStorage:
        """Copy the bytes of another storage.

        Raises:
            RuntimeError: The sizes differ.
        """
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"copy_(): the source has {source.nbytes()} bytes, not {self.nbytes()}"
            )
        self._flat().copy_(source.untyped()._flat())
        return self

    def resize_(self, size: int) -> UntypedStorage:
        """Return the storage if it has this size.

        Raises:
            NotImplementedError: It has another size.
        """
        if size != self.nbytes():
            raise NotImplementedError(
                f"resize_(): the elements are an array of {self.nbytes()} bytes, which cannot get "
                f"{size}; assign a new tensor to the tensor's data"
            )
        return self

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def __len__(self) -> int:
        return self.nbytes()

    def __getitem__(self, index: Any) -> Any:
        # With NumPy, since XLA would compile a program for each length.
        found = self.__array__()[index]
        if isinstance(index, slice):
            return self._of(Tensor._wrap(place(np.array(found), self.device)))
        return found.item()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._flat().cpu().__array__(dtype, copy)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._flat()[index] = value

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self._whole._cell is other._whole._cell

    def __hash__(self) -> int:
        return id(self._whole._cell)

    def __reduce__(self) -> Any:
        return _rebuild, (self._flat().cpu()._host_array(), str(self.device))

    def __deepcopy__(self, memo: Any) -> UntypedStorage:
        return self.clone()

    def __repr__(self) -> str:
        return f"[UntypedStorage(device={self.device}) of size {self.nbytes()}]"


def _bytes_of(content: Any) -> np.ndarray:
    return np.array(list(content), np.uint8)


def _load_from_bytes(b: bytes) -> Any:
    """Restore a storage from a PyTorch pickle."""
    return higher("flambeau.checkpoint.storage_bytes.read")(b)


def _rebuild(content: np.ndarray, where: str) -> UntypedStorage:
    return UntypedStorage._of(Tensor._wrap(place(np.array(content), device(where))))


class TypedStorage:
    """The memory of a tensor, as elements of a dtype.

    Args:
        args: The number of zero elements, or the elements.
        wrap_storage: The untyped storage.
        dtype: The dtype of the elements; by default the default dtype.
        device: The device; by default that of the factory functions.

    >>> import flambeau
    >>> storage = flambeau.ones(2, 2).storage()
    >>> storage.size(), storage[3], storage.dtype
    (4, 1.0, flambeau.float32)
    """

    def __init__(
        self, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None
    ) -> None:
        (content,) = args or (0,)
        self.dtype: Any = dtypes.get_default_dtype() if dtype is None else dtype
        if wrap_storage is None:
            shown = [0] * content if isinstance(content, int) else list(content)
            array = np.array(shown).astype(self.dtype.numpy)
            wrap_storage = UntypedStorage._of(Tensor._wrap(place(array, as_device(device))))
        self._untyped_storage: UntypedStorage = wrap_storage

    def untyped(self) -> UntypedStorage:
        """The same memory, as bytes."""
        return self._untyped_storage

    def _flat(self) -> Tensor:
        return self._untyped_storage._flat(self.dtype)

    @property
    def device(self) -> device:
        """The device of the storage."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a GPU."""
        return self._untyped_storage.is_cuda

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.element_size()

    def nbytes(self) -> int:
        """The size in bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """The size of an element in bytes."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """The current address, unique to this storage; 0 on the meta device."""
        return self._untyped_storage.data_ptr()

    def pickle_storage_type(self) -> str:
        """The name of its class in older versions, such as ``"FloatStorage"``."""
        return TYPE_NAMES[self.dtype].replace("Tensor", "Storage")

    def tolist(self) -> list[Any]:
        """The elements as a list."""
        return self._flat().tolist()

    def clone(self) -> TypedStorage:
        """A copy."""
        return self._with(self._untyped_storage.clone())

    def cpu(self) -> TypedStorage:
        """A copy in the CPU's memory; the same memory if it is there."""
        return self._with(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """A copy in a GPU's memory; the same memory if it is there."""
        return self._with(self._untyped_storage.cuda(device))

    def fill_(self, value: Any) -> TypedStorage:
        """Set all elements to one value."""
        self._flat().fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Copy the elements of another storage of the same size, with conversion."""
        self._flat().copy_(source._flat())
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """``False``: JAX manages host memory."""
        return False

    def is_shared(self) -> bool:
        """``False``: memory is not shared between processes."""
        return False

    def _with(self, storage: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=storage, dtype=self.dtype)

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def __len__(self) -> int:
        return self.size()

    def __getitem__(self, index: int) -> Any:
        return self._flat()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._flat()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._flat().cpu().__array__(dtype, copy)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TypedStorage)
            and self.dtype is other.dtype
            and self._untyped_storage == other._untyped_storage
        )

    def __hash__(self) -> int:
        return hash((self._untyped_storage, self.dtype))

    def __repr__(self) -> str:
        kind = f"dtype={self.dtype}, device={self.device}"
        return f"[TypedStorage({kind}) of size {self.size()}]"


def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is a storage."""
    return isinstance(obj, UntypedStorage | TypedStorage)


class _LegacyClass(type):
    """A legacy storage class: calling it returns a `TypedStorage`, which counts as its instance."""

    dtype: dtypes.dtype

    def __call__(
        cls, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None
    ) -> Any:
        if dtype not in (None, cls.dtype):
            raise TypeError(f"{cls.__name__}() has numbers of {cls.dtype}, got dtype={dtype}")
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype

    def from_buffer(cls, buffer: Any, byte_order: str | None = None) -> TypedStorage:
        """A copy of an object's buffer; see `frombuffer`."""
        found = frombuffer(buffer, dtype=cls.dtype)
        return TypedStorage(wrap_storage=UntypedStorage._of(found), dtype=cls.dtype)

    _from_buffer = from_buffer

    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """The first elements of a file; see `UntypedStorage.from_file`."""
        found = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=found, dtype=cls.dtype)


def _legacy(dtype: dtypes.dtype) -> Any:
    name = TYPE_NAMES[dtype].replace("Tensor", "Storage")
    facts = {"dtype": dtype, "__module__": __name__, "__doc__": f"Storages of {dtype.name}."}
    return _LegacyClass(name, (), facts)


FloatStorage: Any = _legacy(dtypes.float32)
DoubleStorage: Any = _legacy(dtypes.float64)
HalfStorage: Any = _legacy(dtypes.float16)
BFloat16Storage: Any = _legacy(dtypes.bfloat16)
LongStorage: Any = _legacy(dtypes.int64)
IntStorage: Any = _legacy(dtypes.int32)
ShortStorage: Any = _legacy(dtypes.int16)
CharStorage: Any = _legacy(dtypes.int8)
ByteStorage: Any = _legacy(dtypes.uint8)
BoolStorage: Any = _legacy(dtypes.bool)
ComplexFloatStorage: Any = _legacy(dtypes.complex64)
ComplexDoubleStorage: Any = _legacy(dtypes.complex128)
CLASSES = {
    each.dtype: each
    for each in (
        FloatStorage, DoubleStorage, HalfStorage, BFloat16Storage, LongStorage, IntStorage,
        ShortStorage, CharStorage, ByteStorage, BoolStorage, ComplexFloatStorage,
        ComplexDoubleStorage,
    )
}  # fmt: skip
