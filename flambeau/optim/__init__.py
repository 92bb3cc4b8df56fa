"""Optimizers, learning rate schedulers and weight averaging, under PyTorch's names.

Promise: one program steps all parameters on the same devices, alone or inside a compiled step; an
interrupt leaves them before or after it. May import `core`, `ops`, `autograd`, `compile` and `nn`.

- `rule.py`: an optimizer is a rule, a function from a parameter, its gradient, its state and the
  group's numbers to the new parameter and state. `step_program.py` has the program.
- `groups.py`: the numbers of a group are a vector in a Cell, so a scheduler causes no
  recompilation.
- `precision.py`: a rule sees these numbers as in PyTorch's formulas: in double precision, so that
  1 − β₂ᵗ is right, and weakly typed, so that arrays keep their precision. Half precision is
  computed in single precision and rounded once. Complex numbers are pairs of real ones.
- `fused.py`: a rule names its native kernel by `by_kernel`. One call steps the parameters that fit,
  the rule steps the others.

`tests/conformance/test_optax.py` finds the rules that optax computes in the same way;
`tests/optim/test_beside_optax.py` compares them.
"""

from flambeau._absent import Absent as _Absent
from flambeau.optim import lr_scheduler, swa_utils
from flambeau.optim._adafactor import Adafactor
from flambeau.optim._muon import Muon
from flambeau.optim.adadelta import Adadelta
from flambeau.optim.adagrad import Adagrad
from flambeau.optim.adam import Adam
from flambeau.optim.adamax import Adamax
from flambeau.optim.adamw import AdamW
from flambeau.optim.asgd import ASGD
from flambeau.optim.lbfgs import LBFGS
from flambeau.optim.nadam import NAdam
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.radam import RAdam
from flambeau.optim.rmsprop import RMSprop
from flambeau.optim.rprop import Rprop
from flambeau.optim.sgd import SGD
from flambeau.optim.sparse_adam import SparseAdam
from flambeau.optim.stateless import swap_in_optimizer_params_and_state

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]

__getattr__: _Absent = _Absent(__name__)
