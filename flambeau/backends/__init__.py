"""Settings of libraries that PyTorch calls, as far as they say something about XLA."""

from flambeau._absent import Absent as _Absent
from flambeau.backends import cuda as cuda
from flambeau.backends import cudnn as cudnn
from flambeau.backends import mha as mha
from flambeau.backends import mps as mps

__getattr__ = _Absent(__name__)
