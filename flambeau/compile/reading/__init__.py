"""The notes of a trace on the code that runs: its reads outside, and its changes of state.

Promise: a value from outside is noted with its state before the function can change it, whichever
way the function reads it.

- `watching.py` is the trace that holds the notes.
- `interception.py` hooks into Python: classes announce reads and assignments of attributes, and
  functions their start. `reads.py` notes attributes when they are read, `reads_by_name.py` the
  globals and closures that a starting function names. Objects that cannot announce reads, such as
  classes and namespaces, are watched by the names in the code that ran (`names.py`).
- `discovery.py` follows objects from outside. An object is outside if a place outside led to it, so
  objects that the function makes for itself are never watched.
- `members.py`, `own_state.py`, `caches.py`: changes of modules' tables, of flambeau's own objects,
  and of caches of `functools`. `leftovers.py` finds tensors of the trace that outlive it.
- `printing.py` keeps what the function prints; each call prints it again.
- `chance.py`: a program cannot repeat clocks, iterators, files and foreign random numbers.
  Stand-ins refuse them before anything is used up, and positions are restored.
"""
