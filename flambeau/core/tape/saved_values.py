"""The saved tensors of a node, as its attributes: ``_saved_self``, ``_raw_saved_self`` and others.

An operator's node has an attribute for each parameter of the operator, the first being ``self``,
and ``_saved_result``, which is computed on access. A raw attribute takes hooks for its value, as
`saved_tensors_hooks` does for all values. The gradient does not use the result: hooks pack it for
``_saved_result`` only, after the arrays that the gradient takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from flambeau.core.kernels.kernel import Kernel
from flambeau.core.tape import nodes as tape
from flambeau.core.tape import packing
from flambeau.core.values.tensor import Tensor


class SavedTensor:
    """One tensor that a node has saved.

    Args:
        owner: The object that keeps it, with a method ``hook_saved(place, hooks)``.
        place: The place in this object.
    """

    def __init__(self, owner: Any, place: int) -> None:
        self._owner = owner
        self._place = place

    def register_hooks(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        """Store the result of ``pack_hook``; backward restores it by ``unpack_hook``.

        Args:
            pack_hook: Takes the tensor, which it must not write to; called now.
            unpack_hook: A function of the result of ``pack_hook`` that returns a tensor.

        Raises:
            TypeError: A hook cannot be called.
            RuntimeError: There are hooks already, a backward has freed the tensor, the gradient
                does not depend on it, so that it is not kept, or ``pack_hook`` writes to it.
        """
        for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise TypeError(
                    f"register_hooks(): incompatible function arguments: {name} must be a "
                    f"function, got {type(hook).__name__}"
                )
        self._owner.hook_saved(self._place, packing.Hooks(pack_hook, unpack_hook))


def hooks_again() -> RuntimeError:
    """The error for a saved tensor that has hooks already."""
    return RuntimeError(
        "register_hooks(): the hooks of this saved tensor have already been set; only one pair of "
        "hooks is allowed at a time"
    )


class _Unpacking:
    """A kernel whose gradient takes saved arrays, some of them packed."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def gradient(self, needs: Any, given: Any, saved: Any) -> Any:
        """See `Kernel.gradient`."""
        return self._kernel.gradient(needs, given, unpacked(saved[: len(needs)]))


def unpacked(saved: Any) -> tuple[Any, ...]:
    """Saved arrays without hooks."""
    return tuple([each.array() if type(each) is packing.Packed else each for each in saved])


def saved_attribute(node: tape.KernelNode, name: str) -> Any:
    """``getattr`` for the saved tensors of a node.

    Raises:
        AttributeError: There is no such attribute.
        RuntimeError: A backward has freed them.
    """
    prefix = next((each for each in ("_raw_saved_", "_saved_") if name.startswith(each)), None)
    if prefix is None:
        raise _no_attribute(node, name)
    function: Any = node.kernel.function
    operator: Any = getattr(getattr(function, "func", None), "__self__", None)
    if not hasattr(operator, "dynamic") or operator.sequences:
        raise _no_attribute(node, name)
    wanted = name.removeprefix(prefix)
    names = [operator.names[i] for i in operator.dynamic]
    if wanted == "self" and names[0] == "input":
        wanted = "input"
    if prefix == "_saved_":
        static = [operator.names[i] for i in operator.static]
        if wanted in static:
            return function.args[0][static.index(wanted)]
    if wanted == "result" and node.outputs == 1 and not node.kernel.linear:
        return SavedTensor(node, len(node.edges)) if prefix == "_raw_saved_" else _result(node)
    if node.kernel.linear or wanted not in names:
        raise _no_attribute(node, name)
    place = names.index(wanted)
    return SavedTensor(node, place) if prefix == "_raw_saved_" else _value(node, place)


def _no_attribute(node: tape.KernelNode, name: str) -> AttributeError:
    return AttributeError(f"'{type(node).__name__}' object has no attribute '{name}'")


def _arrays(node: tape.KernelNode) -> tuple[Any, ...]:
    if node.arrays is None:
        raise tape.freed_error(node)
    return unpacked(node.arrays[: len(node.edges)])


def _result(node: tape.KernelNode) -> Tensor:
    packed = () if node.arrays is None else node.arrays[len(node.edges) :]
    array = packed[0].array() if packed else node.kernel.forward(*_arrays(node))
    return tape.saved_tensor(array, (node, 0))


def _value(node: tape.KernelNode, place: int) -> Any:
    arrays = _arrays(node)
    if not isinstance(arrays[place], jax.Array):
        return arrays[place]
    used = packing.used_by_gradient(node.kernel, arrays, node.edges)
    return packing.saved(arrays[place], node.edges[place]) if used[place] else None


def hook_saved(node: tape.KernelNode, place: int, hooks: packing.Hooks) -> None:
    """See `SavedTensor.register_hooks`."""
    if isinstance(node, packing.PackedNode):
        raise hooks_again()
    if node.arrays is None:
        raise tape.freed_error(node)
    arrays, count = list(node.arrays), len(node.edges)
    if place < len(arrays) and type(arrays[place]) is packing.Packed:
        raise hooks_again()
    if place == count:
        # Detached, since a tensor that the hook keeps must not lead back to its node.
        arrays.append(packing.Packed(hooks, _result(node).detach()))
    elif isinstance(arrays[place], jax.Array):
        value = _value(node, place)
        if value is None:
            raise RuntimeError(
                "register_hooks() on a saved tensor with value None is forbidden: the gradient of "
                f"{node.name()} does not depend on this tensor, so it is not kept"
            )
        arrays[place], node.vjp = packing.Packed(hooks, value), None
    else:
        return
    node.arrays = tuple(arrays)
    if not isinstance(node.kernel, _Unpacking):
        node.kernel = _Unpacking(node.kernel)  # type: ignore[assignment]


# For the nodes of operators.
tape.KernelNode.__getattr__ = saved_attribute  # type: ignore[attr-defined]
tape.KernelNode.hook_saved = hook_saved  # type: ignore[attr-defined]
