"""The layers, one file per family, under PyTorch's file names.

A layer uses Tensors and `nn.functional` only. It looks up its function by name at each call, so a
patched function takes effect, in compiled functions too; a convolution's is bound in its class.
PyTorch's signatures and its one-, two- and three-dimensional variants are spelled out.
"""

from flambeau.nn.modules import (
    activation,
    adaptive,
    batchnorm,
    channelshuffle,
    container,
    conv,
    distance,
    dropout,
    flatten,
    fold,
    instancenorm,
    linear,
    linear_cross_entropy_options,
    loss,
    normalization,
    padding,
    pixelshuffle,
    pooling,
    rnn,
    sparse,
    transformer,
    upsampling,
)
from flambeau.nn.modules.activation import *
from flambeau.nn.modules.adaptive import *
from flambeau.nn.modules.batchnorm import *
from flambeau.nn.modules.channelshuffle import *
from flambeau.nn.modules.container import *
from flambeau.nn.modules.conv import *
from flambeau.nn.modules.distance import *
from flambeau.nn.modules.dropout import *
from flambeau.nn.modules.flatten import *
from flambeau.nn.modules.fold import *
from flambeau.nn.modules.instancenorm import *
from flambeau.nn.modules.linear import *
from flambeau.nn.modules.linear_cross_entropy_options import *
from flambeau.nn.modules.loss import *
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.normalization import *
from flambeau.nn.modules.padding import *
from flambeau.nn.modules.pixelshuffle import *
from flambeau.nn.modules.pooling import *
from flambeau.nn.modules.rnn import *
from flambeau.nn.modules.sparse import *
from flambeau.nn.modules.transformer import *
from flambeau.nn.modules.upsampling import *

__all__ = ["Module"]
__all__ += activation.__all__
__all__ += adaptive.__all__
__all__ += batchnorm.__all__
__all__ += channelshuffle.__all__
__all__ += container.__all__
__all__ += conv.__all__
__all__ += distance.__all__
__all__ += dropout.__all__
__all__ += flatten.__all__
__all__ += fold.__all__
__all__ += instancenorm.__all__
__all__ += linear.__all__
__all__ += linear_cross_entropy_options.__all__
__all__ += loss.__all__
__all__ += normalization.__all__
__all__ += padding.__all__
__all__ += pixelshuffle.__all__
__all__ += pooling.__all__
__all__ += rnn.__all__
__all__ += sparse.__all__
__all__ += transformer.__all__
__all__ += upsampling.__all__
