"""Operators by native kernels, where XLA's code for CPUs is slower.

Each is a function of JAX arrays like any other: it has gradients of any order and batches. It says
which arguments it takes; for all others, and without the kernels, operators compute as they do
elsewhere. `flambeau.core.native` tells whether the kernels are there.
"""
