"""The tape: the kinds of nodes, which record how tensors were computed.

A node keeps the input arrays of its operator. Arrays never change, so no in-place write after the
forward can corrupt a gradient.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Container
from typing import Any, ClassVar

import numpy as np
from jax.core import Tracer

from flambeau.core.kernels import kernel as kernels
from flambeau.core.kernels.kernel import Kernel
from flambeau.core.kernels.lazy_cotangent import LONGEST, LazyCotangent, value_of
from flambeau.core.programs.deferred import ARRAYS
from flambeau.core.programs.finishing import alone
from flambeau.core.support import world
from flambeau.core.support.handle import HookDict
from flambeau.core.support.modes import kept_modes, modes
from flambeau.core.tape import accumulated
from flambeau.core.tape.node import Edge, Node, sequence_now
from flambeau.core.values.attributes import SAME_DTYPE
from flambeau.core.values.cell import is_abstract
from flambeau.core.values.dual import copy_tangent, restore_tangents
from flambeau.core.values.tensor import PLAIN_TYPES, Tensor
from flambeau.core.values.upload import beside

__all__ = [
    "AccumulateGrad", "Edge", "IdentityNode", "KernelNode", "Node", "SpentNode", "edge_of",
    "freed_error", "identity_node", "node_class", "saved_tensor", "sequence_now",
    "sparse_sum",
]  # fmt: skip


_ONE = (True,)
# The types of cotangents that are neither tracers nor on the meta device.
_CONCRETE = {*ARRAYS, LazyCotangent}


class KernelNode(Node):
    """A node whose gradient follows from its kernel."""

    __slots__ = ("arrays", "kernel", "results", "vjp")

    arrays: Any
    vjp: Any

    def __init__(
        self, kernel: Kernel, arrays: Any, edges: tuple[Edge, ...], outputs: int, vjp: Any = None
    ) -> None:
        Node.__init__(self, edges, outputs)
        self.kernel: Kernel = kernel
        self.arrays = arrays
        self.vjp = vjp
        # Shapes and dtypes of the differentiable results, kept with residuals only.
        self.results: Any = None

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`."""
        needs = tuple([edge is not None for edge in self.edges])
        return self._pull(needs, cotangents, as_tensors, keep, lazily=True)

    def pull_towards(
        self, wanted: Container[Node], cotangents: list[Any], as_tensors: bool, keep: bool
    ) -> Any:
        """See `Node.pull_towards`."""
        needs = tuple([edge is not None and edge[0] in wanted for edge in self.edges])
        return self._pull(needs, cotangents, as_tensors, keep)

    def _pull(
        self,
        needs: tuple[bool, ...],
        cotangents: list[Any],
        as_tensors: bool,
        keep: bool,
        lazily: bool = False,
    ) -> Any:
        arrays = self.arrays
        if arrays is None:
            raise freed_error(self)
        # One output is the common case, and its cotangent the common one.
        if len(cotangents) == 1 and cotangents[0] is not None:
            known, given = cotangents, _ONE
        else:
            known = [each for each in cotangents if each is not None]
            given = tuple([each is not None for each in cotangents])
        if not known or True not in needs:
            pulled: Any = (None,) * len(needs)
        elif self.vjp is not None and not as_tensors:
            needs = tuple([edge is not None for edge in self.edges])
            full = self._all_cotangents(cotangents, known[0])
            pulled = kernels.pull_back_compiled(self.vjp, full)
        else:
            gradient, saved = self.kernel.gradient(needs, given, arrays)
            if as_tensors:
                pulled = self._pull_tensors(gradient, saved, known)
            else:
                pulled = self._pull_arrays(gradient, saved, known, needs, lazily)
        if not keep and not self.kernel.linear:
            self.arrays = self.vjp = None
        if len(pulled) == len(needs):
            return pulled
        remaining = iter(pulled)
        return [next(remaining) if need else None for need in needs]

    def _pull_arrays(
        self, gradient: Kernel, saved: Any, known: list[Any], needs: tuple[bool, ...], lazily: bool
    ) -> Any:
        # A node gets a lazy cotangent only if it has one output.
        cotangent, length = known[0], 1
        if type(cotangent) is LazyCotangent:
            length = cotangent.length + 1
            gradient, inputs = cotangent.followed_by(gradient, tuple(saved))
        else:
            inputs = (*saved, *known)
        if lazily and needs.count(True) == 1 and type(cotangent) in _CONCRETE:
            edge = self.edges[needs.index(True)]
            if length < LONGEST and edge is not None and edge[0].takes_lazy_cotangents():
                return (LazyCotangent(gradient, inputs, length),)
        try:
            return gradient.forward(*inputs)
        except TypeError:
            if not any(map(is_abstract, inputs)):
                raise
            return gradient.on_meta(inputs)

    def takes_lazy_cotangents(self) -> bool:
        """See `Node.takes_lazy_cotangents`."""
        return self.outputs == 1 and self.vjp is None

    def _all_cotangents(self, cotangents: list[Any], one: Any) -> tuple[Any, ...]:
        """The cotangents of all differentiable results, zeros where none was given."""
        return tuple(
            beside(np.zeros(aval.shape, aval.dtype), one) if given is None else given
            for given, aval in zip(cotangents, self.results, strict=True)
            if aval is not None
        )

    def _pull_tensors(self, gradient: Kernel, saved: Any, known: list[Tensor]) -> Any:
        # A linear kernel keeps only the inputs that take no gradient as arrays.
        edges = (None,) * len(saved) if self.kernel.linear else self.edges
        used = gradient.used((*saved, *(each._read() for each in known)))
        # If the gradient does not depend on an input, the tape has no edge to it either.
        inputs = [
            saved_tensor(array, edge if depends else None)
            for array, edge, depends in zip(saved, edges, used, strict=False)
        ]
        if modes.dual is not None:
            restore_tangents(self, inputs)
        cotangents = [
            each if depends else each.detach()
            for each, depends in zip(known, used[len(saved) :], strict=True)
        ]
        return gradient.run((*inputs, *cotangents))


def freed_error(node: Node) -> RuntimeError:
    """The error for a node that runs again after it has freed its saved values."""
    return RuntimeError(
        f"{node.name()}: Trying to backward through the graph a second time, but the first "
        "backward() has freed the saved values; pass retain_graph=True to the first one"
    )


def saved_tensor(array: Any, edge: Edge) -> Any:
    """A saved array as a tensor with its place on the tape."""
    if not hasattr(array, "dtype"):
        return array
    tensor = Tensor._wrap(array)
    if edge is not None:
        tensor._requires_grad = True
        tensor._grad_fn, tensor._output_nr = edge
    return tensor


@functools.cache
def node_class(name: str) -> type[KernelNode]:
    """The class of kernel nodes with this name."""
    if name == "CopySlices":
        return CopySlices
    return type(name, (KernelNode,), {"__slots__": (), "__module__": "flambeau.core.tape.nodes"})


class CopySlices(KernelNode):
    """The node of a base, part of which was written through a view."""

    __slots__ = ()

    def name(self) -> str:
        """PyTorch's name of this node."""
        return "torch::autograd::CopySlices"


class AccumulateGrad(Node):
    """The end of the tape at a leaf: adds arriving gradients to the leaf's ``.grad``."""

    __slots__ = ("variable",)

    accumulates: ClassVar[bool] = True

    def __init__(self, variable: Tensor) -> None:
        Node.__init__(self, ())
        self.variable: Tensor = variable

    def name(self) -> str:
        """PyTorch's name of this node."""
        return "torch::autograd::AccumulateGrad"

    def _sequence_nr(self) -> int:
        # Accumulators come before all other nodes.
        return 2**64 - 1

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """Accumulate; see `Node.pull`."""
        variable = self.variable
        # A leaf may have been frozen since the forward.
        if cotangents[0] is not None and variable._requires_grad:
            if variable._grad_fn is not None:
                raise RuntimeError(
                    "a leaf variable has been moved into the graph interior: it was detached and "
                    "overwritten in place after its value had been used, so the gradient of that "
                    "value has no leaf to go to; overwrite a clone() instead"
                )
            known = variable._accumulator
            if known is None or known() is not self:
                _check_shape(variable, cotangents[0])
            # Other threads may be adding to the same gradient.
            alone(_accumulate, variable, cotangents[0], as_tensors)
        if variable._post_accumulate_hooks:
            with kept_modes():
                _run_post_accumulate_hooks(variable)
        return ()

    def has_hooks(self) -> Any:
        """See `Node.has_hooks`; to the engine a `grad_dtype` counts as a hook."""
        variable = self.variable
        return (
            variable._hooks
            or variable._grad_dtype is not SAME_DTYPE
            or self.pre_hooks
            or self.post_hooks
        )

    def converted(self, cotangent: Any) -> Any:
        """A cotangent converted to the dtype of the leaf's gradient."""
        variable, trace = self.variable, modes.trace
        if trace is not None and trace.is_outside(variable):
            trace.watch(variable, lambda: variable._grad_dtype, "grad_dtype")
        wanted = variable._grad_dtype
        if wanted is SAME_DTYPE or cotangent is None:
            return cotangent
        if wanted is None:
            grad = variable._grad if trace is None else trace.get_grad(variable)
            if grad is None:
                return cotangent
            wanted = grad.dtype
        if not (wanted.is_floating_point or wanted.is_complex):
            raise RuntimeError(f"a gradient cannot be of {wanted}, which is the leaf's grad_dtype")
        if isinstance(cotangent, Tensor):
            return cotangent.to(wanted)
        return Tensor._wrap(cotangent).to(wanted)._read()

    def tensor_hooks_of(self, output_nr: int) -> HookDict:
        """The hooks on the leaf itself."""
        if self.variable._hooks is None:
            self.variable._hooks = HookDict()
        return self.variable._hooks


def _check_shape(leaf: Tensor, cotangent: Any) -> None:
    """Fail if a leaf was given another shape after the forward."""
    if tuple(cotangent.shape) != tuple(leaf.shape):
        raise RuntimeError(
            f"a leaf of shape {list(cotangent.shape)} was given the shape {list(leaf.shape)} in "
            "place after its value had been used: the size of the leaf must match that of its "
            "gradient. Write to a clone() instead, or run the forward again"
        )


def _accumulate(variable: Tensor, new: Any, as_tensors: bool) -> None:
    trace = modes.trace
    if trace is None and variable._grad is None and type(new) in ARRAYS:
        gradient = Tensor._wrap(new)
        accumulated.replacing(variable, None, gradient)
        variable._grad = gradient
        world.bump_gradients()
        return
    old = variable._grad if trace is None else trace.get_grad(variable)
    if as_tensors and not modes.grad_enabled:
        # They are Tensors because they may be dual; the stored gradient is not.
        new, as_tensors = new._read(), False
    if as_tensors:
        # The caller may still hold the cotangent, so the sum needs a Cell of its own.
        _set_grad(variable, new.clone() if old is None else old + new)
        return
    if isinstance(new, Tensor) or (old is not None and old.is_sparse):
        _set_grad(variable, _as_tensor(new if old is None else sparse_sum(old, new)))
        return
    if type(new) not in ARRAYS:
        _refuse_leak(variable, new)
    if old is None:
        _set_grad(variable, Tensor._wrap(new))
        return
    array = old._read()
    try:
        total = kernels.add_cotangents(array, new)
    except (TypeError, ValueError):
        raise RuntimeError(
            f"a gradient of shape {list(new.shape)} arrived for a leaf whose .grad has shape "
            f"{list(old.shape)}: the size of the leaf must match that of its .grad; set .grad to "
            "None after the shape has changed"
        ) from None
    if trace is None:
        accumulated.writing(variable, old, array)
    old._store(total)


def _as_tensor(cotangent: Any) -> Tensor:
    return cotangent if isinstance(cotangent, Tensor) else Tensor._wrap(cotangent)


def sparse_sum(before: Any, cotangent: Any) -> Any:
    """The sum of two cotangents of which at least one is a sparse tensor: sparse if both are."""
    one, other = _as_tensor(before), _as_tensor(value_of(cotangent))
    # A sparse tensor is added to a dense one.
    total = other + one if one.is_sparse and not other.is_sparse else one + other
    return total if total.is_sparse else total._read()


def _run_post_accumulate_hooks(variable: Tensor) -> None:
    for hook in tuple((variable._post_accumulate_hooks or {}).values()):
        result = hook(variable)
        # An in-place operator, the usual purpose of a hook, returns its tensor.
        if result is not None and result is not variable:
            raise (RuntimeError if isinstance(result, Tensor) else TypeError)(
                "a post accumulate grad hook must return None, "
                f"got {type(result).__name__}; set tensor.grad to replace the gradient"
            )


def _set_grad(variable: Tensor, grad: Tensor) -> None:
    # The engine's gradients fit, so the checks of the `grad` property are skipped.
    trace = modes.trace
    if trace is None:
        accumulated.replacing(variable, variable._grad, grad)
        variable._grad = grad
        world.bump_gradients()
    else:
        trace.set_grad(variable, grad)


def _refuse_leak(variable: Tensor, cotangent: Any) -> None:
    """Fail if a transformation's gradient would be stored in a tensor from outside it."""
    inside = modes.trace is not None or isinstance(variable._cell.array, Tracer)
    if isinstance(cotangent, Tracer) and not inside:
        raise RuntimeError(
            "backward() inside a transformation (grad, vmap, jit) cannot accumulate into the .grad "
            f"of a tensor of shape {list(variable.shape)} from outside it; use autograd.grad() and "
            "return the gradient instead"
        )


class SpentNode(Node):
    """Replaces a history that a compiled program has already run backward through."""

    __slots__ = ()

    def name(self) -> str:
        """The name of the node of a compiled function."""
        return "CompiledFunctionBackward"

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """Fail like a freed graph."""
        raise RuntimeError(
            "Trying to backward through the graph a second time: the compiled function that "
            "returned this tensor has already done so; pass retain_graph=True there"
        )


class IdentityNode(Node):
    """Passes cotangents through unchanged."""

    __slots__ = ()

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`."""
        return cotangents


def edge_of(tensor: Tensor) -> Edge:
    """The edge from ``tensor`` to the node that computed it, or to its accumulator."""
    if tensor._view is not None:
        tensor._follow_base()
    node = tensor._grad_fn
    if node is not None:
        return node, tensor._output_nr
    if not tensor._requires_grad:
        return None
    reference = tensor._accumulator
    node = None if reference is None else reference()
    if node is None:
        node = AccumulateGrad(tensor)
        # Weak, so that a leaf and its accumulator do not keep one another alive.
        tensor._accumulator = weakref.ref(node)
    return node, 0


def identity_node(
    tensors: tuple[Tensor, ...], kind: type[IdentityNode] = IdentityNode
) -> tuple[tuple[Tensor, ...], Any]:
    """Aliases of ``tensors`` whose history is one common node.

    Args:
        tensors: Tensors; the alias of a parameter is a plain tensor.
        kind: The class of the node.

    Returns:
        The aliases, on the same Cells, and their node, whose hooks see all cotangents at once.
    """
    node = kind(tuple(edge_of(each) for each in tensors), len(tensors))
    aliases = []
    for number, tensor in enumerate(tensors):
        alias = tensor._alias(Tensor if type(tensor) in PLAIN_TYPES else type(tensor))
        alias._grad_fn, alias._output_nr, alias._requires_grad = node, number, True
        copy_tangent(tensor, alias)
        aliases.append(alias)
    return tuple(aliases), node
