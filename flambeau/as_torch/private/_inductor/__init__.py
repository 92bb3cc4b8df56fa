"""`torch._inductor`: settings of PyTorch's compiler."""

from flambeau._absent import Absent as _Absent
from flambeau.as_torch.private._inductor import config as config
from flambeau.compiler import cudagraph_mark_step_begin as cudagraph_mark_step_begin

__getattr__ = _Absent("flambeau._inductor")
