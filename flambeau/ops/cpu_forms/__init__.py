"""Alternative forms of operators for which XLA's CPU compiler of 2026 is slow.

Each checks `core.devices.compiler.cpu_forms`, so ``FLAMBEAU_CPU_FORMS=0`` turns all of them off,
and operators take the forms for accelerators. `benchmarks/cpu_forms.py` measures the gain of each
form, with the version of JAX.
"""
