"""Hooks on the gradients of one call of a module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

from flambeau.core.support.modes import is_grad_enabled
from flambeau.core.support.warning import warn
from flambeau.core.tape.nodes import IdentityNode, Node, identity_node
from flambeau.core.tape.transform import hides_gradients
from flambeau.core.values.tensor import Tensor
from flambeau.nn import hooks
from flambeau.nn.common_types import Args, GradHook, GradPreHook, Grads
from flambeau.nn.hooks import BoundHook, _global_backward_pre_hooks
from flambeau.nn.registry import ModuleState
from flambeau.ops.factories.creation import zeros


class GradientHooks:
    """All the hooks that get the gradients of one call of a module.

    Args:
        module: The module that is called.
    """

    on_last_node: tuple[GradHook, ...]

    def __init__(self, module: ModuleState) -> None:
        full = (*hooks.global_backward_hooks(True), *_own_hooks(module, full=True))
        pre = (*_global_backward_pre_hooks.values(), *module._backward_pre_hooks.values())
        self.module = module
        self.around: BackwardHook | None = BackwardHook(module, full, pre) if full or pre else None
        self.on_last_node = (*hooks.global_backward_hooks(False), *_own_hooks(module, full=False))

    def enter(self, args: Args) -> Args:
        """The positional arguments that `forward` must be called with."""
        return args if self.around is None else self.around.setup_input_hook(args)

    def leave(self, args: Args, result: Any) -> Any:
        """The value that the call must return for the ``result`` of `forward`."""
        if self.around is not None:
            if not isinstance(result, Tensor | tuple):
                warn(
                    "full backward hooks see the gradients of a Tensor or of the Tensors in a "
                    f"tuple, but {type(self.module).__name__} returned a "
                    f"{type(result).__name__}: they will not be called",
                )
            result = self.around.setup_output_hook(result)
        if hides_gradients() and not _requires_grad(result):
            raise RuntimeError(
                f"the backward hooks of this {type(self.module).__name__} would not be called: its "
                "gradients are computed by a transformation (jax.grad, jax.jit, vmap, jvp, ...), "
                "not by the tape. Take them by flambeau.func.grad, vjp or jacrev, or by "
                "backward(); remove the hooks; or, if no gradient is wanted, call the module under "
                "no_grad()"
            )
        if self.on_last_node:
            self._hook_last_node(args, result)
        return result

    def _hook_last_node(self, args: Args, result: object) -> None:
        node = _first_tensor(result).grad_fn
        if node is not None:
            for hook in self.on_last_node:
                node.register_hook(BoundHook(hook, self.module))
            _warn_of_partial_gradients(args, result, node)


def _own_hooks(module: ModuleState, full: bool) -> Sequence[GradHook]:
    if module._is_full_backward_hook is not full:
        return ()
    return tuple(module._backward_hooks.values())


def _requires_grad(result: object) -> bool:
    values = result if isinstance(result, tuple) else (result,)
    return any(isinstance(each, Tensor) and each.requires_grad for each in values)


def _first_tensor(result: Any) -> Tensor:
    """The tensor that represents a nested result: the first, also in a dictionary."""
    while not isinstance(result, Tensor):
        if isinstance(result, dict):
            result = next(value for value in result.values() if isinstance(value, Tensor))
        else:
            result = result[0]
    return result


def _warn_of_partial_gradients(args: Args, result: object, node: Node) -> None:
    """Warn if a hook on ``node`` will not get all the gradients of a call.

    Args:
        args: The arguments of the module's call.
        result: The result of the call.
        node: The node that made its first output.
    """
    reason = _why_partial(args, result, node)
    if reason:
        warn(
            f"a non-full backward hook will miss some gradients: {reason}; "
            "register_full_backward_hook sees them all",
            FutureWarning,
        )


def _why_partial(args: Args, result: object, node: Node) -> str | None:
    results = (result,) if isinstance(result, Tensor) else result
    if not _is_tuple_of_tensors(results):
        return "the module returns neither a Tensor nor a tuple of Tensors"
    if not _is_tuple_of_tensors(args):
        return "the module is called with something else than Tensors"
    output_nodes = {each.grad_fn for each in results} - {None}
    if len(output_nodes) > 1:
        return "several operators made the outputs"
    if output_nodes != {node}:
        return "the outputs are nested"
    input_nodes = {each.grad_fn for each in args} - {None}
    if {source for source, _ in node.next_functions} != input_nodes:
        return "the module is more than one operator on its inputs"
    return None


def _is_tuple_of_tensors(values: object) -> TypeGuard[tuple[Tensor, ...]]:
    return isinstance(values, tuple) and all(isinstance(each, Tensor) for each in values)


class BackwardHook:
    """The full backward hooks of one call of a module.

    The tensors among the module's inputs pass through one node of the tape, and the tensors among
    its outputs through another. So, whatever the module computes, the output node receives
    ``grad_output`` and the input node gives ``grad_input``, complete and once per backward.

    Args:
        module: The module that is called.
        user_hooks: Called with ``(module, grad_input, grad_output)``.
        user_pre_hooks: Called with ``(module, grad_output)``.
    """

    def __init__(
        self,
        module: ModuleState,
        user_hooks: Sequence[GradHook],
        user_pre_hooks: Sequence[GradPreHook],
    ) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self._inputs = _Tensors(())
        self._outputs = _Tensors(())
        # The gradients of the output node, until the input node has computed its own.
        self._grad_outputs: Grads | None = None

    def setup_input_hook(self, args: Args) -> Args:
        """The positional arguments that `forward` must be called with."""
        self._inputs = _Tensors(args)
        return self._inputs.through_identity(args, self._on_input_gradients)

    def setup_output_hook(self, result: Any) -> Any:
        """The value that the call must return for the ``result`` of `forward`."""
        values = result if isinstance(result, tuple) else (result,)
        self._outputs = _Tensors(values)
        values = self._outputs.through_identity(values, self._on_output_gradients)
        return values if isinstance(result, tuple) else values[0]

    def _on_output_gradients(self, _: object, grad_outputs: Grads) -> Grads:
        grads = self._outputs.spread(grad_outputs)
        for hook in self.user_pre_hooks:
            replaced = hook(self.module, grads)
            if replaced is not None:
                grads = _checked(replaced, grads, "grad_output")
        self._grad_outputs = grads
        if not self._inputs.hooked:
            self._call_without_input_gradients(grads)
        return self._outputs.gather(grads)

    def _call_without_input_gradients(self, grad_outputs: Grads) -> None:
        # No input node will run in this backward, so the hooks must be called here.
        warn(
            f"no input of {type(self.module).__name__} requires grad, so its full backward hook is "
            "called when the gradients of its outputs are known, with None for every grad_input",
        )
        grads = (None,) * self._inputs.size
        for hook in self.user_hooks:
            replaced = hook(self.module, grads, grad_outputs)
            if replaced is not None and not _all_none(replaced):
                raise RuntimeError(
                    f"a full backward hook of {type(self.module).__name__} returned a grad_input, "
                    "but no input of the module requires grad; return None"
                )
        self._grad_outputs = None

    def _on_input_gradients(self, grad_inputs: Grads, _: object) -> Grads | None:
        grad_outputs = self._grad_outputs
        if grad_outputs is None:
            return None
        # As in PyTorch, a tensor that takes no gradient gets zeros if others take one.
        grads = self._inputs.with_zeros(self._inputs.spread(grad_inputs))
        for hook in self.user_hooks:
            replaced = hook(self.module, grads, grad_outputs)
            if replaced is not None:
                grads = _checked(replaced, grads, "grad_input")
        self._grad_outputs = None
        return self._inputs.gather(grads)


class BackwardHookFunctionBackward(IdentityNode):
    """The common node of all inputs, or all outputs, of a call with full backward hooks.

    Attributes:
        zeros: Returns the gradient of a tensor, by number, that the result does not depend on.
    """

    __slots__ = ("zeros",)

    zeros: Callable[[int], Tensor]

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`."""
        pulled = list(cotangents)
        for number, cotangent in enumerate(cotangents):
            if cotangent is None:
                zeros = self.zeros(number)
                pulled[number] = zeros if as_tensors else zeros._read()
        return pulled


class _Tensors:
    """The tensors among the inputs, or the outputs, of a call.

    Args:
        values: All inputs or outputs.

    Attributes:
        size: The number of values.
        forms: Shape, dtype and device of each tensor, by position.
        hooked: Positions of the tensors that require grad.
    """

    def __init__(self, values: Args) -> None:
        self.size = len(values)
        tensors = {i: value for i, value in enumerate(values) if isinstance(value, Tensor)}
        self.forms = {i: (each.shape, each.dtype, each.device) for i, each in tensors.items()}
        self.hooked: list[int] = []
        if is_grad_enabled():
            self.hooked = [i for i, each in tensors.items() if each.requires_grad]

    def through_identity(self, values: Args, hook: Callable[[Grads, Grads], Grads | None]) -> Args:
        """``values`` behind one common node that calls ``hook`` with their gradients."""
        if not self.hooked:
            return values
        tensors = tuple(values[i] for i in self.hooked)
        aliases, node = identity_node(tensors, BackwardHookFunctionBackward)
        node.zeros = lambda number: self._zeros(self.hooked[number])
        node.register_hook(hook)
        entries = list(values)
        for i, alias in zip(self.hooked, aliases, strict=True):
            entries[i] = alias
        # A named tuple's constructor takes its fields one by one.
        return tuple(entries) if type(values) is tuple else type(values)(*entries)

    def spread(self, grads: Grads) -> Grads:
        """One entry per value, ``None`` where no gradient has arrived."""
        entries: list[Tensor | None] = [None] * self.size
        for i, grad in zip(self.hooked, grads, strict=True):
            entries[i] = grad
        return tuple(entries)

    def with_zeros(self, entries: Grads) -> Grads:
        """``entries`` with zeros for the tensors that have none."""
        return tuple(
            self._zeros(i) if entry is None and i in self.forms else entry
            for i, entry in enumerate(entries)
        )

    def _zeros(self, index: int) -> Tensor:
        shape, dtype, device = self.forms[index]
        return zeros(shape, dtype=dtype, device=device)

    def gather(self, entries: Grads) -> Grads:
        """The entries of the tensors that require grad."""
        return tuple(entries[i] for i in self.hooked)


def _checked(replaced: Tensor | Iterable[Tensor | None], grads: Grads, name: str) -> Grads:
    replaced = (replaced,) if isinstance(replaced, Tensor) else tuple(replaced)
    if len(replaced) != len(grads):
        raise RuntimeError(
            f"a full backward hook returned {len(replaced)} values for {name}, which has "
            f"{len(grads)}; return one per value, None where there is no gradient"
        )
    return replaced


def _all_none(replaced: object) -> bool:
    return isinstance(replaced, tuple) and all(grad is None for grad in replaced)
