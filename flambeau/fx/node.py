"""Nodes: the steps of a graph, linked to each other by order and by use."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from flambeau.core.devices.device import device
from flambeau.core.devices.layout import layout, memory_format
from flambeau.core.support.dtype import dtype
from flambeau.core.values.tensor import Tensor
from flambeau.fx.immutable_collections import immutable_dict, immutable_list
from flambeau.fx.names import shown_target, type_text
from flambeau.fx.operator_schemas import ArgsKwargsPair, normalize_function, normalize_module

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

Argument: TypeAlias = Any
Target: TypeAlias = Callable[..., Any] | str

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Types of arguments that are stored unchanged.
base_types: tuple[
    type[str],
    type[int],
    type[float],
    type[bool],
    type[complex],
    type[dtype],
    type[Tensor],
    type[device],
    type[memory_format],
    type[layout],
] = (str, int, float, bool, complex, dtype, Tensor, device, memory_format, layout)

#: The opcodes; ``root`` is the sentinel of a graph's list of nodes.
OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root")

_side_effectful_functions: set[Callable[..., Any]] = {operator.setitem}


def has_side_effect(fn: _Function) -> _Function:
    """Keep calls of ``fn`` in `Graph.eliminate_dead_code`, even if their results are not used."""
    _side_effectful_functions.add(fn)
    return fn


class Node:
    """One step of a `Graph`.

    Graphs create nodes; see `Graph.create_node`. The opcodes are:

    - ``placeholder`` is an input. `target` is the argument's name, `args` its default, if any.
    - ``get_attr`` reads a member of the module. `target` is its path, such as ``"layer1.weight"``.
    - ``call_function`` calls `target` with `args` and `kwargs`.
    - ``call_method`` calls the method `target` of ``args[0]`` with the other arguments.
    - ``call_module`` calls the submodule whose path is `target`.
    - ``output`` returns ``args[0]``.

    Attributes:
        graph: The graph of the node.
        name: Its name, unique in the graph.
        op: The opcode.
        target: The target of the operation.
        users: The nodes that use its value, as keys, in order of first use.
        type: The annotation of the value in generated code, or ``None``.
        meta: Metadata from passes, which is copied along with the node.

    >>> from flambeau import fx
    >>> traced = fx.symbolic_trace(lambda x: (x + 1).relu())
    >>> [(node.op, node.name, node.args) for node in traced.graph.nodes]
    [('placeholder', 'x', ()), ('call_function', 'add', (x, 1)), ('call_method', 'relu', (add,)), \
('output', 'output', (relu,))]
    """

    def __init__(
        self,
        graph: Any,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        if op not in OPS:
            raise AssertionError(f"a node's op must be one of {', '.join(OPS)}, got {op!r}")
        expected = "a callable" if op == "call_function" else "a str"
        if not (callable(target) if op == "call_function" else isinstance(target, str)):
            raise ValueError(
                f"the target of the {op} node '{name}' must be {expected}, got "
                f"{type(target).__name__}: {target!r}"
            )
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        # Formats the node's name while code is generated.
        self._repr_fn: Callable[[Node], str] | None = None
        self._prev = self._next = self
        self._erased = False
        self._update_args_kwargs(args, kwargs)

    # Order

    @property
    def next(self) -> Node:
        """The next node; the last node is followed by the graph's root."""
        return self._next

    @property
    def prev(self) -> Node:
        """The previous node."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move ``x``, a node of the same graph, before this node."""
        if x.graph is not self.graph:
            raise AssertionError(f"cannot move node '{x}' into another graph; use node_copy()")
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move ``x``, a node of the same graph, after this node."""
        if x is not self:
            self._next.prepend(x)

    def _remove_from_list(self) -> None:
        # The node keeps its links, so that an iteration that is at this node can continue.
        self._prev._next, self._next._prev = self._next, self._prev

    # Use

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments; assignments update the users."""
        return self._args

    @args.setter
    def args(self, value: tuple[Argument, ...]) -> None:
        self._update_args_kwargs(value, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The keyword arguments; assignments update the users."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: dict[str, Argument]) -> None:
        self._update_args_kwargs(self._args, value)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, without duplicates, in order."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace one positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before the one at ``idx``."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError(f"idx must be between 0 and {len(self.args)}, got {idx}")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Replace one keyword argument, or add it."""
        self.kwargs = {**self.kwargs, key: arg}

    def _update_args_kwargs(self, args: Any, kwargs: Any) -> None:
        for each in self._input_nodes:
            each.users.pop(self, None)
        inputs: dict[Node, None] = {}

        def noted(node: Node) -> Node:
            inputs[node] = None
            return node

        self._args = map_arg(tuple(args), noted)
        self._kwargs = map_arg(dict(kwargs), noted)
        self._input_nodes = inputs
        for each in inputs:
            each.users[self] = None

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Replace this node by ``replace_with`` in all of its users.

        Args:
            replace_with: Another node of the graph.
            delete_user_cb: A predicate of the users to change, by default all.
            propagate_meta: Give ``replace_with`` this node's `meta`; whose own `meta` must be
                empty.

        Returns:
            The users that were changed.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(f"node '{replace_with}' has meta already, and keeps it")
            replace_with.meta.update(self.meta)
        changed = [each for each in self.users if delete_user_cb is None or delete_user_cb(each)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Replace one node by another throughout this node's arguments."""

        def replaced(node: Node) -> Node:
            return new_input if node is old_input else node

        self._update_args_kwargs(map_arg(self._args, replaced), map_arg(self._kwargs, replaced))

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node has side effects.

        Inputs and the output count as impure, as do calls of functions registered by
        `has_side_effect` and of modules with an attribute ``_is_impure``.

        Args:
            impure_random: Without effect: random functions count as pure.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            if self.graph.owning_module is None:
                raise AssertionError(
                    f"cannot tell whether module '{self.target}' is pure: the graph belongs to no "
                    "GraphModule"
                )
            return getattr(self.graph.owning_module.get_submodule(self.target), "_is_impure", False)
        return self.op == "call_function" and self.target in _side_effectful_functions

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:
        """All arguments of a call, including defaults.

        Args:
            root: The module that has the called submodules.
            arg_types: Without effect: functions have no overloads here.
            kwarg_types: Without effect.
            normalize_to_only_use_kwargs: Return all of them as keyword arguments.

        Returns:
            ``None`` for other nodes, and if the arguments do not match the signature.
        """
        args, kwargs, by_name = self.args, self.kwargs, normalize_to_only_use_kwargs
        if self.op == "call_module":
            return normalize_module(root, str(self.target), args, kwargs, by_name)
        if self.op != "call_function":
            return None
        target: Any = self.target
        return normalize_function(target, args, kwargs, arg_types, kwarg_types, by_name)

    @property
    def stack_trace(self) -> str | None:
        """The source location of the node, recorded if ``record_stack_traces = True``."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    # Text

    def __repr__(self) -> str:
        return self.name if self._repr_fn is None else self._repr_fn(self)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The line for the node in a printed graph.

        Args:
            placeholder_names: Unused; kept for programs that pass it.
            maybe_return_typename: A list whose first element is set to the annotation of the
                output.
            include_tensor_metadata: Show the dtype and shape recorded by `passes.shape_prop`.
        """
        kind = "" if self.type is None else f"{type_text(self.type)} "
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_text(self.type)}"
            return f"return {self.args[0]}"
        noted: Any = self.meta.get("tensor_meta", self.meta.get("val"))
        if include_tensor_metadata and hasattr(noted, "dtype"):
            kind = f'Tensor "{noted.dtype}{list(noted.shape)}"'
        begin = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        begin += f"[target={shown_target(self.target)}]"
        if self.op == "placeholder":
            return begin + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return begin
        return f"{begin}(args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})"


def _shown(argument: Any) -> str:
    if isinstance(argument, list):
        return f"[{', '.join(map(_shown, argument))}]"
    if isinstance(argument, tuple):
        comma = "," if len(argument) == 1 else ""
        return f"({', '.join(map(_shown, argument))}{comma})"
    if isinstance(argument, dict):
        return f"{{{', '.join(f'{key}: {_shown(value)}' for key, value in argument.items())}}}"
    return f"%{argument}" if isinstance(argument, Node) else str(argument)


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """``a`` with every node in it replaced by ``fn(node)``.

    Args:
        a: A value, or nested tuples, lists, slices and dictionaries.
        fn: Maps a node to its replacement.
    """
    if not callable(fn):
        raise AssertionError(f"fn must be callable, got {type(fn).__name__}")
    return map_aggregate(a, lambda each: fn(each) if isinstance(each, Node) else each)


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """``a`` with every value in it replaced by ``fn(value)``.

    Args:
        a: A value, or tuples, lists, slices and dictionaries of values. Lists and dictionaries
            become immutable ones.
        fn: Maps a value to its replacement.
    """
    if isinstance(a, tuple):
        values = [map_aggregate(each, fn) for each in a]
        return type(a)(*values) if hasattr(a, "_fields") else tuple(values)
    if isinstance(a, list):
        return immutable_list([map_aggregate(each, fn) for each in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(each, fn) for key, each in a.items()})
    if isinstance(a, slice):
        return slice(*(map_aggregate(each, fn) for each in (a.start, a.stop, a.step)))
    return fn(a)
