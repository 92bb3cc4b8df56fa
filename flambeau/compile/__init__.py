"""A Python function as one XLA program: the Cells it reads are inputs, those it writes outputs.

Promise: a compiled call has the results and effects of the eager call, and is never stale: a guard
compares everything that the trace has read. May import `core` and `ops`.

- `function.py` chooses the program of a call. `recording.py` is one trace, `program.py` the program
  that later calls run.
- `reading` notes what the function reads outside itself and which state it changes; `guarding`
  names places of values and compares them at each call; `outputs` writes the effects.
- A program repeats the effects that can be proved: writes to Cells, gradients, flags, hooks, modes,
  and attributes that are set to tensors, constants and new containers of these
  (`Recording._is_repeated`). All other state that the trace changes is compared with its state
  before and put back; a difference is a `SideEffectError`, and calls run eagerly.
- `answers.py`: a function that asks for values of tensors runs eagerly once. The next trace assumes
  the answers; its program overwrites nothing, and compares them before it writes.
- `recomputation.py`: activation checkpoints. The engine calls the trace's `before_pull` and
  `after_pull` around each node, and knows nothing else of them.
- `callbacks.py`: a program that calls Python donates nothing and holds no lock while it runs.
- `devices.py`: a program runs on one device; numbers and moved arrays are copied around the call.
- `ahead.py`: `flambeau.compiler.lower`, for tensors on the meta device.

Imports inside the function run for real. A `CompileError` names the user's line.
"""

from flambeau.compile.errors import CompileError
from flambeau.compile.function import CompiledFunction, compile

__all__ = ["CompileError", "CompiledFunction", "compile"]
