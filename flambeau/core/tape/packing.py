"""Saved tensors in another form between forward and backward: `saved_tensors_hooks`.

While hooks are set, nodes are recorded that pass each saved tensor to the pack hook, and call the
unpack hook when they run. Other nodes are not affected.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from flambeau.core.kernels.kernel import INEXACT, Kernel
from flambeau.core.support.modes import modes, no_grad
from flambeau.core.tape import nodes as tape
from flambeau.core.tape.node import Edge
from flambeau.core.values.tensor import Tensor

#: Operators whose gradient for the first operand needs the second, which PyTorch therefore saves
#: first.
_SECOND_FIRST = frozenset({
    "Atan2Backward0", "BmmBackward0", "DivBackward0", "FmaxBackward0", "FminBackward0",
    "HypotBackward0", "LinalgCrossBackward0", "Logaddexp2Backward0", "LogaddexpBackward0",
    "MaximumBackward0", "MinimumBackward0", "MmBackward0", "MulBackward0", "PowBackward1",
    "VdotBackward0", "XlogyBackward0",
})  # fmt: skip


class Hooks(NamedTuple):
    """A pair of hooks for saved tensors.

    Attributes:
        pack: A function of a tensor to save that returns the object to keep.
        unpack: A function of this object that returns the tensor.
        region: The part of a traced program that they apply to. Without it they do not affect a
            program, which chooses what to save.
    """

    pack: Callable[[Tensor], Any]
    unpack: Callable[[Any], Tensor]
    region: Any = None


def hooks() -> Hooks | None:
    """The active hooks, if any."""
    found = modes.packing
    if found is None or (found.region is None) != (modes.trace is None):
        return None
    return found


class Packed:
    """A tensor in the form that hooks returned.

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
    """An array that the gradient takes as an argument but does not depend on."""

    shape: tuple[int, ...]
    dtype: Any

    def array(self) -> np.ndarray:
        """A value of this shape and dtype that takes no memory."""
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
        """The arrays in their original form."""
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
            # For a linear kernel's inputs, shapes are kept rather than arrays.
            if not isinstance(packed[place], jax.Array):
                continue
            if used[place]:
                packed[place] = Packed(hooks, saved(packed[place], self.edges[place]))
            else:
                packed[place] = _Unused(packed[place].shape, packed[place].dtype)
        self.packed = tuple(packed)

    def _order(self, arrays: list[Any]) -> Iterable[int]:
        """The places of saved arrays in the order in which the hooks get them."""
        places = range(len(arrays))
        is_turned = len(arrays) == 2 and type(self).__name__ in _SECOND_FIRST
        return reversed(places) if is_turned else places

    @property
    def vjp(self) -> Any:
        """JAX's residuals; the user's hooks do not see them."""
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
    """Which of a node's saved arrays its gradient depends on.

    The gradient of ``2 * x`` does not depend on ``x``.
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
    """The tensor that an array was read from, or an equal one."""
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
