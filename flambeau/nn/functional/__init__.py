"""`torch.nn.functional`: the layers as functions, under PyTorch's names and with its arguments."""

from flambeau._absent import Absent as _Absent

# Users' packages import functions from here.
from flambeau.core.operators.overrides import handle_torch_function as handle_torch_function
from flambeau.core.operators.overrides import has_torch_function as has_torch_function
from flambeau.core.operators.overrides import has_torch_function_unary as has_torch_function_unary
from flambeau.core.operators.overrides import (
    has_torch_function_variadic as has_torch_function_variadic,
)
from flambeau.nn.functional.activation import *
from flambeau.nn.functional.attention import *
from flambeau.nn.functional.convolution import *
from flambeau.nn.functional.ctc import *
from flambeau.nn.functional.distance import *
from flambeau.nn.functional.loss import *
from flambeau.nn.functional.margin_loss import *
from flambeau.nn.functional.normalization import *
from flambeau.nn.functional.pooling import *
from flambeau.nn.functional.products import *
from flambeau.nn.functional.regression_loss import *
from flambeau.nn.functional.regularization import *
from flambeau.nn.functional.sparse import *
from flambeau.nn.functional.unpooling import *
from flambeau.nn.functional.vision import *

__getattr__ = _Absent(__name__)
