"""PyTorch's experiments with graphs, as far as programs name them."""

from flambeau._absent import Absent as _Absent

__getattr__: _Absent = _Absent(__name__)
