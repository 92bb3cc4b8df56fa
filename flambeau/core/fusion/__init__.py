"""The third gear of eager code: a sequence of calls that repeats becomes one program.

Every function that computes is called through `seam.fusible`. Each thread has a `stream.Stream`,
which notes the calls between two *boundaries*: a value that goes to the host, the step of an
optimizer, a compiled function. A sequence that has come back often enough is recorded (`sequence`)
and compiled on a thread. From then on its calls are *followed*: each is compared with the next
expected one and gives `deferred.Deferred` arrays, whose shapes and dtypes are known. At the
boundary one program computes those that are still referred to (`segment`), together with the step
of the optimizer if that ends the sequence (`closing`). Any other call ends the sequence early: the
calls that have waited run one by one.

Python runs every time, so nothing can be stale. Which calls wait follows from counts and shapes
alone. The rest of the package knows only that arrays may be `Deferred`, and calls `stream.boundary`
where it needs values.
"""
