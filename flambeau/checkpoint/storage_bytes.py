"""The memory of a tensor as PyTorch pickles it: a file of its older format, as bytes."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from flambeau.checkpoint.torch_names import DTYPE_OF, UNTYPED
from flambeau.core.devices.device import CPU
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.convert import place
from flambeau.core.values.tensor import Tensor
from flambeau.storage import TypedStorage, UntypedStorage

__all__: list[str] = []

# The storage's pickle is preceded by three others: a number, a version and machine data.
_BEFORE = 3
_LENGTH = 8


class _Reader(pickle.Unpickler):
    """Reads the reference to a storage: a tuple of its class's name, its key and its size."""

    def find_class(self, module: str, name: str) -> Any:
        return name

    def persistent_load(self, pid: Any) -> Any:
        return pid


def read(content: bytes) -> TypedStorage | UntypedStorage:
    """The storage that PyTorch has written.

    Raises:
        pickle.UnpicklingError: The bytes are something else.
    """
    file = io.BytesIO(content)
    for _ in range(_BEFORE):
        _Reader(file).load()
    found = _Reader(file).load()
    if type(found) is not tuple or len(found) < 5 or found[0] != "storage":
        raise pickle.UnpicklingError("the bytes are not those of a storage of PyTorch's")
    _, kind, _, _, count = found[:5]
    _Reader(file).load()
    of = dtypes.uint8 if kind == UNTYPED else DTYPE_OF[kind]
    file.seek(_LENGTH, io.SEEK_CUR)
    elements = np.frombuffer(file.read(), of.numpy, count).copy()
    untyped = UntypedStorage._of(Tensor._wrap(place(elements, CPU)))
    return untyped if kind == UNTYPED else TypedStorage(wrap_storage=untyped, dtype=of)
