"""Operators of ONNX's version 11 for an exporter, of which there is none."""

from flambeau._absent import Absent as _Absent

__getattr__: _Absent = _Absent(__name__)
