"""The catalogue of operators. Importing it declares them and gives Tensor its methods.

Promise: an operator is a declaration, a function of JAX arrays with PyTorch's signature; nothing
here knows a module. May import `core`, `random` and `return_types`.

- `elementwise`, `reductions`, `shapes`, `indices`, `factories`, `draws`, `matrices` and `signals`
  are the operators of the namespace and the methods of Tensor, by kind.
- `neural` has those of layers, for `nn.functional`. They are as large as PyTorch's layers: an LSTM
  is one operator.
- `cpu_forms` and `native` have equivalent forms for CPUs. A form that is faster on some machines
  only checks `core.devices.compiler`.
- `selections`: the results of masks in compiled functions, whose length is unknown.
- `common` has their helpers.
"""

import sys
import types
from typing import Any as _Any

from flambeau.core.support.higher import higher as _higher
from flambeau.ops.draws.redrawing import *
from flambeau.ops.draws.sampling import *
from flambeau.ops.elementwise.arithmetic import *
from flambeau.ops.elementwise.comparison import *
from flambeau.ops.elementwise.complex_numbers import *
from flambeau.ops.elementwise.logic import *
from flambeau.ops.elementwise.pointwise import *
from flambeau.ops.elementwise.powers import *
from flambeau.ops.elementwise.selection import *
from flambeau.ops.elementwise.special import *
from flambeau.ops.factories.conversion import *
from flambeau.ops.factories.creation import *
from flambeau.ops.factories.from_data import *
from flambeau.ops.factories.questions import *
from flambeau.ops.factories.ranges import *
from flambeau.ops.indices.gathering import *
from flambeau.ops.indices.index_writes import *
from flambeau.ops.indices.indexing import *
from flambeau.ops.indices.scattering import *
from flambeau.ops.matrices.factorization import *
from flambeau.ops.matrices.linalg import *
from flambeau.ops.matrices.matrix_functions import *
from flambeau.ops.matrices.norms import *
from flambeau.ops.matrices.solving import *
from flambeau.ops.neural.activation import *
from flambeau.ops.neural.embedding import *
from flambeau.ops.neural.losses.distance import *
from flambeau.ops.neural.losses.loss import *
from flambeau.ops.neural.losses.margin_loss import *
from flambeau.ops.neural.losses.regression_loss import *
from flambeau.ops.neural.normalization import *
from flambeau.ops.neural.sequences.recurrent import *
from flambeau.ops.neural.softmax import *
from flambeau.ops.neural.spatial.convolution import *
from flambeau.ops.neural.spatial.folding import *
from flambeau.ops.neural.spatial.grids import *
from flambeau.ops.neural.spatial.padding import *
from flambeau.ops.neural.spatial.pooling import *
from flambeau.ops.neural.spatial.resampling import *
from flambeau.ops.reductions.counting import *
from flambeau.ops.reductions.cumulative import *
from flambeau.ops.reductions.differences import *
from flambeau.ops.reductions.extremum import *
from flambeau.ops.reductions.quantile import *
from flambeau.ops.reductions.reduction import *
from flambeau.ops.reductions.sorting import *
from flambeau.ops.reductions.statistics import *
from flambeau.ops.shapes.dimension_order import *
from flambeau.ops.shapes.repetition import *
from flambeau.ops.shapes.shape import *
from flambeau.ops.shapes.slicing import *
from flambeau.ops.shapes.splitting import *
from flambeau.ops.shapes.turning import *
from flambeau.ops.shapes.views import *

# A star import also imports submodule names, some of which collide with PyTorch's functions.
__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    name
    for name, value in vars().items()
    if name[0] != "_" and not isinstance(value, types.ModuleType)
]


class _Namespaces:
    """The module's `__getattr__`: namespaces of custom operators."""

    def __call__(self, name: str) -> _Any:
        if name == "load_library":
            return _higher("flambeau.library.compiled.load_library")
        # Code that has defined an operator has already imported the library.
        if name[0] != "_" and (name == "aten" or "flambeau.library" in sys.modules):
            found = _higher("flambeau.library.registry.namespace")(name)
            if found is not None:
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__getattr__: _Namespaces = _Namespaces()
