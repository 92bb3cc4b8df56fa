"""The third gear of eager code: a sequence of calls that repeats becomes one program.

Promise: Python runs every time, so no result can be stale, and counts and shapes alone decide which
calls wait. The rest of the package knows only that arrays may be `Deferred`, and calls
`stream.boundary` where it needs values. Imports `support`, `devices` and `programs`.

Every function that computes is called through `seam.fusible`. Each thread has a `stream.Stream`,
which notes the calls between two *boundaries*: a value that goes to the host, the step of an
optimizer, a compiled function. A sequence that has come back often enough is recorded
(`recording.py`) and compiled on a thread (`sequence.py`). From then on its calls are *followed*:
each is compared with the next expected one (`matching.py`) and gives `Deferred` arrays, whose
shapes and dtypes are known. At the boundary one program computes those that are still referred to
(`segment.py`), together with the step of the optimizer if that ends the sequence (`closing.py`).
Any other call ends the sequence early: the calls that have waited run one by one.

A `Deferred` is a `jax.Array` for JAX and for `isinstance`. Any use of its elements computes it, so
a missing boundary costs a program, not a value. The known sequences are a prefix tree of
`sequence.Point`.
"""
