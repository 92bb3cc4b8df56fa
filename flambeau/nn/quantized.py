"""Operators as modules, for models that PyTorch quantizes."""

from __future__ import annotations

from typing import NoReturn

from flambeau._absent import Absent as _Absent
from flambeau.core.values.tensor import Tensor
from flambeau.nn.functional import relu
from flambeau.nn.module import Module
from flambeau.nn.modules.linear import Identity
from flambeau.ops.shapes.shape import cat

__all__ = ["FloatFunctional"]

__getattr__: _Absent = _Absent(__name__)


class FloatFunctional(Module):
    """Operators whose results pass through a module, `activation_post_process`.

    PyTorch assigns an observer of the results; here it is an identity until a program assigns
    another module.

    >>> import flambeau
    >>> from flambeau.nn.quantized import FloatFunctional
    >>> FloatFunctional().add_relu(flambeau.tensor([-2.0, 2.0]), flambeau.ones(2))
    tensor([0., 3.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process: Identity = Identity()

    def forward(self, x: object) -> NoReturn:
        """Raise an error: an operator is called by its name.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("FloatFunctional is not called itself; call one of its operators")

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """``x + y``."""
        return self.activation_post_process(x + y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """``x + y``, which does not pass through the module."""
        return x + y

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """``x * y``."""
        return self.activation_post_process(x * y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """``x * y``, which does not pass through the module."""
        return x * y

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """The concatenated tensors."""
        return self.activation_post_process(cat(x, dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """``relu(x + y)``."""
        return self.activation_post_process(relu(x + y))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """``x @ y``."""
        return self.activation_post_process(x @ y)
