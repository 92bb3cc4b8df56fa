"""Kernels: pure functions of arrays with their gradients, tangents and types of results.

Promise: a kernel's gradient is a kernel, so derivatives of any order need no other mechanism.
Imports `support`, `programs` and `fusion`.

The forms of a `Kernel` (`kernel.py`), besides its function, which traces call:

- `forward`: the function as programs, through `fusion.seam`;
- `gradient`: a kernel of `jax.vjp` of the function, which takes the saved inputs and the
  cotangents. XLA removes the part of the recomputed forward that it does not need. A *linear*
  kernel saves shapes only; one with ``keep_residuals`` keeps JAX's residuals instead;
- `tangent`: a kernel of `jax.jvp`, which takes the inputs and the tangents of some of them;
- `on_meta`: `jax.eval_shape`, cached by shapes and dtypes.

PyTorch's type promotion (`promotion.py`) is computed from abstract values while a kernel is traced,
so eager calls do not pay for it: there Python numbers are JAX's weakly typed values, and tensors
never are. `kinds.py` has the kinds of an operator's parameters. A cotangent with one consumer is
computed in one program with the consumer's gradient (`lazy_cotangent.py`).
"""
