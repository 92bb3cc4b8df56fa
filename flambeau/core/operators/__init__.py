"""The declaration of operators, and the path of a call: unwrap, compute, wrap, record.

Promise: an operator is one pure function of arrays, from which its function, method, in-place form
and gradient follow. Imports all other folders of `core`.

- `op.py`: annotations are the kinds of parameters. An `Operand` takes part in type promotion, an
  `Array` is a tensor as it is, `Arrays` a sequence of them; any other parameter is static and its
  type is checked. An annotation of no kind is an error at the declaration.
- `dispatch.py`: `run` handles plain tensors and numbers. Traces, the meta device, autocast, dual
  levels and other operands take `_run_general`. An exception of JAX, NumPy or Python inside an
  operator becomes a RuntimeError with the operands, unless the operator raised it on purpose.
- `writing.py`: an in-place result is computed and recorded out of place, then put into the target
  together with its history. `viewing.py` makes views, and recomputes their history.
- `companions.py`: operands are on one device; a 0-d CPU tensor follows the others. The check is
  skipped in a process that has asked for no device but the CPU.
- `overrides.py`, `function_modes.py`: ``__torch_function__``, for subclasses and for modes.
"""
