"""Types for annotations, under the names of `torch.types`."""

import builtins
import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from flambeau._absent import Absent as _Absent
from flambeau.core.device import device
from flambeau.core.dtype import dtype
from flambeau.core.layout import layout
from flambeau.core.tensor import Size, Tensor
from flambeau.rare.symbolic import SymBool, SymFloat, SymInt

__all__ = ["Device", "FileLike", "Number"]

__getattr__: _Absent = _Absent(__name__)

#: A Python number.
Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
#: What stands for a device.
Device: TypeAlias = device | str | int | None
#: The name of a file, or an open one.
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]

IntLikeType: TypeAlias = int | SymInt
FloatLikeType: TypeAlias = float | SymFloat
BoolLikeType: TypeAlias = bool | SymBool
PySymType: TypeAlias = SymInt | SymFloat | SymBool
py_sym_types: tuple[type[SymInt], type[SymFloat], type[SymBool]] = (SymInt, SymFloat, SymBool)

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]
_device, _dtype, _layout = device, dtype, layout
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_symsize: TypeAlias = Size | Sequence[int | SymInt]
_int, _float, _bool = builtins.int, builtins.float, builtins.bool
_complex, _str, _bytes = builtins.complex, builtins.str, builtins.bytes
