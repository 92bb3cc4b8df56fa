"""`torch.ao.nn`: layers of quantized models."""

from flambeau._absent import Absent as _Absent
from flambeau.nn import quantized as quantized

__getattr__: _Absent = _Absent(__name__)
