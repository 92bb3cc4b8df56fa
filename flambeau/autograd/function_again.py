"""Second derivatives through the tensors that a custom Function's forward computes and saves.

Forward is not recorded, so such a tensor would be a constant in a recorded backward. If a gradient
reaches it there, forward runs again, recorded.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from flambeau.autograd.backward import grad
from flambeau.core.devices.layout import strided
from flambeau.core.kernels.kernel import INEXACT
from flambeau.core.support.modes import enable_grad
from flambeau.core.tape import nodes as tape
from flambeau.core.tape.node import Edge, Node
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.known import is_unknown
from flambeau.random import fork_rng


class Again(Node):
    """The node of a tensor that forward computed and saved.

    Args:
        name: The Function's name, for messages.
        forward: Returns the tensors that forward saves for arguments like the call's.
        args: The arguments of the call; a weak reference to each Tensor that the call does not keep
            otherwise.
        edges: The edge of each Tensor among them.
        place: The index among the saved tensors.

    Attributes:
        array: Its elements, once they have been unpacked.
    """

    __slots__ = ("args", "array", "forward", "function", "place")

    def __init__(
        self,
        name: str,
        forward: Callable[[Sequence[Any]], Sequence[Any]],
        args: Sequence[Any],
        edges: tuple[Edge, ...],
        place: int,
    ) -> None:
        super().__init__(edges)
        self.function: str = name
        self.forward: Callable[[Sequence[Any]], Sequence[Any]] = forward
        self.place: int = place
        self.args: Sequence[Any] = args
        self.array: Any = None

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`."""
        (cotangent,) = cotangents
        if cotangent is None:
            return [None] * len(self.edges)
        with enable_grad(), fork_rng():
            args = [each.clone() if isinstance(each, Tensor) else each for each in self._args()]
            saved = self.forward(args)[self.place]
            inputs = [each for each in args if isinstance(each, Tensor)]
            if not isinstance(saved, Tensor) or not saved.requires_grad:
                # It does not depend on the arguments.
                return [None] * len(self.edges)
            self._check(saved)
            wanted = [each for each in inputs if each.requires_grad]
            given = cotangent if as_tensors else Tensor._wrap(cotangent)
            found = iter(grad(saved, wanted, given, create_graph=as_tensors, allow_unused=True))
        pulled = [next(found) if each.requires_grad else None for each in inputs]
        return pulled if as_tensors else [each if each is None else each._read() for each in pulled]

    def _args(self) -> list[Any]:
        args = [each() if isinstance(each, weakref.ref) else each for each in self.args]
        tensors = [each for each in args if isinstance(each, Tensor)]
        # The same number of tensors as before, none of them overwritten.
        if [tape.edge_of(each) for each in tensors] != [*self.edges]:
            raise self._error("an argument of forward is not there any more, or was written to")
        return args

    def _check(self, saved: Tensor) -> None:
        array = saved._read()
        if is_unknown(array) or is_unknown(self.array):
            return
        if not _is_near(np.asarray(array), np.asarray(self.array)):
            raise self._error("forward computes other numbers when it runs again")

    def _error(self, reason: str) -> RuntimeError:
        return RuntimeError(
            f"{self.function}: a second derivative depends on saved tensor {self.place} of shape "
            f"{list(self.array.shape)}, which forward computed without recording it, and {reason}; "
            "return it from forward too, compute it in backward from saved arguments, or detach() "
            "it there if it is a constant"
        )

    def tensor(self, array: Any) -> Tensor:
        """The saved tensor, with this node as its history."""
        self.array = array
        return tape.saved_tensor(array, (self, 0))


def _is_near(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether two arrays are equal up to rounding, which may differ between gears."""
    close = float(jnp.finfo(left.dtype).eps) ** 0.5
    wide = np.complex128 if left.dtype.kind == "c" else np.float64
    left, right = left.astype(wide), right.astype(wide)
    sizes = np.abs(right[np.isfinite(right)])
    return np.allclose(left, right, close, close * float(sizes.max(initial=0)), equal_nan=True)


def needs_history(tensor: Tensor, args: Sequence[Any]) -> bool:
    """Whether a tensor that forward saves may depend on the arguments without a history."""
    if tensor.layout is not strided or tape.edge_of(tensor) is not None:
        return False
    if tensor._cell.array.dtype not in INEXACT:
        return False
    return not any(each is tensor for each in args)
