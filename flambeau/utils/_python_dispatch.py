"""Names of `torch.utils._python_dispatch`, which packages look at.

There is no second dispatcher below functions: `flambeau.overrides.TorchFunctionMode` sees them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]


class TorchDispatchMode:
    """For ``isinstance`` and base classes; it cannot be entered."""

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __enter__(self) -> NoReturn:
        raise NotImplementedError(
            "there is no dispatcher below functions: use flambeau.overrides.TorchFunctionMode, "
            "which sees functions, or utils.flop_counter and profiler, which see operators"
        )

    def __exit__(self, *exception: object) -> None:
        pass


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor is made of others, by ``__tensor_flatten__``; none is here."""
    return False


def is_traceable_wrapper_subclass_type(t: Any) -> bool:
    """The same of a class."""
    return False


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> NoReturn:
    """For imports: a subclass's ``__torch_dispatch__`` would call it, and none is called.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        "there is no dispatcher below functions: give the subclass a __torch_function__"
    )


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a `TorchDispatchMode` is open: never."""
    return False


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """A block without dispatch modes, which are never open."""
    yield []


def _get_current_dispatch_mode() -> None:
    """The mode that is open: none."""


def _get_current_dispatch_mode_stack() -> list[Any]:
    return []
