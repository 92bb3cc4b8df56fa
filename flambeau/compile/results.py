"""How a tensor that a compiled function returns or leaves somewhere is made at each call."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.core.tensor import Tensor
from flambeau.core.view import View


class Result(NamedTuple):
    """One tensor among what the function returned.

    Attributes:
        output: Its position among the program's outputs, or -1 for a tensor that existed before.
        argument: The position of the argument that it is, or -1.
        tensor: A tensor that existed before and is neither.
        slot: Where a tensor stands that existed before, and that may be another at each call.
        number: Which output of the program's node it is, `SPENT`, or ``None`` for a leaf.
        requires_grad: Whether it requires grad.
        cls: Its class.
        is_alias: Whether it is not that tensor, but another handle on the same elements.
        view: How an alias stands to that tensor, if it shows a part or another shape.
    """

    output: int = -1
    argument: int = -1
    tensor: Tensor | None = None
    slot: Any = None
    number: int | None = None
    requires_grad: bool = False
    cls: type = Tensor
    is_alias: bool = False
    view: View | None = None

    @property
    def is_new_handle(self) -> bool:
        """Whether each call makes a tensor of any class for it, perhaps on a Cell from outside."""
        return self.output >= 0 or self.is_alias
