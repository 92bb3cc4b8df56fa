"""Operators with native kernels, where XLA's code for CPUs is slower.

Promise: each is a function of JAX arrays with gradients of any order and a batching rule. Its
``takes`` decides which arguments it supports; for all others, and without the kernels, operators
use XLA. `flambeau.core.devices.native` shows whether the kernels are installed.

A convolution is a trilinear form (`ops/cpu_forms/trilinear.py`): each of its three kernels is the
gradient of the others. The other gradients are linear maps whose transpose is a kernel
(`derivative.py`, `ops/cpu_forms/linear_maps.py`); further derivatives use XLA's form.

Over several processes `call.py` divides a call by its samples; batch norm, whose statistics cover
all samples, is left to XLA there. A process with several CPU devices uses no kernel.
`kernels/README.md` describes the library.
"""
