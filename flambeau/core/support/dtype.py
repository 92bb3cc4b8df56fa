"""Element types under PyTorch's names.

Each ``dtype`` is one interned object that knows the NumPy dtype JAX stores it as.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from flambeau.core.support import errors, naming, world

__all__ = [
    "bfloat16", "bool", "cdouble", "cfloat", "chalf", "complex32", "complex64", "complex128",
    "double", "dtype", "finfo", "float", "float8_e4m3fn", "float8_e5m2", "float16", "float32",
    "float64", "get_default_dtype", "half", "iinfo", "int", "int8", "int16", "int32", "int64",
    "long", "qint8", "qint32", "quint2x4", "quint4x2", "quint8", "set_default_dtype", "short",
    "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

BOOLEAN, INTEGER, FLOATING, COMPLEX = range(4)
_CATEGORY_OF_KIND = {"b": BOOLEAN, "u": INTEGER, "i": INTEGER, "f": FLOATING, "c": COMPLEX}


class dtype:
    """The type of a tensor's elements; compare with ``is`` or ``==``.

    Attributes:
        name: PyTorch's name without the namespace, such as ``"float32"``.
        numpy: The NumPy dtype of the same elements (``ml_dtypes`` supplies ``bfloat16``).
        category: ``BOOLEAN``, ``INTEGER``, ``FLOATING`` or ``COMPLEX``, in promotion order.
        itemsize: Bytes per element.
    """

    __slots__ = (
        "category",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "name",
        "numpy",
    )

    name: str
    numpy: Any
    category: Any
    is_floating_point: Any
    is_complex: Any
    is_signed: Any
    itemsize: Any

    def __init__(self, name: str, numpy_dtype: Any) -> None:
        found = np.dtype(numpy_dtype)
        # NumPy gives kind "V" to the extension floats, which are all floating point.
        category = _CATEGORY_OF_KIND.get(found.kind, FLOATING)
        facts = {
            "name": name,
            "numpy": found,
            "category": category,
            "is_floating_point": category == FLOATING,
            "is_complex": category == COMPLEX,
            "is_signed": category >= FLOATING or found.kind == "i",
            "itemsize": found.itemsize,
        }
        for fact, value in facts.items():
            object.__setattr__(self, fact, value)

    def __setattr__(self, name: str, value: Any) -> None:
        # Every user shares this object, and unpickling may try to set its attributes.
        raise AttributeError(f"{name!r} of {self!r} cannot be set: a dtype never changes")

    def to_real(self) -> dtype:
        """The real type of the same precision (``complex64`` gives ``float32``)."""
        return _REAL_OF_COMPLEX.get(self, self)

    def to_complex(self) -> dtype:
        """The complex type of the same precision (``float32`` gives ``complex64``)."""
        return _COMPLEX_OF_REAL.get(self, self)

    def __repr__(self) -> str:
        return f"{naming.package}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class NamedOnly(dtype):
    """A dtype that code may name and compare, but no tensor has.

    Raises:
        TypeError: Code asks for a property of its elements.
    """

    __slots__ = ("advice",)

    def __init__(self, name: str, category: Any, itemsize: Any, advice: str) -> None:
        facts = {
            "name": name,
            "category": category,
            "is_floating_point": category == FLOATING,
            "is_complex": category == COMPLEX,
            "is_signed": category >= FLOATING,
            "itemsize": itemsize,
            "advice": advice,
        }
        for fact, value in facts.items():
            object.__setattr__(self, fact, value)

    def __getattr__(self, name: str) -> Any:
        if name == "numpy":
            raise TypeError(f"there are no tensors of {self}: {self.advice}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


bool: dtype = dtype("bool", np.bool_)
uint8: dtype = dtype("uint8", np.uint8)
uint16: dtype = dtype("uint16", np.uint16)
uint32: dtype = dtype("uint32", np.uint32)
uint64: dtype = dtype("uint64", np.uint64)
int8: dtype = dtype("int8", np.int8)
int16: dtype = dtype("int16", np.int16)
int32: dtype = dtype("int32", np.int32)
int64: dtype = dtype("int64", np.int64)
float16: dtype = dtype("float16", np.float16)
bfloat16: dtype = dtype("bfloat16", ml_dtypes.bfloat16)
float32: dtype = dtype("float32", np.float32)
float64: dtype = dtype("float64", np.float64)
complex64: dtype = dtype("complex64", np.complex64)
complex128: dtype = dtype("complex128", np.complex128)
complex32: NamedOnly = NamedOnly("complex32", COMPLEX, 4, "the smallest complex type is complex64")
_QUANTIZED = "there are no quantized tensors"
qint8: NamedOnly = NamedOnly("qint8", INTEGER, 1, _QUANTIZED)
qint32: NamedOnly = NamedOnly("qint32", INTEGER, 4, _QUANTIZED)
quint8: NamedOnly = NamedOnly("quint8", INTEGER, 1, _QUANTIZED)
quint2x4: NamedOnly = NamedOnly("quint2x4", INTEGER, 1, _QUANTIZED)
quint4x2: NamedOnly = NamedOnly("quint4x2", INTEGER, 1, _QUANTIZED)
float8_e4m3fn: dtype = dtype("float8_e4m3fn", ml_dtypes.float8_e4m3fn)
float8_e5m2: dtype = dtype("float8_e5m2", ml_dtypes.float8_e5m2)

short: dtype = int16
int: dtype = int32
long: dtype = int64
half: dtype = float16
float: dtype = float32
double: dtype = float64
chalf: NamedOnly = complex32
cfloat: dtype = complex64
cdouble: dtype = complex128

_REAL_OF_COMPLEX = {complex32: float16, complex64: float32, complex128: float64}
_COMPLEX_OF_REAL = {
    float16: complex64,
    bfloat16: complex64,
    float32: complex64,
    float64: complex128,
}

ALL_DTYPES: tuple[dtype, ...] = (
    bool, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
    float16, bfloat16, float32, float64, complex64, complex128, float8_e4m3fn, float8_e5m2,
)  # fmt: skip

_BY_NUMPY: dict[np.dtype, dtype] = {each.numpy: each for each in ALL_DTYPES}


def from_numpy_dtype(numpy_dtype: Any) -> dtype:
    """The flambeau dtype of a NumPy or JAX one; ``TypeError`` when there is none."""
    found = _BY_NUMPY.get(numpy_dtype)
    if found is None:
        found = _BY_NUMPY.get(np.dtype(numpy_dtype))
    if found is None:
        names = ", ".join(each.name for each in ALL_DTYPES)
        raise errors.TypeError(
            f"arrays of dtype {numpy_dtype} have no tensor type; supported: {names}"
        )
    return found


_default = float32
_dependents: list[Callable[[], None]] = []


def on_default_change(react: Callable[[], None]) -> None:
    """Call ``react()`` whenever the default dtype has changed."""
    _dependents.append(react)


def get_default_dtype() -> dtype:
    """The floating point dtype that ``tensor([1.0])`` and ``zeros`` use."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Set the default floating point dtype.

    Raises:
        TypeError: ``d`` is not a floating point dtype.
    """
    global _default
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError(f"the default dtype must be a floating point dtype, got {d!r}")
    if d is not _default:
        _default = d
        for react in _dependents:
            react()
        world.bump()


_PYTHON_TYPES: dict[type, dtype] = {
    builtins.bool: bool, builtins.int: int64, builtins.float: float64, complex: complex128,
}  # fmt: skip


def of_python_type(kind: Any) -> Any:
    """The dtype of ``float``, ``int``, ``bool`` or ``complex``; any other value unchanged."""
    return _PYTHON_TYPES.get(kind, kind) if isinstance(kind, type) else kind


class _Limits:
    """The range of a dtype, printed as PyTorch prints it."""

    _shown: tuple[str, ...] = ()

    def __init__(self, type: dtype) -> None:
        self.dtype: str = type.name
        self.bits: Any = type.itemsize * 8

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name):g}" for name in self._shown)
        return f"{self.__class__.__name__}({values}, dtype={self.dtype})"


class finfo(_Limits):
    """Limits of a floating point dtype: ``eps, max, min, tiny, smallest_normal, resolution``."""

    _shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    eps: Any
    max: Any
    min: Any
    tiny: Any
    smallest_normal: Any

    def __init__(self, type: dtype | None = None) -> None:
        type = get_default_dtype() if type is None else of_python_type(type)
        if not isinstance(type, dtype) or type.category < FLOATING:
            raise TypeError(f"finfo needs a floating point dtype, got {type!r}; use iinfo")
        super().__init__(type.to_real())
        limits = ml_dtypes.finfo(type.to_real().numpy)
        self.eps, self.max, self.min = (_as_float(x) for x in (limits.eps, limits.max, limits.min))
        self.tiny = self.smallest_normal = _as_float(limits.smallest_normal)
        # The number of decimal digits that survive a round trip for every number.
        self.resolution: Any = 10.0 ** -math.floor(limits.nmant * math.log10(2))


class iinfo(_Limits):
    """Limits of an integer dtype: ``bits, min, max``."""

    _shown = ("min", "max")

    max: builtins.int
    min: builtins.int

    def __init__(self, type: dtype) -> None:
        type = of_python_type(type)
        if not isinstance(type, dtype) or type.category != INTEGER:
            raise TypeError(f"iinfo needs an integer dtype, got {type!r}; use finfo")
        super().__init__(type)
        limits = np.iinfo(type.numpy)
        self.min, self.max = limits.min, limits.max


def _as_float(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value * 1.0
