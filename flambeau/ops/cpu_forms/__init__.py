"""Forms of operators that exist only because XLA's CPU compiler of 2026 is slow at others.

Each asks `flambeau.core.compiler.cpu_forms`, so ``FLAMBEAU_CPU_FORMS=0`` turns all of them off, and
the operators are written as they are for accelerators. `benchmarks/cpu_forms.py` says what each one
gains, and with which version of JAX.
"""
