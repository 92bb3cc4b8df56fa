"""Names of the exporter to ONNX, of which there is none: they can be imported and registered.

``jax.export`` writes StableHLO.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NoReturn

from flambeau._absent import Absent as _Absent

__all__ = [
    "ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TensorProtoDataType",
    "TrainingMode", "export", "is_in_onnx_export", "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)


class TrainingMode(enum.IntEnum):
    """In which mode PyTorch exports a module."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """How PyTorch exports operators that ONNX does not have."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TensorProtoDataType(enum.IntEnum):
    """ONNX's numbers of types of elements."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20


class OnnxExporterError(RuntimeError):
    """An error of PyTorch's exporter."""


class ONNXProgram:
    """The result type of PyTorch's exporter; nothing here is an instance."""


def is_in_onnx_export() -> bool:
    """``False``: nothing is ever exported."""
    return False


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to export.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        "there is no exporter to ONNX: jax.export.export makes StableHLO of a jitted function of "
        "arrays, such as one that calls flambeau.func.functional_call"
    )


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Accepted for PyTorch's sake: nothing is ever exported."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Accepted for PyTorch's sake: nothing is ever exported."""
