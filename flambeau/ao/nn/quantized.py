"""The module `flambeau.nn.quantized`, under its newer name."""

from flambeau._absent import Absent as _Absent
from flambeau.nn.quantized import FloatFunctional

__all__ = ["FloatFunctional"]

__getattr__: _Absent = _Absent(__name__)
