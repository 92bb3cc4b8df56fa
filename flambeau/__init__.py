"""PyTorch's module system, at the speed of XLA, without PyTorch."""

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi

from numpy import newaxis as newaxis

from flambeau import autograd as autograd
from flambeau import func as func
from flambeau import linalg as linalg
from flambeau import nn as nn
from flambeau import optim as optim
from flambeau import overrides as overrides
from flambeau import random as random
from flambeau import utils as utils
from flambeau._lazy import __dir__ as __dir__
from flambeau._lazy import __getattr__ as __getattr__
from flambeau.autograd.grad_mode import *
from flambeau.checkpoint.io import load as load
from flambeau.checkpoint.io import save as save
from flambeau.compile import CompileError as CompileError
from flambeau.compile import compile as compile
from flambeau.core.devices.device import device as device
from flambeau.core.devices.device import get_default_device as get_default_device
from flambeau.core.devices.device import set_default_device as set_default_device
from flambeau.core.devices.layout import *
from flambeau.core.kernels.promotion import can_cast as can_cast
from flambeau.core.kernels.promotion import promote_types as promote_types
from flambeau.core.kernels.promotion import result_type as result_type
from flambeau.core.support.dtype import *
from flambeau.core.support.format import set_printoptions as set_printoptions
from flambeau.core.values.tensor import Size as Size
from flambeau.core.values.tensor import Tensor as Tensor
from flambeau.func import vmap as vmap
from flambeau.ops import *
from flambeau.random import default_generator as default_generator
from flambeau.random import get_rng_state as get_rng_state
from flambeau.random import initial_seed as initial_seed
from flambeau.random import manual_seed as manual_seed
from flambeau.random import seed as seed
from flambeau.random import set_rng_state as set_rng_state
from flambeau.random.generator import Generator as Generator
from flambeau.rare.tensor_types import *
from flambeau.version import __version__ as __version__
