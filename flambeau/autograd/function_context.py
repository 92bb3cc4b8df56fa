"""The ``ctx`` of a custom Function: its state between forward and backward."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from flambeau.core.devices.layout import strided
from flambeau.core.support.modes import modes
from flambeau.core.tape import nodes as tape
from flambeau.core.tape import packing
from flambeau.core.tape.node import Node
from flambeau.core.tape.saved_values import hooks_again
from flambeau.core.values.dual import restore_tangents
from flambeau.core.values.tensor import Tensor

__all__ = ["FunctionCtx"]


class FunctionCtx:
    """The ``ctx`` of a `Function`: values that forward saves for backward.

    Any attribute may be set on it; tensors belong in `save_for_backward`.

    Attributes:
        needs_input_grad: For each argument of forward, whether its gradient is wanted.
        saved_tensors: In backward, the arguments of `save_for_backward`.
        materialize_grads: See `set_materialize_grads`.
    """

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.materialize_grads = True
        self.to_save: tuple[Tensor | None, ...] = ()
        self.dirty_tensors: tuple[Tensor, ...] = ()
        self.non_differentiable: tuple[Tensor, ...] = ()
        self._packed: tuple[_Packed | _Hooked | _Sparse | None, ...] | None = ()
        self.saved_for_forward: tuple[Tensor | None, ...] | None = None
        self._saved_in_jvp: tuple[Tensor | None, ...] | None = None
        self._node: weakref.ref[Node] | None = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors for backward, which reads them as `saved_tensors`.

        In-place writes to them after forward do not change the saved values.

        Raises:
            TypeError: An argument is neither a Tensor nor ``None``.
        """
        _check_tensors("save_for_backward", tensors, none_too=True)
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors for the ``jvp`` method, which reads them as `saved_tensors`.

        Raises:
            TypeError: An argument is neither a Tensor nor ``None``.
        """
        _check_tensors("save_for_forward", tensors, none_too=True)
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare which inputs forward writes in place. It must return each of them.

        Raises:
            TypeError: An argument is not a Tensor.
        """
        _check_tensors("mark_dirty", tensors)
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare which outputs take no gradient; backward gets zeros for them.

        Raises:
            TypeError: An argument is not a Tensor.
        """
        _check_tensors("mark_non_differentiable", tensors)
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether backward gets zeros (the default) or ``None`` for missing gradients."""
        self.materialize_grads: bool = bool(value)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors given to `save_for_backward`, each at its place on the tape.

        Raises:
            RuntimeError: A backward without ``retain_graph`` has freed them.
        """
        if self._saved_in_jvp is not None:
            return self._saved_in_jvp
        node = None if self._node is None else self._node()
        if self._packed is None:
            raise RuntimeError(
                f"{'the function' if node is None else node.name()}: its saved tensors were freed "
                "by an earlier backward; pass retain_graph=True to that one"
            )
        saved = tuple([None if each is None else each.unpack(node) for each in self._packed])
        if modes.dual is not None:
            restore_tangents(node, saved)
        return saved

    @contextlib.contextmanager
    def _for_jvp(self) -> Iterator[None]:
        """A block in which `saved_tensors` are the tensors saved for the ``jvp`` method."""
        self._saved_in_jvp = self.saved_for_forward
        try:
            yield
        finally:
            self._saved_in_jvp = None

    def _pack(
        self,
        results: Sequence[Any],
        outputs: Sequence[Any],
        node: Node,
        again: Callable[[int, Tensor], Any],
    ) -> None:
        """Keep the arrays of the tensors to save, as they are at the end of forward.

        Args:
            results: What forward returned.
            outputs: The tensor that the caller gets for each result.
            node: The node of the call.
            again: Returns the `function_again.Again` of a tensor to save, by its index; ``None``
                for a tensor that has a history or needs none.
        """
        self._node = weakref.ref(node)
        numbers = {
            id(result): number
            for number, (result, output) in enumerate(zip(results, outputs, strict=True))
            if isinstance(output, Tensor) and output._grad_fn is node
        }
        self._packed = tuple(
            [
                None if each is None else _packed(each, numbers, again(place, each))
                for place, each in enumerate(self.to_save)
            ]
        )
        # If this context kept an output as a tensor, the output would keep its node, and the node
        # this context.
        self.to_save = self.dirty_tensors = self.non_differentiable = ()

    def _restore(self, arrays: Sequence[Any]) -> None:
        """Make `saved_tensors` return tensors of these arrays, without history."""
        self._packed = tuple([None if each is None else _Packed(each) for each in arrays])

    def hook_saved(self, place: int, hooks: packing.Hooks) -> None:
        """See `flambeau.core.tape.saved_values.SavedTensor.register_hooks`."""
        node = None if self._node is None else self._node()
        packed = list(self._packed or ())
        if not packed:
            raise RuntimeError(
                f"{'the function' if node is None else node.name()}: its saved tensors were freed "
                "by an earlier backward"
            )
        if packed[place] is not None:
            packed[place] = _hooked(packed[place], hooks, node)
            self._packed = tuple(packed)

    def _free(self) -> None:
        if self._packed:
            self._packed = None


def _check_tensors(name: str, values: tuple[Any, ...], none_too: bool = False) -> None:
    for place, each in enumerate(values):
        if not isinstance(each, Tensor) and not (none_too and each is None):
            raise TypeError(
                f"{name}() takes Tensors{' or None' if none_too else ''}, "
                f"but argument {place} is a {type(each).__name__}"
            )


class _Packed(NamedTuple):
    """A saved tensor.

    Attributes:
        array: Its elements at the end of forward.
        tensor: The tensor itself; ``None`` for an output of the function.
        edge: The edge of ``tensor``.
        output_nr: The index among the outputs.
        again: The `function_again.Again` of a tensor that forward computed, its history in a
            recorded backward.
    """

    array: Any
    tensor: Tensor | None = None
    edge: tape.Edge = None
    output_nr: int = 0
    again: Any = None

    def unpack(self, node: Node | None) -> Tensor:
        """The tensor as it was saved; ``node`` is the function's own."""
        tensor = self.tensor
        if tensor is None:
            edge = None if node is None else (node, self.output_nr)
            return tape.saved_tensor(self.array, edge)
        if self.again is not None and modes.grad_enabled:
            return self.again.tensor(self.array)
        if tensor._read() is self.array and tape.edge_of(tensor) == self.edge:
            return tensor
        return tape.saved_tensor(self.array, self.edge)


class _Sparse(NamedTuple):
    """A saved sparse tensor.

    Attributes:
        tensor: The tensor, for its indices.
        values: Its values.
    """

    tensor: Any
    values: _Packed | _Hooked

    def unpack(self, node: Node | None) -> Tensor:
        """The tensor as it was saved; ``node`` is the function's own."""
        return self.tensor.with_values(self.values.unpack(node))


class _Hooked(NamedTuple):
    """A saved tensor in the form that `saved_tensors_hooks` returned.

    Attributes:
        packed: The packed object.
        edge: The edge of the tensor; ``None`` for an output of the function.
        output_nr: The index among the outputs, if it is an output.
    """

    packed: packing.Packed
    edge: tape.Edge
    output_nr: int | None
    again: Any = None

    def unpack(self, node: Node | None) -> Tensor:
        """The tensor as it was saved; ``node`` is the function's own."""
        if self.again is not None and modes.grad_enabled:
            return self.again.tensor(self.packed.array())
        edge = self.edge
        if self.output_nr is not None and node is not None:
            edge = (node, self.output_nr)
        return tape.saved_tensor(self.packed.array(), edge)


def _hooked(each: Any, hooks: packing.Hooks, node: Node | None) -> _Hooked | _Sparse:
    """A saved tensor in the form that hooks return; of a sparse tensor, the values are packed."""
    if isinstance(each, _Sparse):
        return each._replace(values=_hooked(each.values, hooks, node))
    if isinstance(each, _Hooked):
        raise hooks_again()
    is_output = each.tensor is None
    # Not the output itself, which would keep its node.
    tensor = each.unpack(None if is_output else node)
    number = each.output_nr if is_output else None
    return _Hooked(packing.Packed(hooks, tensor), each.edge, number, each.again)


def _packed(
    tensor: Tensor, numbers: dict[int, int], again: Any = None
) -> _Packed | _Hooked | _Sparse:
    if tensor.layout is not strided:
        values: Any = _packed(tensor._values_, numbers)  # type: ignore[attr-defined]
        return _Sparse(tensor.detach(), values)
    number = numbers.get(id(tensor))
    hooks = packing.hooks()
    if hooks is not None:
        # Not the output itself, which would keep its node.
        given = tensor if number is None else tensor.detach()
        edge = tape.edge_of(tensor) if number is None else None
        return _Hooked(packing.Packed(hooks, given), edge, number, again)
    if number is not None:
        return _Packed(tensor._read(), output_nr=number)
    return _Packed(tensor._read(), tensor, tape.edge_of(tensor), again=again)
