"""The catalogue of operators. Importing it declares them and gives Tensor its methods."""

from flambeau.ops.arithmetic import *
from flambeau.ops.comparison import *
from flambeau.ops.conversion import *
from flambeau.ops.reduction import *
from flambeau.ops.creation import *
from flambeau.ops.from_data import *
from flambeau.ops.shape import *
from flambeau.ops.slicing import *
from flambeau.ops.views import *
