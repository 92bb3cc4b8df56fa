"""Gradients: the public face of the tape."""

from flambeau._absent import Absent as _Absent
from flambeau.autograd import forward_ad as forward_ad
from flambeau.autograd import functional as functional
from flambeau.autograd import graph as graph
from flambeau.autograd.anomaly_mode import *
from flambeau.autograd.backward import *
from flambeau.autograd.function import *
from flambeau.autograd.grad_mode import *
from flambeau.autograd.grad_mode import is_multithreading_enabled as is_multithreading_enabled
from flambeau.autograd.grad_mode import set_multithreading_enabled as set_multithreading_enabled
from flambeau.autograd.gradcheck import *
from flambeau.autograd.variable import *

__getattr__ = _Absent(__name__)
