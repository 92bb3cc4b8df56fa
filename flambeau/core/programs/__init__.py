"""The second gear: functions of arrays as XLA's programs, in memory and on disk.

Promise: one program for each function and signature, bounded in number, found again by the next
process; a program that overwrites its inputs loses no value. Imports `support`, `interpreter` and
`devices`.

- `compiled.py` makes the functions. A call whose program is in memory takes JAX's C++ path
  (`jit_core.py`); all others come to `_Misses`. The functions share one cache, the least recently
  used program first out.
- On disk (`store.py`, `executables.py`) the key of a program is a description of its function
  (`description.py`: the names of the code and the values bound to it), the types and device of the
  arguments, JAX's settings, versions, XLA's flags, the machine, and a digest of flambeau's files
  (`sources.py`). It needs neither tracing nor lowering. A function that reaches the user's code has
  no description; its key is the lowered program.
- `read_ahead.py` loads the programs of a script's last run on a thread. They are found by the same
  keys, so no result depends on it.
- `first_gear.py` evaluates the first calls at a signature with NumPy; `any_sizes.py` does so at
  sizes that were never traced; `gears.py` has the limits of both gears.
- `cutting.py` puts barriers into programs for CPUs, where XLA would recompute a value in each
  operation that uses it.
- `finishing.py` runs programs that overwrite their inputs: an interrupt leaves the state of before
  or after the call, and other threads never read half a step.

A function of arrays binds all that it depends on, or adds it to the key: `_key` and `_environment`
in `compiled.py`, `context` in `jit_core.py`. A function of JAX's or flambeau's that is patched
inside an operator is not noticed.
"""
