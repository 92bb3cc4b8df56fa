"""Names of PyTorch's builder of extensions in C++ and CUDA, which cannot be built against flambeau.

Packages that only refer to these names, or fall back on Python if a build fails, can be imported.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from typing import Any, NoReturn

from flambeau._absent import Absent as _Absent

__all__ = [
    "BuildExtension", "CUDAExtension", "CppExtension", "SyclExtension", "include_paths",
    "is_ninja_available", "library_paths", "load", "load_inline",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)

#: The location of the GPU compiler, which packages look up; it does not exist here.
CUDA_HOME: str | None = None
ROCM_HOME: str | None = None
CUDNN_HOME: str | None = None
ROCM_VERSION: tuple[int, int] | None = None
IS_HIP_EXTENSION = False
IS_WINDOWS: bool = sys.platform == "win32"
IS_MACOS: bool = sys.platform.startswith("darwin")
IS_LINUX: bool = sys.platform.startswith("linux")


class BuildExtension:
    """Cannot be constructed.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse()

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """The class itself."""
        return cls


def CppExtension(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to describe an extension.

    Raises:
        NotImplementedError: Always.
    """
    _refuse(name)


def load(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to build and import an extension.

    Raises:
        NotImplementedError: Always.
    """
    _refuse(name)


CUDAExtension = SyclExtension = CppExtension
load_inline = load


def include_paths(*args: Any, **kwargs: Any) -> list[str]:
    """An empty list: there are no headers."""
    return []


def library_paths(*args: Any, **kwargs: Any) -> list[str]:
    """An empty list: there are no libraries."""
    return []


def is_ninja_available() -> bool:
    """Whether the program ``ninja`` is installed."""
    return shutil.which("ninja") is not None or importlib.util.find_spec("ninja") is not None


def _refuse(name: str | None = None) -> NoReturn:
    raise NotImplementedError(
        f"the extension {name or 'in C++'} cannot be built: flambeau has none of PyTorch's C++ "
        "interface. Write the operator with flambeau.library.custom_op or autograd.Function, which "
        "may compute with JAX; a kernel in C++ is called by jax.ffi.ffi_call"
    )
