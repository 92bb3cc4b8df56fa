"""Tensors spread over processes, by their name: programs ask whether a parameter is one."""

from __future__ import annotations

from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau._absent import advice_for as _advice_for
from flambeau.core.tensor import Tensor

__all__ = ["DTensor"]

__getattr__ = _Absent(__name__)


class DTensor(Tensor):
    """A tensor of which each process has a part; nothing is one.

    Raises:
        NotImplementedError: One is made.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> DTensor:
        """Say how tensors are spread over devices."""
        raise NotImplementedError(_advice_for("distributed.tensor.distribute_tensor"))

    @classmethod
    def from_local(cls, *args: Any, **kwargs: Any) -> DTensor:
        """Fail as the class does."""
        return cls()
