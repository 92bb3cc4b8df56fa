"""Tensors that the tape saves, kept in another form between forward and backward.

While hooks are set, nodes are recorded that give each saved tensor to the one, and ask the other
for it when they run. Other nodes know nothing of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from flambeau.core import tape
from flambeau.core.kernel import INEXACT, Kernel
from flambeau.core.modes import modes, no_grad
from flambeau.core.node import Edge
from flambeau.core.tensor import Tensor

#: Where the gradient of the first operand needs the second, which PyTorch therefore saves first.
_SECOND_FIRST = frozenset({
    "Atan2Backward0", "BmmBackward0", "DivBackward0", "FmaxBackward0", "FminBackward0",
    "HypotBackward0", "LinalgCrossBackward0", "Logaddexp2Backward0", "LogaddexpBackward0",
    "MaximumBackward0", "MinimumBackward0", "MmBackward0", "MulBackward0", "PowBackward1",
    "VdotBackward0", "XlogyBackward0",
})  # fmt: skip


class Hooks(NamedTuple):
    """A way of keeping saved tensors.

    Attributes:
        pack: Takes a tensor to save; gives the object to keep.
        unpack: Takes that and gives the tensor.
        region: The part of a traced program that they are for. Others say nothing to a program,
            which chooses by itself.
    """

    pack: Callable[[Tensor], Any]
    unpack: Callable[[Any], Tensor]
    region: Any = None


def hooks() -> Hooks | None:
    """The hooks in force here, if any."""
    found = modes.packing
    if found is None or (found.region is None) != (modes.trace is None):
        return None
    return found


class Packed:
    """A tensor in the form that hooks have given it.

    Args:
        hooks: The hooks.
        tensor: The tensor.

    Raises:
        RuntimeError: The hook has written to it.
    """

    __slots__ = ("kept", "unpack")

    def __init__(self, hooks: Hooks, tensor: Tensor) -> None:
        self.unpack: Any = hooks.unpack
        version = tensor._cell.version
        with no_grad():
            self.kept: Any = hooks.pack(tensor)
        if tensor._cell.version != version:
            raise RuntimeError(
                "the pack hook of saved tensors has written in place to the tensor of shape "
                f"{list(tensor.shape)} that it was to pack; write to a clone() of it"
            )

    def array(self) -> Any:
        """Its elements.

        Raises:
            TypeError: The hook has given no tensor.
        """
        with no_grad():
            tensor = self.unpack(self.kept)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"the unpack hook of a saved tensor must give a Tensor, got {type(tensor).__name__}"
            )
        return tensor._read()


class _Unused(NamedTuple):
    """An array that the gradient takes, but does not depend on."""

    shape: tuple[int, ...]
    dtype: Any

    def array(self) -> np.ndarray:
        """Something of this shape and dtype, which takes no memory."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)


class PackedNode:
    """The part of a kernel's node that keeps its arrays packed."""

    __slots__ = ()

    edges: tuple[Edge, ...]
    kernel: Kernel
    packed: tuple[Any, ...] | None
    residuals: tuple[Hooks, Any] | None

    @property
    def arrays(self) -> tuple[Any, ...] | None:
        """The arrays as the kernel took them."""
        if self.packed is None:
            return None
        arrays = list(self.packed)
        for place in self._order(arrays):
            if type(arrays[place]) in (Packed, _Unused):
                arrays[place] = arrays[place].array()
        return tuple(arrays)

    @arrays.setter
    def arrays(self, arrays: Any) -> None:
        if arrays is None:
            self.packed = None
            return
        hooks, packed = modes.packing, list(arrays)
        used = used_by_gradient(self.kernel, arrays, self.edges)
        for place in self._order(packed):
            # Of a linear kernel's inputs, shapes are kept rather than arrays.
            if not isinstance(packed[place], jax.Array):
                continue
            if used[place]:
                packed[place] = Packed(hooks, saved(packed[place], self.edges[place]))
            else:
                packed[place] = _Unused(packed[place].shape, packed[place].dtype)
        self.packed = tuple(packed)

    def _order(self, arrays: list[Any]) -> Iterable[int]:
        """The places of saved arrays as the hooks get them, one after the other."""
        places = range(len(arrays))
        is_turned = len(arrays) == 2 and type(self).__name__ in _SECOND_FIRST
        return reversed(places) if is_turned else places

    @property
    def vjp(self) -> Any:
        """JAX's residuals; the user's hooks get none of them, and keep nothing."""
        if self.residuals is None:
            return None
        hooks, vjp = self.residuals
        return jax.tree.map(lambda each: hooks.unpack(each)._read(), vjp)

    @vjp.setter
    def vjp(self, vjp: Any) -> None:
        hooks = modes.packing
        keeps = vjp is not None and hooks.region is not None
        self.residuals = (hooks, vjp) if keeps else None


def used_by_gradient(kernel: Kernel, arrays: Any, edges: tuple[Edge, ...]) -> tuple[bool, ...]:
    """Which of the arrays that a node saves its gradient depends on.

    That of ``2 * x`` does not depend on ``x``.
    """
    if kernel.linear:
        return (True,) * len(arrays)
    results = kernel.on_meta(tuple(arrays))
    results = results if isinstance(results, tuple) else (results,)
    given = tuple([each.dtype in INEXACT for each in results])
    needs = tuple([edge is not None for edge in edges])
    gradient, kept = kernel.gradient(needs, given, tuple(arrays))
    cotangents = [each for each in results if each.dtype in INEXACT]
    return gradient.used((*kept, *cotangents))


def saved(array: Any, edge: Edge) -> Tensor:
    """The tensor that an array was read from, or one like it."""
    if edge is not None and edge[0].accumulates:
        variable = edge[0].variable  # type: ignore[attr-defined]
        if variable._read() is array:
            return variable
    return tape.saved_tensor(array, edge)


@functools.cache
def _packed_class(name: str) -> type[tape.KernelNode]:
    members = {"__slots__": ("packed", "residuals"), "__module__": tape.__name__}
    return type(name, (PackedNode, tape.node_class(name)), members)


def node_class(kernel: Kernel) -> type[tape.KernelNode]:
    """The class of a kernel's nodes while hooks are set."""
    if hooks() is None:
        return tape.node_class(kernel.node_name)
    return _packed_class(kernel.node_name)
