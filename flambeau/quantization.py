"""`flambeau.ao.quantization`, under its older name."""

from flambeau._absent import Absent as _Absent
from flambeau.ao.quantization import DeQuantStub, FakeQuantizeBase, ObserverBase, QuantStub

__all__ = ["DeQuantStub", "FakeQuantizeBase", "ObserverBase", "QuantStub"]

__getattr__: _Absent = _Absent(__name__)
