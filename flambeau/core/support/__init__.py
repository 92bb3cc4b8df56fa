"""State of the process and the thread, dtypes, errors, and the private names of JAX.

Promise: nothing here knows a tensor. Imports no other folder of `core`.

- `modes.py` has the state of a thread: gradient recording, default device, the running trace.
- `world.py` counts the changes that guards rely on; `settings.py` tells a trace which settings of
  the process a function reads.
- `jax_private.py` holds every private name of JAX, each with its replacement.
- `higher.py` finds the few functions of higher modules that lower ones call.
- `errors.py` marks the exceptions that an operator raises on purpose.
- `generations.py` has dictionaries that drop unused entries; `statistics.py`, the counts of
  `flambeau.compiler.stats` and the progress line on the terminal.
"""
