"""Types for annotations, under the names of `torch.types`."""

import builtins
import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from flambeau._absent import Absent as _Absent
from flambeau.core.devices.device import device
from flambeau.core.devices.layout import layout
from flambeau.core.support.dtype import dtype
from flambeau.core.values.tensor import Size, Tensor
from flambeau.rare.symbolic import SymBool, SymFloat, SymInt

__all__ = ["Device", "FileLike", "Number"]

__getattr__: _Absent = _Absent(__name__)

#: A Python number.
Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
#: The types of device arguments.
Device: TypeAlias = device | str | int | None
#: A path, or an open file.
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
