"""PyTorch's module system, at the speed of XLA, without PyTorch."""

import jax as _jax

_jax.config.update("jax_enable_x64", True)

from flambeau.core.device import (
    device,
    get_default_device,
    set_default_device,
)
from flambeau.core.dtype import (
    bfloat16,
    bool,
    cdouble,
    cfloat,
    complex64,
    complex128,
    double,
    dtype,
    finfo,
    float,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    get_default_dtype,
    half,
    iinfo,
    int,
    int8,
    int16,
    int32,
    int64,
    long,
    set_default_dtype,
    short,
    uint8,
    uint16,
    uint32,
    uint64,
)
from flambeau.core.promotion import can_cast, promote_types
from flambeau.core.tensor import Size, Tensor
from flambeau.ops import *
from flambeau import autograd
from flambeau.autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

__version__ = "0.1.0"
