"""The types of `compile`: what it returns keeps the signature of what it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class ModuleLike(Protocol):
    """A module, as this room sees it."""

    training: bool

    @property
    def forward(self) -> Any:
        """Its computation."""
        ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


M = TypeVar("M", bound=ModuleLike)


class Compiled(Protocol[P, R_co]):
    """A compiled function of the parameters ``P`` and the result ``R_co``."""

    @property
    def program_count(self) -> int:
        """The number of programs in memory."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def __get__(self, instance: Any, owner: Any = None) -> Callable[..., R_co]: ...

    def __getattr__(self, name: str) -> Any: ...


class Compiling(Protocol):
    """The decorator that `compile` returns if it is given options only."""

    @overload
    def __call__(self, function: M) -> M: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Compiled[P, R]: ...
    def __call__(self, function: Any) -> Any:
        """The compiled ``function``."""
        ...
