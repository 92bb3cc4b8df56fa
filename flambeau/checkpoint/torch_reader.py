"""Reading the files of `torch.save`: the zip archives of today and the format before them.

Both are a pickle, in which tensors are calls of PyTorch's functions on arrays that lie outside it.
Those calls are answered here; other names are refused, so that a file from a stranger runs nothing.
The formats are described at https://docs.pytorch.org/docs/2.13/notes/serialization.html
"""

from __future__ import annotations

import io
import math
import pickle
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from flambeau.checkpoint.torch_names import DTYPE_OF, DTYPES, UNTYPED
from flambeau.core.convert import place
from flambeau.core.device import device
from flambeau.core.dtype import dtype
from flambeau.core.tensor import Size, Tensor
from flambeau.nn.parameter import Buffer, Parameter

__all__ = ["begins_archive", "begins_older_file", "read_archive", "read_older_file"]

# What files of the older format begin with, after the pickle's own two bytes.
_MAGIC = 0x1950A86A20F9469CFC6C
_OLDER_VERSION = 1001
_PICKLE, _ZIP = b"\x80\x02", b"PK\x03\x04"
# Where the classes of arrays are.
_OF_STORAGES = ("torch", "torch.storage", "torch.cuda")

#: The device for tensors that were saved on the one of this name.
Placing = Callable[[str], device]


def begins_archive(start: bytes) -> bool:
    """Whether a file that begins so is a zip archive."""
    return start.startswith(_ZIP)


def begins_older_file(start: bytes) -> bool:
    """Whether a file that begins so is one of PyTorch's from before there were archives."""
    return start.startswith(_PICKLE + pickle.dumps(_MAGIC, 2)[2:-1])


class _Storage(NamedTuple):
    """A one-dimensional array outside the pickle.

    Attributes:
        read: Gives its bytes.
        of: The dtype of its elements; ``None`` if it is bytes.
        key: Its name.
        where: The device that its tensors are put on.
    """

    read: Callable[[], Any]
    of: dtype | None
    key: str
    where: device


class _Class(NamedTuple):
    """A class of PyTorch's, of which the name is all that counts."""

    name: str


class _Form(NamedTuple):
    """How the elements of an array are a tensor.

    Attributes:
        of: Their dtype.
        offset: Where the tensor begins, in elements.
        size: Its shape.
        stride: Its steps along each dimension, in elements.
        flags: What is done to its elements: ``"conj"``, ``"neg"``.
    """

    of: dtype
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    flags: tuple[str, ...]


class _Tensors:
    """Makes the tensors that a pickle describes; the same elements once.

    Args:
        swapped: Whether the arrays' bytes are in the order that this machine does not use.
    """

    def __init__(self, swapped: bool = False) -> None:
        self._swapped = swapped
        self._made: dict[tuple[str, _Form], Tensor] = {}
        self._last: tuple[str, Any] | None = None

    def rebuild(
        self,
        storage: _Storage,
        offset: int,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        requires_grad: bool = False,
        hooks: Any = None,
        metadata: dict[str, Any] | None = None,
    ) -> Tensor:
        """A tensor: of these sizes and steps in elements, from an array's element ``offset`` on."""
        if storage.of is None:
            raise pickle.UnpicklingError(f"array {storage.key!r} is bytes without a dtype")
        flags = tuple(sorted(metadata or {}))
        form = _Form(storage.of, offset, tuple(size), tuple(stride), flags)
        return _leaf(self._tensor(storage, form), requires_grad)

    def rebuild_with_dtype(
        self,
        storage: _Storage,
        offset: int,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        requires_grad: bool,
        hooks: Any,
        of: dtype,
        metadata: dict[str, Any] | None = None,
    ) -> Tensor:
        """A tensor of a dtype, from bytes."""
        typed = storage._replace(of=of)
        return self.rebuild(typed, offset, size, stride, requires_grad, hooks, metadata)

    def _tensor(self, storage: _Storage, form: _Form) -> Tensor:
        key = storage.key, form
        if key not in self._made:
            found = _strided(self._elements(storage, form.of), storage.key, form)
            for flag in form.flags:
                found = _FLAGS[flag](found)
            self._made[key] = Tensor._wrap(place(found, storage.where))
        return self._made[key]

    def _elements(self, storage: _Storage, of: dtype) -> np.ndarray:
        # One at a time, not to have all arrays twice; views of one mostly come one after another.
        if self._last is None or self._last[0] != storage.key:
            self._last = storage.key, storage.read()
        data = self._last[1]
        if len(data) % of.itemsize:
            raise pickle.UnpicklingError(
                f"array {storage.key!r} of {len(data)} bytes does not hold whole elements of "
                f"{of.name}"
            )
        found = np.frombuffer(data, of.numpy)
        return found.byteswap() if self._swapped else found


class _Shapes(_Tensors):
    """Makes tensors without elements, of the right shapes."""

    def _tensor(self, storage: _Storage, form: _Form) -> Tensor:
        return _rebuild_meta(form.of, form.size)


_FLAGS = {"conj": np.conj, "neg": np.negative}


def _leaf(tensor: Tensor, requires_grad: bool) -> Tensor:
    """The tensor itself if it needs no gradient; otherwise another one on its elements."""
    return tensor.detach().requires_grad_() if requires_grad else tensor


def _strided(flat: np.ndarray, key: str, form: _Form) -> np.ndarray:
    _, offset, size, stride, _ = form
    whole = all(type(each) is int and each >= 0 for each in (offset, *size, *stride))
    if not whole or len(size) != len(stride):
        raise pickle.UnpicklingError(
            f"a tensor of sizes {size} and strides {stride} from element {offset} cannot be"
        )
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if math.prod(size) and last >= len(flat):
        raise pickle.UnpicklingError(
            f"a tensor of sizes {size} and strides {stride} from element {offset} reaches beyond "
            f"array {key!r} of {len(flat)} elements"
        )
    if not math.prod(size):
        return np.empty(size, flat.dtype)
    steps = [step * flat.itemsize for step in stride]
    view = np.ndarray(size, flat.dtype, flat, offset * flat.itemsize, steps)
    return np.ascontiguousarray(view).reshape(size)


def _rebuild_meta(
    of: dtype, size: tuple[int, ...], stride: Any = None, requires_grad: bool = False
) -> Tensor:
    found = np.broadcast_to(np.zeros((), of.numpy), size)
    return _leaf(Tensor._wrap(place(found, device("meta"))), requires_grad)


def _rebuild_parameter(data: Tensor, requires_grad: bool, hooks: Any, state: Any = None) -> Any:
    return _with_state(Parameter(data, requires_grad), state)


def _rebuild_from_type(
    function: Callable[..., Any], kind: Any, args: tuple[Any, ...], state: Any
) -> Any:
    found = function(*args)
    if isinstance(state, dict) and state.get("_is_buffer"):
        found = Buffer(found, persistent=bool(state.get("persistent", True)))
    return _with_state(found, state)


def _with_state(tensor: Any, state: Any) -> Any:
    """The tensor with the attributes that its owner had set on it."""
    if isinstance(state, dict):
        vars(tensor).update({key: each for key, each in state.items() if key[:1] != "_"})
    return tensor


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes as text in {encoding!r}")
    return text.encode(encoding)


class _NumpyDtype:
    """A dtype of NumPy's, as it is pickled: a name, then among others the order of the bytes."""

    def __init__(self, name: str, *_: Any) -> None:
        self.found = np.dtype(name)
        if self.found.kind not in "biufc":
            raise pickle.UnpicklingError(f"NumPy's dtype {name!r}, which is none of numbers")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.found = self.found.newbyteorder(state[1])


def _numpy_scalar(of: _NumpyDtype, data: bytes) -> Any:
    return np.frombuffer(data, of.found)[0]


_ANSWERS: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "complex"): complex,
    ("builtins", "bytearray"): bytearray,
    ("builtins", "slice"): slice,
    ("builtins", "range"): range,
    ("_codecs", "encode"): _encode,
    ("numpy", "dtype"): _NumpyDtype,
    ("numpy.core.multiarray", "scalar"): _numpy_scalar,
    ("numpy._core.multiarray", "scalar"): _numpy_scalar,
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): _rebuild_meta,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild_from_type,
}
# Named as what a tensor is, and of no consequence.
_KINDS = {("torch", "Tensor"), ("torch._tensor", "Tensor"), ("torch.nn.parameter", "Parameter")}


class _Answer:
    """A function that stands for one that a pickle names; what the pickle sets on it is lost."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)


class _Unpickler(pickle.Unpickler):
    """A pickle whose names are PyTorch's.

    Args:
        file: Where it stands.
        tensors: What makes its tensors.
        storage: From what the pickle says of an array outside it, that array.
        weights_only: Whether classes and functions of other modules are refused.
    """

    def __init__(
        self,
        file: BinaryIO,
        tensors: _Tensors,
        storage: Callable[..., _Storage],
        weights_only: bool,
    ) -> None:
        super().__init__(file, encoding="utf-8")
        self._answers = {
            **_ANSWERS,
            ("torch._utils", "_rebuild_tensor"): tensors.rebuild,
            ("torch._utils", "_rebuild_tensor_v2"): tensors.rebuild,
            ("torch._utils", "_rebuild_tensor_v3"): tensors.rebuild_with_dtype,
        }
        self._storage = storage
        self._weights_only = weights_only

    def persistent_load(self, pid: Any) -> Any:
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
            raise pickle.UnpicklingError(f"something outside the pickle, called {pid!r}")
        return self._storage(*pid[1:])

    def find_class(self, module: str, name: str) -> Any:
        module = "builtins" if module == "__builtin__" else module
        if not self._weights_only and module.partition(".")[0] != "torch":
            return super().find_class(module, name)
        if (module, name) in self._answers:
            return _Answer(self._answers[module, name])
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        if (module, name) in _KINDS or (module in _OF_STORAGES and name.endswith("Storage")):
            return _Class(name)
        raise pickle.UnpicklingError(_refusal(module, name))


def _refusal(module: str, name: str) -> str:
    if module.partition(".")[0] == "torch":
        return (
            f"it needs {module}.{name}, which is PyTorch's own; save state_dict() there, with "
            "dense tensors, numbers, text and containers of them"
        )
    return (
        f"it needs {module}.{name}, which may run any code; if you trust whoever made the file, "
        "give weights_only=False"
    )


def _dtype_of(cls: Any, key: str) -> dtype | None:
    name = cls.name if isinstance(cls, _Class) else str(cls)
    if name == UNTYPED:
        return None
    if name not in DTYPE_OF:
        raise pickle.UnpicklingError(
            f"array {key!r} is a {name}, and there are no such tensors here; convert it in PyTorch"
        )
    return DTYPE_OF[name]


def read_archive(file: BinaryIO, placed: Placing, weights_only: bool) -> Any:
    """What `torch.save` has written.

    Args:
        file: Open for reading bytes, and seekable.
        placed: The device for tensors that were saved on the one of that name.
        weights_only: Whether only tensors, numbers, text and containers of them are read.

    Raises:
        pickle.UnpicklingError: The file holds something else, or is damaged.
        zipfile.BadZipFile: The file is damaged.
    """
    with zipfile.ZipFile(file) as archive:
        names = set(archive.namelist())
        folder = next(
            (each[: -len("data.pkl")] for each in names if each.endswith("/data.pkl")), ""
        )
        if not folder:
            raise pickle.UnpicklingError("the archive holds no data.pkl")
        if folder + "constants.pkl" in names:
            raise pickle.UnpicklingError(
                "it is a TorchScript program; save the state_dict() of what it was made from"
            )

        def storage(cls: Any, key: str, location: str, *_: Any) -> _Storage:
            entry = f"{folder}data/{key}"
            if entry not in names:
                raise pickle.UnpicklingError(f"the archive holds no array {key!r}")
            of = _dtype_of(cls, key)
            return _Storage(lambda: archive.read(entry), of, key, placed(location))

        order = folder + "byteorder"
        written = archive.read(order).decode() if order in names else "little"
        tensors = _Tensors(swapped=written != sys.byteorder)
        pickled = io.BytesIO(archive.read(folder + "data.pkl"))
        return _Unpickler(pickled, tensors, storage, weights_only).load()


def read_older_file(file: BinaryIO, placed: Placing, weights_only: bool) -> Any:
    """What `torch.save` wrote before version 1.6; see `read_archive`.

    The arrays follow the pickle. It is read twice: once to see where it ends and how large the
    elements are, and again to make the tensors.
    """
    sizes: dict[str, int] = {}
    arrays: dict[str, bytes] = {}

    def storage(cls: Any, key: str, location: str, count: int, view: Any = None) -> _Storage:
        if view is not None:
            raise pickle.UnpicklingError("an array that is part of another, by a very old PyTorch")
        of = _dtype_of(cls, key)
        sizes[key] = of.itemsize if of else 1
        return _Storage(lambda: arrays[key], of, key, placed(location))

    def unpickled(tensors: _Tensors) -> Any:
        return _Unpickler(file, tensors, storage, weights_only).load()

    shapes = _Shapes()
    magic, version, system = unpickled(shapes), unpickled(shapes), unpickled(shapes)
    if magic != _MAGIC or version != _OLDER_VERSION:
        raise pickle.UnpicklingError(f"version {version!r} of the older format is not known")
    start = file.tell()
    unpickled(shapes)
    for key in unpickled(shapes):
        count = int.from_bytes(file.read(8), "little")
        arrays[key] = file.read(count * sizes[key])
        if len(arrays[key]) != count * sizes[key]:
            raise pickle.UnpicklingError(f"the file ends within array {key!r}")
    file.seek(start)
    written = "little" if system.get("little_endian", True) else "big"
    return unpickled(_Tensors(swapped=written != sys.byteorder))
