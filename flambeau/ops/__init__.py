"""The catalogue of operators. Importing it declares them and gives Tensor its methods."""

from flambeau.ops.activation import *
from flambeau.ops.arithmetic import *
from flambeau.ops.comparison import *
from flambeau.ops.conversion import *
from flambeau.ops.convolution import *
from flambeau.ops.creation import *
from flambeau.ops.embedding import *
from flambeau.ops.from_data import *
from flambeau.ops.linalg import *
from flambeau.ops.logic import *
from flambeau.ops.loss import *
from flambeau.ops.normalization import *
from flambeau.ops.pointwise import *
from flambeau.ops.pooling import *
from flambeau.ops.powers import *
from flambeau.ops.reduction import *
from flambeau.ops.shape import *
from flambeau.ops.slicing import *
from flambeau.ops.softmax import *
from flambeau.ops.views import *
