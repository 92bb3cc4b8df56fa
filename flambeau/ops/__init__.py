"""The catalogue of operators. Importing it declares them and gives Tensor its methods."""

import sys
import types
from importlib import import_module as _import_module
from typing import Any as _Any

from flambeau.ops.arithmetic import *
from flambeau.ops.comparison import *
from flambeau.ops.complex_numbers import *
from flambeau.ops.conversion import *
from flambeau.ops.counting import *
from flambeau.ops.creation import *
from flambeau.ops.cumulative import *
from flambeau.ops.differences import *
from flambeau.ops.dimension_order import *
from flambeau.ops.extremum import *
from flambeau.ops.from_data import *
from flambeau.ops.gathering import *
from flambeau.ops.index_writes import *
from flambeau.ops.indexing import *
from flambeau.ops.logic import *
from flambeau.ops.matrices.factorization import *
from flambeau.ops.matrices.linalg import *
from flambeau.ops.matrices.matrix_functions import *
from flambeau.ops.matrices.norms import *
from flambeau.ops.matrices.solving import *
from flambeau.ops.neural.activation import *
from flambeau.ops.neural.convolution import *
from flambeau.ops.neural.distance import *
from flambeau.ops.neural.embedding import *
from flambeau.ops.neural.folding import *
from flambeau.ops.neural.grids import *
from flambeau.ops.neural.loss import *
from flambeau.ops.neural.margin_loss import *
from flambeau.ops.neural.normalization import *
from flambeau.ops.neural.padding import *
from flambeau.ops.neural.pooling import *
from flambeau.ops.neural.recurrent import *
from flambeau.ops.neural.regression_loss import *
from flambeau.ops.neural.resampling import *
from flambeau.ops.neural.softmax import *
from flambeau.ops.pointwise import *
from flambeau.ops.powers import *
from flambeau.ops.quantile import *
from flambeau.ops.questions import *
from flambeau.ops.ranges import *
from flambeau.ops.redrawing import *
from flambeau.ops.reduction import *
from flambeau.ops.repetition import *
from flambeau.ops.sampling import *
from flambeau.ops.scattering import *
from flambeau.ops.selection import *
from flambeau.ops.shape import *
from flambeau.ops.slicing import *
from flambeau.ops.sorting import *
from flambeau.ops.special import *
from flambeau.ops.splitting import *
from flambeau.ops.statistics import *
from flambeau.ops.turning import *
from flambeau.ops.views import *

# A star takes a package's files along, and some of them are called as PyTorch calls other things.
__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    name
    for name, value in vars().items()
    if name[0] != "_" and not isinstance(value, types.ModuleType)
]


class _Namespaces:
    """The module's `__getattr__`: namespaces of custom operators."""

    def __call__(self, name: str) -> _Any:
        if name == "load_library":
            return _import_module("flambeau.library.compiled").load_library
        # Code that has defined an operator has imported the library.
        if name[0] != "_" and (name == "aten" or "flambeau.library" in sys.modules):
            found = _import_module("flambeau.library.registry").namespace(name)
            if found is not None:
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__getattr__: _Namespaces = _Namespaces()
