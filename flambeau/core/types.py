"""Names of types for signatures, which every folder of `core` may import.

Classes that have a name of their own appear under it: `jax.Array`, `numpy.ndarray`, `Cell`. Classes
of higher files, such as `Tensor`, are here for the files below them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import jax
import numpy as np

if TYPE_CHECKING:
    # Nothing of flambeau is imported at run time: the classes import this file.
    from jax.extend import core

    from flambeau.core.devices import device
    from flambeau.core.fusion import segment
    from flambeau.core.tape import engine, node, transform
    from flambeau.core.values import cell, dual, inside, tensor, trace, view

__all__: list[str] = []

Tensor: TypeAlias = "tensor.Tensor"
Cell: TypeAlias = "cell.Cell"
Node: TypeAlias = "node.Node"
View: TypeAlias = "view.View"
Trace: TypeAlias = "trace.Trace"
Block: TypeAlias = "inside.Block"
Segment: TypeAlias = "segment.Segment"
Backward: TypeAlias = "engine.Backward"
Capture: TypeAlias = "transform.Capture"
Tangent: TypeAlias = "dual.Tangent"
Level: TypeAlias = "dual.Level"
Size: TypeAlias = "tensor.Size"

#: The sizes of an array or a tensor.
Shape: TypeAlias = tuple[int, ...]
#: A dtype of NumPy's or JAX's, or any object that JAX takes for one.
DTypeLike: TypeAlias = jax.typing.DTypeLike
#: An array with elements, of JAX's or of NumPy's.
AnyArray: TypeAlias = jax.Array | np.ndarray
#: What a Cell holds: an array, or on the meta device a shape and a dtype.
Contents: TypeAlias = Any

#: A gradient on its way through the tape: an array, a `LazyCotangent`, a tensor, or ``None``.
Cotangent: TypeAlias = Any

#: A device of flambeau's, its name, or the index of an accelerator; ``None`` for the default.
DeviceLike: TypeAlias = "device.device | str | int | None"


class Aval(Protocol):
    """An abstract value: a shape and a dtype, and no elements."""

    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> np.dtype: ...


class JaxDevice(Protocol):
    """A device of JAX's, whose own class tells a type checker nothing."""

    id: int
    platform: str
    process_index: int
    device_kind: str
    client: Any


#: A program of JAX's, with its constants.
ClosedJaxpr: TypeAlias = "core.ClosedJaxpr"
#: A program of JAX's, whose constants are variables.
Jaxpr: TypeAlias = "core.Jaxpr"
#: An equation of a jaxpr.
JaxprEqn: TypeAlias = "core.JaxprEqn"
#: The operation of an equation.
Primitive: TypeAlias = "core.Primitive"

#: The structure of nested containers, as `jax.tree.flatten` gives it.
PyTreeDef: TypeAlias = Any
#: The key of a dictionary, of parts that compare and hash.
Key: TypeAlias = tuple[Any, ...]
#: Any function; its name in the code says what it takes and gives.
Function: TypeAlias = Callable[..., Any]
#: The positional arguments of a call.
Args: TypeAlias = tuple[Any, ...]
#: The keyword arguments of a call, by name.
Kwargs: TypeAlias = dict[str, Any]
#: A value that a walk through nested containers does not take apart.
Leaf: TypeAlias = Any
#: Nested containers with leaves of any type.
Tree: TypeAlias = Any
