"""Functions of arrays, evaluated with NumPy, primitive by primitive.

Promise: for all inputs the results have the shapes, dtypes and weak types that XLA's programs for
the CPU give, and their values up to rounding; inputs with NaN, infinities, numbers out of range and
empty arrays are included. A function with a primitive or dtype for which that does not hold has no
plan (`Unknown`), and XLA compiles it.

- `plan.py` turns a jaxpr into a list of steps without unused ones, and runs it;
- `table.py` has the rules, one line a primitive, from `elementwise.py`, `arrangement.py`,
  `reduction.py`, `products.py` and `indexing.py`; `control.py` adds branches and loops. A rule
  binds the parameters and shapes of an equation once, and gives a function of NumPy arrays. A
  primitive of flambeau's own has a formula in `FORMULAS` instead;
- `record.py` records arithmetic with numbers, to repeat it with others; `sizes.py` has sizes that
  stand for any size, and `template.py` plans in which some sizes are open;
- `work.py` estimates from shapes how long NumPy and XLA's compiler take;
- `surroundings.py` sets the processor's state in which XLA's programs run.

Imports NumPy, SciPy on first use, public names of JAX, and `core/support/jax_core.py`; it knows no
operator of flambeau. `core/programs/first_gear.py` decides which calls come here.
"""

from flambeau.core.interpreter import control as _control  # noqa: F401 - adds its rules
from flambeau.core.interpreter.equation import Unknown
from flambeau.core.interpreter.plan import FORMULAS, Plan, plan_of
from flambeau.core.interpreter.sizes import Record, Size, sizes_of
from flambeau.core.interpreter.surroundings import is_known, run
from flambeau.core.interpreter.template import Template, are_equal

__all__ = [
    "FORMULAS", "Plan", "Record", "Size", "Template", "Unknown", "are_equal", "is_known",
    "plan_of", "run", "sizes_of",
]  # fmt: skip
