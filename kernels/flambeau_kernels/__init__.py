"""Native kernels for flambeau on CPUs.

flambeau finds this package when it is installed, and uses its kernels where XLA's own code for CPUs
is slower. ``FLAMBEAU_KERNELS=0`` in the environment switches them off.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["VERSION", "library"]

#: Of the interface between flambeau and the library: what a kernel's name means, and its arguments.
VERSION = 1


def library() -> Path:
    """The shared library, whose functions are handlers of XLA's foreign function interface."""
    return Path(__file__).with_name("libflambeau_kernels.so")
