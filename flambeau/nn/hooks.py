"""Hooks: how they are registered, the ones that see every module, and the ones on gradients."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from flambeau.core.handle import RemovableHandle
from flambeau.core.modes import is_grad_enabled
from flambeau.core.tape import identity_node
from flambeau.core.tensor import Tensor
from flambeau.nn.registry import HookRegistry

_global_buffer_registration_hooks = HookRegistry()
_global_module_registration_hooks = HookRegistry()
_global_parameter_registration_hooks = HookRegistry()

_global_backward_pre_hooks = HookRegistry()
_global_backward_hooks = HookRegistry()
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks = HookRegistry()
_global_forward_hooks = HookRegistry()
_global_forward_hooks_with_kwargs = HookRegistry()
_global_forward_hooks_always_called = HookRegistry()


def add_hook(
    hooks: HookRegistry,
    hook: Callable[..., Any],
    *,
    marks: Sequence[tuple[HookRegistry, bool]] = (),
    prepend: bool = False,
) -> RemovableHandle:
    """Register ``hook``.

    Args:
        hooks: Where it is called from.
        hook: What is called.
        marks: Registries that mark hooks with a property, and whether this one has it.
        prepend: Call it before the hooks that are registered so far.

    Returns:
        A handle that removes the hook, and its marks, again.
    """
    handle = RemovableHandle(hooks, extra_dict=[registry for registry, _ in marks])
    hooks[handle.id] = hook
    for registry, marked in marks:
        if marked:
            registry[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` whenever a buffer is registered in any module.

    What it returns, unless ``None``, is registered instead.
    """
    return add_hook(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` whenever a module is registered in any module.

    What it returns, unless ``None``, is registered instead.
    """
    return add_hook(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` whenever a parameter is registered in any module.

    What it returns, unless ``None``, is registered instead.
    """
    return add_hook(_global_parameter_registration_hooks, hook)


def filter_registration(hooks: HookRegistry, module: Any, name: str, member: Any) -> Any:
    """What the registration hooks make of ``member``, which ``module`` is about to register."""
    for hook in hooks.values():
        replacement = hook(module, name, member)
        if replacement is not None:
            member = replacement
    return member


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before `forward` of every module, before the module's own hooks.

    What it returns, unless ``None``, replaces the positional arguments; a single value stands for a
    tuple of one.
    """
    return add_hook(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after `forward` of every module, before the module's own.

    Args:
        hook: What it returns, unless ``None``, replaces the output.
        with_kwargs: Call ``hook(module, args, kwargs, output)`` instead.
        always_call: Call it also when the call raises.
    """
    return add_hook(
        _global_forward_hooks,
        hook,
        marks=[
            (_global_forward_hooks_with_kwargs, with_kwargs),
            (_global_forward_hooks_always_called, always_call),
        ],
    )


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before the gradients of any module's inputs are computed.

    What it returns, unless ``None``, replaces ``grad_output``.
    """
    return add_hook(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` once any module's input gradients are there.

    What it returns, unless ``None``, replaces ``grad_input``.

    Raises:
        RuntimeError: A global hook of the other kind (`register_module_backward_hook`) was
            registered.
    """
    return _add_global_backward_hook(hook, full=True)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` around the last operator of every module.

    Kept for older programs; `register_module_full_backward_hook` sees the gradients of the whole
    module.

    Raises:
        RuntimeError: A global hook of the other kind was registered.
    """
    return _add_global_backward_hook(hook, full=False)


def _add_global_backward_hook(hook: Callable[..., Any], full: bool) -> RemovableHandle:
    global _global_is_full_backward_hook
    check_backward_kind(_global_is_full_backward_hook, full, "as global module hooks")
    _global_is_full_backward_hook = full
    return add_hook(_global_backward_hooks, hook)


def check_backward_kind(current: bool | None, full: bool, where: str) -> None:
    """Raise RuntimeError if a backward hook would join hooks of the other kind."""
    if current is not None and current is not full:
        kinds = {True: "full", False: "non-full"}
        raise RuntimeError(
            f"cannot register a {kinds[full]} backward hook {where}: {kinds[current]} backward "
            "hooks were registered before, and the two kinds cannot be mixed"
        )


def global_backward_hooks(full: bool) -> Iterable[Callable[..., Any]]:
    """The global backward hooks, if they are of the asked kind."""
    return _global_backward_hooks.values() if _global_is_full_backward_hook is full else ()


class BoundHook:
    """A hook that gets its module as first argument, without keeping the module alive.

    A hook may sit in its own module's registries, or on a node of the tape, which must not own the
    module. Copying or pickling it together with its module binds the copy to the copied module.

    Args:
        hook: The function.
        module: Its first argument; without one, the hook is called as it is.
    """

    def __init__(self, hook: Callable[..., Any], module: Any = None) -> None:
        functools.update_wrapper(self, hook)
        self.hook = hook
        self.with_module = module is not None
        if module is not None:
            self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError(f"the module of the hook {self.hook!r} no longer exists")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        module = self.module() if self.with_module else None
        return {"hook": self.hook, "with_module": self.with_module, "module": module}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError(f"the module of the hook {self.hook!r} no longer exists")
            self.module = weakref.ref(state["module"])


def warn_of_partial_gradients(args: Any, result: Any, node: Any) -> None:
    """Warn if a hook on ``node`` will not see all the gradients of a call.

    Args:
        args: What the module was called with.
        result: What it returned.
        node: The node that made its first output.
    """
    reason = _why_partial(args, result, node)
    if reason:
        warnings.warn(
            f"a non-full backward hook will miss some gradients: {reason}; "
            "register_full_backward_hook sees them all",
            FutureWarning,
            stacklevel=7,
        )


def _why_partial(args: Any, result: Any, node: Any) -> str | None:
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


def _is_tuple_of_tensors(values: Any) -> bool:
    return isinstance(values, tuple) and all(isinstance(each, Tensor) for each in values)


class BackwardHook:
    """The full backward hooks of one call of a module.

    The tensors among the module's inputs pass through one node of the tape, and those among its
    outputs through another. So whatever the module does in between, the second node receives
    ``grad_output`` and the first one gives ``grad_input``, whole and once per backward.

    Args:
        module: The module that is called.
        user_hooks: Called with ``(module, grad_input, grad_output)``.
        user_pre_hooks: Called with ``(module, grad_output)``.
    """

    def __init__(
        self,
        module: Any,
        user_hooks: Sequence[Callable[..., Any]],
        user_pre_hooks: Sequence[Callable[..., Any]],
    ) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self._inputs = _Positions(0, None)
        self._outputs = _Positions(0, None)
        # What the output node received, until the input node has given its own gradients.
        self._grad_outputs: tuple[Any, ...] | None = None

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The positional arguments that `forward` must be called with."""
        args, self._inputs, node = _through_identity(args)
        if node is not None:
            node.register_hook(self._on_input_gradients)
        return args

    def setup_output_hook(self, result: Any) -> Any:
        """What the call must return for the ``result`` of `forward`."""
        values = result if isinstance(result, tuple) else (result,)
        values, self._outputs, node = _through_identity(values)
        if node is not None:
            node.register_hook(self._on_output_gradients)
        return values if isinstance(result, tuple) else values[0]

    def _on_output_gradients(self, _: Any, grad_outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        grads = self._outputs.spread(grad_outputs)
        for hook in self.user_pre_hooks:
            replaced = hook(self.module, grads)
            if replaced is not None:
                grads = _checked(replaced, grads, "grad_output")
        self._grad_outputs = grads
        if self._inputs.indices is None:
            self._call_without_input_gradients(grads)
        return self._outputs.gather(grads)

    def _call_without_input_gradients(self, grad_outputs: tuple[Any, ...]) -> None:
        # No input node will run in this backward, so the hooks have their only chance now.
        warnings.warn(
            f"no input of {type(self.module).__name__} requires grad, so its full backward hook is "
            "called when the gradients of its outputs are known, with None for every grad_input",
            stacklevel=5,
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

    def _on_input_gradients(self, grad_inputs: tuple[Any, ...], _: Any) -> tuple[Any, ...] | None:
        grad_outputs = self._grad_outputs
        if grad_outputs is None:
            return None
        grads = self._inputs.spread(grad_inputs)
        for hook in self.user_hooks:
            replaced = hook(self.module, grads, grad_outputs)
            if replaced is not None:
                grads = _checked(replaced, grads, "grad_input")
        self._grad_outputs = None
        return self._inputs.gather(grads)


class _Positions(NamedTuple):
    """Where the tensors stand among the inputs or outputs of a call.

    ``indices`` is ``None`` if no gradient can reach them.
    """

    size: int
    indices: Sequence[int] | None

    def spread(self, grads: Sequence[Any]) -> tuple[Any, ...]:
        """One entry per input or output, ``None`` where it is not a tensor."""
        entries: list[Any] = [None] * self.size
        for index, grad in zip(self.indices or (), grads, strict=True):
            entries[index] = grad
        return tuple(entries)

    def gather(self, entries: Sequence[Any]) -> tuple[Any, ...]:
        """The entries of the tensors."""
        return tuple(entries[index] for index in self.indices or ())


def _through_identity(values: tuple[Any, ...]) -> tuple[Any, _Positions, Any]:
    """``values`` with their tensors behind one identity node, where those stand, and the node."""
    indices = [index for index, value in enumerate(values) if isinstance(value, Tensor)]
    tensors = tuple(values[index] for index in indices)
    if not is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
        return values, _Positions(len(values), None), None
    aliases, node = identity_node(tensors)
    entries = list(values)
    for index, alias in zip(indices, aliases, strict=True):
        entries[index] = alias
    # A named tuple takes its fields one by one.
    rebuilt = tuple(entries) if type(values) is tuple else type(values)(*entries)
    return rebuilt, _Positions(len(values), indices), node


def _checked(replaced: Any, grads: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    replaced = (replaced,) if isinstance(replaced, Tensor) else tuple(replaced)
    if len(replaced) != len(grads):
        raise RuntimeError(
            f"a full backward hook returned {len(replaced)} values for {name}, which has "
            f"{len(grads)}; return one per value, None where there is no gradient"
        )
    return replaced


def _all_none(replaced: Any) -> bool:
    return isinstance(replaced, tuple) and all(grad is None for grad in replaced)
