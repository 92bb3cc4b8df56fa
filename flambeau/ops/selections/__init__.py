"""Elements selected by a mask in a compiled program: tensors of unknown length.

Promise: a `Selection` has the values and gradients of eager mode, or its use is a `CompileError`.

XLA's shapes are fixed, so ``x[mask]``, `masked_select` and `nonzero` keep all elements in *lanes*,
beside the mask (`selection.py`). One table (`rules.py`) has the treatment of lanes by each
operator: lane by lane, beside the lanes, over them, or with parameters that all rows share. An
operator that is not in the table is refused. Two Selections can be combined if their masks are the
same value: one tracer, or the same operations on the same inputs, as in ``x[x > 0] * y[x > 0]``.

The alternative, moving the selected elements to the front, computes as many elements and needs a
sort, a gather and a scatter besides. Lanes need one `where` at each end, which XLA fuses.
"""
