"""Names of PyTorch's quantization, of which layers that compute as they are can be named."""

from flambeau._absent import Absent as _Absent
from flambeau.ao import nn as nn
from flambeau.ao import quantization as quantization

__getattr__: _Absent = _Absent(__name__)
