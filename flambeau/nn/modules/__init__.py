"""The layers, one file per family, under PyTorch's file names."""

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
from flambeau.nn.modules.module import Module as Module
from flambeau.nn.modules.normalization import *
from flambeau.nn.modules.padding import *
from flambeau.nn.modules.pixelshuffle import *
from flambeau.nn.modules.pooling import *
from flambeau.nn.modules.sparse import *
from flambeau.nn.modules.upsampling import *
