"""Where a program finds its values, and what must be unchanged for it to run.

A `where.Where` is the place of a value at a call: an argument, a gradient, an attribute, a member
of a tuple, a result, or a tensor that is always the same. `places.py` adds globals, closures and
attributes of modules. A place gets and sets its value, and writes itself as Python. A program looks
up an object that may be another one at each call, such as a ``.grad``; it is bound to all others.

- `arguments.py`, `structure.py`: arguments are taken apart in the caller's order; their gradients
  are leaves too.
- `guard.py` compares the values outside of the arguments. Places whose changes increment a counter
  (`core/support/world.py`) are compared only after a change; all others, and the contents of
  containers, at each call.
- `numbers.py`: Python numbers on whose values a program does not depend.
- `checks.py` compares arguments and values that the program looks up; `sharing.py`, which of them
  share elements.
- `explaining.py` has the same comparison as text: each term with its value at the trace and now.
"""
