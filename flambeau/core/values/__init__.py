"""Cells, Tensors and their views, and the traces that follow them.

Promise: a Cell is the only thing that changes. A Tensor is a handle on one, a view reads and writes
a part of its base's, and a trace notes each Cell that is read or written. Imports all folders
below, but neither `tape` nor `operators`.

- `cell.py`: each write is counted, for ``tensor._version``. On the meta device a Cell holds a shape
  and a dtype, and inside ``with device("meta")`` the plan that would compute them (`plan.py`).
- `tensor.py`, `history.py` (the place on the tape) and `host.py` (Python and other libraries) are
  the class Tensor. Its fields are slots (`attributes.py`); ``__dict__`` has the user's attributes.
- `view.py`, `steps.py`: a view is a chain of steps, each of which can be read and written. The
  start of a slice is data: ``x[i]`` for a thousand different ``i`` is one program. The part last
  read is cached until the Cell is written. `strides.py` decides where `reshape` copies.
- `memory.py`: addresses, and NumPy arrays that share the elements of a Cell. While one is alive,
  the Cell is a `LentCell`, which reads and writes their memory too.
- `inside.py`: the code runs inside a stack of blocks: transformations, the trace of a compiled
  function, `key_scope`. `Tensor._store` asks the innermost one `writer(cell, array)`: the answer is
  the trace that takes the write, ``None`` if the Cell takes it, or an error for a tensor from
  outside of a transformation.
- `trace.py`: reads of Cells are noted, writes go to the trace's own table. The state of each tensor
  that takes part is kept in a `Handle`, and the content of containers in `before.py`; both are
  restored at the end, so no tracer is left behind.
- `dual.py`: the tangents of tensors while a dual level is open.
"""
