"""The tape: nodes that record how tensors were computed, and the engine that runs them backwards.

Promise: a node keeps immutable arrays, so no later write can corrupt a gradient; hooks run where
PyTorch runs them; a backward that fails leaves gradients as they were. Imports all but `operators`.

- `nodes.py`: a `KernelNode` has a kernel and its saved inputs; `AccumulateGrad` ends the tape at a
  leaf. An in-place write gives the tensor the new node. A write to a view gives its base a
  `CopySlices` node, and every other view follows its base at its next use.
- `engine.py`: accumulators run as soon as their cotangents are complete, other nodes from the
  newest to the oldest. Cotangents are arrays; they are Tensors if gradients are recorded.
- `gradient_hooks.py` calls the hooks of tensors and nodes; `packing.py`, those of saved tensors.
- `accumulated.py` notes the changes of gradients, and undoes them after an exception.
- `transform.py`: inside `vmap` or `jvp`, a `Capture` replaces captured tensors that require grad;
  the transformation as a whole is one node.
- `forward.py`: while a dual level is open, a kernel's tangent runs after the kernel if an input has
  a tangent. Tangents are computed by kernels, so they have gradients. The tangent of a view is a
  view of its base's tangent, and an in-place write also writes the tangent: neither needs a rule.
"""
