"""The version of the package: the one place where it is written.

The build reads it from here, and `flambeau.__version__` is this name.
"""

__version__ = "0.1.0"

#: The versions of CUDA and ROCm of the build: neither, since JAX brings its own.
cuda: str | None = None
hip: str | None = None
