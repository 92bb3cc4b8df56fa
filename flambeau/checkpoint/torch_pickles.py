"""The pickles in PyTorch's files, and the functions, classes and storages named in them."""

from __future__ import annotations

import io
import pickle
import pickletools
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, BinaryIO, NamedTuple

from flambeau.checkpoint.allowed import find_allowed, is_allowed, set_state
from flambeau.checkpoint.errors import CheckpointError, RefusedContentError
from flambeau.checkpoint.limits import Limits
from flambeau.checkpoint.numpy_pickles import (
    ARRAY_CLASS,
    NumpyDtype,
    fill_array,
    numpy_scalar,
    reconstructed,
)
from flambeau.checkpoint.pickled import DAMAGE, NamedFunction, PlainUnpickler, shown
from flambeau.checkpoint.torch_names import (
    DTYPE_OF,
    DTYPES,
    LAYOUTS,
    MEMORY_FORMATS,
    UNTYPED,
    are_versions,
)
from flambeau.checkpoint.torch_tensors import Storage, Tensors
from flambeau.core.devices.device import device
from flambeau.core.devices.layout import layout
from flambeau.core.support import naming
from flambeau.core.support.dtype import dtype
from flambeau.core.values.tensor import Size, Tensor
from flambeau.nn.registry import HookRegistry, Registry

__all__ = ["Pickles", "dtype_of", "refused_names"]

# The modules that name storage classes, and the functions that make tensors.
_OF_STORAGES = ("torch", "torch.storage", "torch.cuda")
_OF_TENSORS = ("torch._utils", "torch._tensor")
# The module under which flambeau's older files name layouts and memory formats.
_OLDER_LAYOUTS = "flambeau.core.layout"


class _Class(NamedTuple):
    """A class of PyTorch's; only its name matters."""

    name: str


# The dicts for a module's members and hooks, created empty and filled by the unpickler.
_TABLES = {(naming.module_of(each), each.__name__): each for each in (Registry, HookRegistry)}


# Replacements of Python's functions: they take data that the pickle has created, never element
# counts or iterators.


def _set(reader: _Plain, members: Any = ()) -> set[Any]:
    found: set[Any] = set()
    reader.add(found, _listed(members))
    return found


def _frozenset(reader: _Plain, members: Any = ()) -> frozenset[Any]:
    return reader.frozen(_listed(members))


def _dict(kind: type, reader: _Plain, items: Any = ()) -> Any:
    found = kind()
    reader.fill(found, items.items() if type(items) is dict else _listed(items))
    return found


def _listed(members: Any) -> Any:
    if type(members) not in (list, tuple):
        raise TypeError(f"members are a list, not a {type(members).__name__}")
    return members


def _bytearray(reader: _Plain, content: Any = b"", encoding: str = "") -> bytearray:
    content = content if type(content) is bytes else _encode(reader, content, encoding)
    reader.budget.take(len(content), "a bytearray")
    return bytearray(content)


def _encode(reader: _Plain, text: Any, encoding: Any) -> bytes:
    if type(text) is not str:
        raise TypeError(f"a {type(text).__name__} in place of text")
    if type(encoding) is not str or encoding not in ("latin1", "latin-1"):
        raise RefusedContentError(f"it encodes text in {shown(encoding)}")
    reader.budget.take(len(text), "a text")
    return text.encode("latin1")


def _of_numbers(kind: Callable[..., Any], reader: _Plain, *args: Any) -> Any:
    if not all(each is None or type(each) in (int, float, bool) for each in args):
        raise TypeError("other arguments than numbers")
    return kind(*args)


def _size(reader: _Plain, sizes: Any = ()) -> Size:
    reader.budget.take(8 * len(_listed(sizes)), "a Size")
    if not all(type(each) is int for each in sizes):
        raise TypeError("a Size of other members than integers")
    return Size(sizes)


def _device(reader: _Plain, kind: str, index: int | None = None) -> device:
    if type(kind) is not str or type(index) not in (int, type(None)):
        raise TypeError("a device of other things than text and a number")
    try:
        return device(kind) if index is None else device(kind, index)
    except RuntimeError as error:
        raise RefusedContentError(f"{error!s:.300}") from None


def _layout(reader: _Plain, name: str) -> layout:
    found = LAYOUTS.get(name.removeprefix("torch.")) if type(name) is str else None
    if found is None:
        raise RefusedContentError(f"a layout called {shown(name)}, which is not supported")
    return found


_ANSWERS: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): partial(_dict, OrderedDict),
    ("collections", "Counter"): partial(_dict, Counter),
    ("builtins", "set"): _set,
    ("builtins", "frozenset"): _frozenset,
    ("builtins", "complex"): partial(_of_numbers, complex),
    ("builtins", "bytearray"): _bytearray,
    # The pickle of an empty bytes object.
    ("builtins", "bytes"): lambda reader: b"",
    ("builtins", "slice"): partial(_of_numbers, slice),
    ("builtins", "range"): partial(_of_numbers, range),
    # Its name in pickles for Python 2.
    ("builtins", "xrange"): partial(_of_numbers, range),
    ("_codecs", "encode"): _encode,
    ("numpy", "dtype"): NumpyDtype,
    ("numpy.core.multiarray", "scalar"): numpy_scalar,
    ("numpy._core.multiarray", "scalar"): numpy_scalar,
    ("numpy.core.multiarray", "_reconstruct"): reconstructed,
    ("numpy._core.multiarray", "_reconstruct"): reconstructed,
    ("torch", "Size"): _size,
    ("torch", "device"): _device,
    ("torch.serialization", "_get_layout"): _layout,
}
# Named as the type of a tensor; has no effect.
_KINDS = {("torch", "Tensor"), ("torch._tensor", "Tensor"), ("torch.nn.parameter", "Parameter")}


class _Names:
    """Maps the names in a file of PyTorch's to objects.

    Args:
        tensors: Creates its tensors.
        storage: Returns a storage outside the pickle, from the pickle's reference to it.
    """

    def __init__(self, tensors: Tensors, storage: Callable[..., Storage]) -> None:
        self._tensors = tensors
        self._storage = storage
        self._arrays: set[str] = set()

    def outside(self, pid: Any) -> Storage:
        """A storage outside the pickle."""
        if type(pid) is not tuple or len(pid) < 5 or shown(pid[0]) != "'storage'":
            raise RefusedContentError(f"something outside the pickle, called {shown(pid)}")
        _, cls, key, location, count, *more = pid
        if type(key) is not str or type(location) is not str or type(count) is not int:
            raise TypeError("an array is described by values other than strings and numbers")
        self._arrays.add(key)
        return self._storage(cls, key, location, count, *more)

    def check_arrays(self) -> None:
        """Check that all storages belong to tensors, since no other storages are supported."""
        for key in self._arrays - self._tensors.used:
            raise RefusedContentError(
                f"array {key!r:.80} is a storage without a tensor, which flambeau cannot load; "
                "save the tensor"
            )

    def meaning(self, module: str, name: str) -> Any:
        """The replacement of a function, class or dtype of PyTorch's."""
        if module in _OF_TENSORS and name in self._tensors.answers:
            return NamedFunction(self._tensors.answers[name])
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        if module == "torch" and name in MEMORY_FORMATS:
            return MEMORY_FORMATS[name]
        if module == _OLDER_LAYOUTS and name in LAYOUTS | MEMORY_FORMATS:
            return (LAYOUTS | MEMORY_FORMATS)[name]
        if (module, name) in _KINDS or (module in _OF_STORAGES and name.endswith("Storage")):
            return _Class(name)
        raise RefusedContentError(_refusal(module, name))


class _Plain(PlainUnpickler):
    """A pickle of tensors, numbers, text and containers of them."""

    dicts = (*PlainUnpickler.dicts, *_TABLES.values())

    def __init__(
        self, file: BinaryIO, size: int, tensors: Tensors, names: _Names, depth: int, place: str
    ) -> None:
        super().__init__(file, size, tensors.budget, depth, place)
        self._names = names

    def find_class(self, module: str, name: str) -> Any:
        """The replacement of a class or function."""
        module = "builtins" if module == "__builtin__" else module
        if (module, name) in _ANSWERS:
            return NamedFunction(partial(_ANSWERS[module, name], self))
        if (module, name) == ("numpy", "ndarray"):
            return ARRAY_CLASS
        if (module, name) in _TABLES:
            return _TABLES[module, name]
        found = find_allowed(f"{module}.{name}")
        return self._names.meaning(module, name) if found is None else found

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """The result of an allowed function, or a module's table."""
        if _is_table(function) and not args:
            return function()
        if not is_allowed(function):
            super().call(function, args)
        return function(*args)

    def make(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An object of an allowed class, or a module's table."""
        if _is_table(cls) and not args and not kwargs:
            return cls()
        if not is_allowed(cls):
            super().make(cls, args, kwargs)
        return cls.__new__(cls, *args, **kwargs)

    def set_state(self, target: Any, state: Any) -> None:
        """Set the state of a NumPy array, or of an object of an allowed class."""
        if type(target) is ARRAY_CLASS:
            fill_array(target, state, self.budget)
        elif is_allowed(type(target)):
            set_state(target, state)
        else:
            super().set_state(target, state)

    def set_attributes(self, target: Any, state: Any) -> None:
        """Set attributes of a dict; ``_metadata`` holds the versions of modules."""
        if not are_versions(state.get("_metadata", {})):
            raise RefusedContentError("a state dict's _metadata is not a dict of dicts by name")
        super().set_attributes(target, state)

    def persistent_load(self, pid: Any) -> Any:
        """A storage outside the pickle."""
        return self._names.outside(pid)


def _is_table(cls: Any) -> bool:
    return any(cls is each for each in _TABLES.values())


_TRUSTED = {"Size": Size, "Tensor": Tensor, "device": device}


class _Trusting(pickle.Unpickler):
    """A pickle of any object that Python can import here."""

    def __init__(self, file: BinaryIO, names: _Names) -> None:
        super().__init__(file, encoding="utf-8")
        self._names = names

    def find_class(self, module: str, name: str) -> Any:
        """A class or function; for PyTorch's, its replacement."""
        if module.partition(".")[0] != "torch":
            try:
                return super().find_class(module, name)
            except ModuleNotFoundError as error:
                if error.name != "torch":
                    raise
                raise RefusedContentError(
                    f"it needs {module:.100}.{name:.100}, whose module imports torch; call "
                    "flambeau.install_as_torch() first, or run the program with python -m flambeau"
                ) from None
        if module == "torch" and name in _TRUSTED:
            return _TRUSTED[name]
        try:
            return self._names.meaning(module, name)
        except RefusedContentError:
            # The table of PyTorch's modules exists for the name torch.
            home = import_module("flambeau.as_torch.finder").home_of(module)
            try:
                return super().find_class(home, name)
            except (ImportError, AttributeError):
                raise RefusedContentError(_refusal(module, name)) from None

    def persistent_load(self, pid: Any) -> Any:
        """A storage outside the pickle."""
        return self._names.outside(pid)


def _refusal(module: str, name: str) -> str:
    whole = f"{module:.100}.{name:.100}"
    if module.partition(".")[0] == "torch":
        return (
            f"it needs {whole}, which is PyTorch's own; save state_dict() there, with "
            "dense tensors, numbers, text and containers of them"
        )
    return (
        f"it needs {whole}, which may run any code; allow it with "
        f"flambeau.serialization.add_safe_globals([{whole}]), or if you trust whoever made the "
        "file, give weights_only=False"
    )


def dtype_of(cls: Any, key: str) -> dtype | None:
    """The dtype of the elements of a storage class; ``None`` for bytes."""
    name = cls.name if isinstance(cls, _Class) else shown(cls)
    if name == UNTYPED:
        return None
    if name not in DTYPE_OF:
        raise RefusedContentError(
            f"array {key!r:.80} is a {name:.80}, which flambeau does not have; "
            "convert it in PyTorch"
        )
    return DTYPE_OF[name]


class Pickles:
    """Reads the pickles of a file.

    Args:
        file: The file that contains them.
        depth: How deep tuples may be nested.
        weights_only: Whether only tensors, numbers, text and containers of them are read.
        place: The description of a byte of the file in messages, with ``{}`` for its number.
    """

    def __init__(
        self, file: BinaryIO, depth: int, weights_only: bool, place: str = "byte {}"
    ) -> None:
        self._file = file
        self._size = file.seek(0, io.SEEK_END)
        self._depth = depth
        self._weights_only = weights_only
        self._place = place

    def load(self, start: int, tensors: Tensors, storage: Callable[..., Storage]) -> Any:
        """Read the pickle that begins at a byte; the file is then positioned after it.

        Args:
            start: The byte.
            tensors: Creates its tensors.
            storage: Returns a storage outside the pickle, from the pickle's reference to it.
        """
        self._file.seek(start)
        names = _Names(tensors, storage)
        if self._weights_only:
            plain = _Plain(self._file, self._size, tensors, names, self._depth, self._place)
            found = plain.load()
        else:
            found = self._trusted(names)
        names.check_arrays()
        return found

    def _trusted(self, names: _Names) -> Any:
        try:
            return _Trusting(self._file, names).load()
        except CheckpointError:
            raise
        except (*DAMAGE, ImportError, pickle.UnpicklingError) as error:
            place = self._place.format(self._file.tell())
            raise RefusedContentError(f"{type(error).__name__}: {error}", place) from error


def refused_names(pickled: bytes) -> list[str]:
    """The names in a pickle of PyTorch's that must be allowed before they are read, in order.

    Raises:
        ValueError: It is not a pickle.
    """
    tensors = Tensors(Limits().budget(len(pickled)), "little")
    names = _Names(tensors, _no_storage)
    plain = _Plain(io.BytesIO(pickled), len(pickled), tensors, names, 0, "byte {}")
    refused: dict[str, None] = {}
    for module, name in _names_in(pickled):
        try:
            plain.find_class(module, name)
        except RefusedContentError:
            refused[f"{module}.{name}"] = None
    return [*refused]


def _no_storage(*args: Any) -> Storage:
    raise AssertionError("names are looked up without arrays")


def _names_in(pickled: bytes) -> Iterator[tuple[str, str]]:
    """The modules and names of all classes and functions in a pickle."""
    texts: list[str] = []
    memo: dict[int, str] = {}
    argument: Any
    for operation, argument, _ in pickletools.genops(pickled):
        if operation.name == "GLOBAL":
            module, _, name = argument.partition(" ")
            yield module, name
        elif operation.name == "STACK_GLOBAL":
            yield texts[-2], texts[-1]
        elif "UNICODE" in operation.name:
            texts.append(argument)
        elif operation.name == "MEMOIZE":
            memo[len(memo)] = texts[-1] if texts else ""
        elif "PUT" in operation.name:
            memo[int(argument)] = texts[-1] if texts else ""
        elif "GET" in operation.name:
            texts.append(memo[int(argument)])
