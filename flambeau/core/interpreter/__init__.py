"""Functions of arrays, evaluated with NumPy, primitive by primitive.

It promises what XLA's programs for the CPU promise, but for the last bits: the same shapes, dtypes
and weak types, and the same values up to rounding, for all inputs: NaN, infinities, numbers out of
range and empty arrays. A function with a primitive or dtype for which that does not hold has no
plan (`Unknown`), and is XLA's.

- `plan.py` makes a list of steps of a jaxpr, and runs it;
- `table.py` has the rules, one line a primitive, from `elementwise.py`, `arrangement.py`,
  `reduction.py`, `products.py` and `indexing.py`; `control.py` adds branches and loops;
- `work.py` estimates from shapes what NumPy and XLA's compiler take;
- `surroundings.py` sets the processor's state in which XLA's programs run.

It imports NumPy, parts of SciPy where they are met, public names of JAX, and `core/jax_core.py`.
`core/first_gear.py` decides which calls come here.
"""

from flambeau.core.interpreter import control as _control  # noqa: F401 - adds its rules
from flambeau.core.interpreter.equation import Unknown
from flambeau.core.interpreter.plan import FORMULAS, Plan, plan_of
from flambeau.core.interpreter.surroundings import is_known, run
from flambeau.core.interpreter.work import compiling

__all__ = ["FORMULAS", "Plan", "Unknown", "compiling", "is_known", "plan_of", "run"]
