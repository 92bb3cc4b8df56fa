"""Graphs: the operations of a function, as a list of nodes that can be changed."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any

from flambeau.core.support.warning import warn
from flambeau.fx.codegen import CodeGen, PythonCode
from flambeau.fx.graph_printing import GraphPrinting
from flambeau.fx.names import Namespace, name_of_target
from flambeau.fx.node import Argument, Node, Target, map_arg

__all__ = ["CodeGen", "Graph", "PythonCode"]

_ABSENT = inspect.Signature.empty


class _NodeList:
    """The nodes of a graph in order, which may be added and erased during iteration."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Any]:
        return self._walk("_next")

    def __reversed__(self) -> Iterator[Any]:
        return self._walk("_prev")

    def _walk(self, direction: str) -> Iterator[Any]:
        root = self.graph._root
        node = getattr(root, direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, direction)


class _InsertPoint:
    """The insert point of new nodes, which is restored at the end of a ``with`` block."""

    before: Any

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.before = graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self.graph._insert = self.before


class Graph(GraphPrinting):
    """A list of `Node`, the inputs, calls and output of one function.

    `symbolic_trace` creates graphs from modules; they can also be built by hand:

    >>> import flambeau
    >>> from flambeau import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(flambeau.relu, (x,)))
    >>> print(fx.GraphModule({}, graph).code.strip())
    def forward(self, x):
        relu = flambeau.relu(x);  x = None
        return relu
    """

    def __init__(
        self,
        owning_module: Any = None,
        tracer_cls: type[Any] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        # The list is a ring that begins and ends at the root.
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self) -> Any:
        """The `GraphModule` that the graph belongs to, or ``None``."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: Any) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _NodeList:
        """The nodes in order, also for ``reversed``; the graph may change during iteration."""
        return _NodeList(self)

    def output_node(self) -> Node:
        """The last node, which must be the output."""
        last = self._root.prev
        if last.op != "output":
            raise AssertionError(f"the last node must be the output, but is {last.op} '{last}'")
        return last

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Any]:
        """The nodes with this ``op`` and ``target``, in order.

        Args:
            op: See `Node`.
            target: Required for ``"call_function"``; otherwise ``None`` matches all.
            sort: Without effect; the nodes are always in order.
        """
        if op == "call_function" and target is None:
            raise AssertionError("find_nodes(op='call_function') needs a target")
        return [
            node
            for node in self.nodes
            if node.op == op and (target is None or node.target == target)
        ]

    # Creation of nodes.

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Create a node at the insert point.

        Args:
            op: The opcode; see `Node`.
            target: The target of the operation.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            name: The base of its name, by default that of the target.
            type_expr: The annotation of its value in generated code.
        """
        if args and not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args).__name__}")
        if kwargs and not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs).__name__}")
        candidate = self._target_to_str(target) if name is None else name
        name = self._graph_namespace.create_name(candidate, None)
        node = Node(self, name, op, target, args or (), kwargs or {}, type_expr)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        return node

    def _target_to_str(self, target: Target) -> str:
        return name_of_target(target)

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = _ABSENT) -> Node:
        """Create an input.

        Args:
            name: The name of the argument.
            type_expr: Its type.
            default_value: Its default; without one, it is required.
        """
        args = () if default_value is _ABSENT else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Create a node that reads a parameter, a buffer or another member of the module.

        Args:
            qualified_name: Its path, such as ``"layer1.weight"``.
            type_expr: Its type.
        """
        if self.owning_module is not None and not _has_member(self.owning_module, qualified_name):
            warn(
                f"the GraphModule has no parameter, buffer or module '{qualified_name}', which a "
                "get_attr node refers to; add it with add_submodule, register_parameter or "
                "register_buffer",
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Create a call of the submodule whose path is ``module_name``."""
        if self.owning_module is not None:
            self.owning_module.get_submodule(module_name)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Create a call of a method of ``args[0]``."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Create a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Create the output, which returns ``result``."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda node: node
    ) -> Node:
        """Copy a node of this or another graph.

        Args:
            node: The original; its `meta` is copied along.
            arg_transform: Maps the nodes among its arguments to nodes of this graph.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = copy.copy(node.meta)
        return copied

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False
    ) -> Any:
        """Copy the nodes of ``g``, except for its output, to the insert point.

        Args:
            g: Another graph.
            val_map: Is filled with the copy of each node of ``g``. Nodes that are already in it are
                not copied.
            return_output_node: Return the output node of ``g`` as well.

        Returns:
            The copy of the result of ``g``; ``None`` if it has no output.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda each: val_map[each])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda each: val_map[each])
        return None

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls)
        memo[id(self)] = copied
        copies: dict[Node, Any] = {}
        found = copied.graph_copy(self, copies, return_output_node=True)
        memo.update((id(node), each) for node, each in copies.items())
        copied._codegen = copy.deepcopy(self._codegen, memo)
        if found is not None:
            result, original = found
            copied.output(result, original.type).meta = copy.copy(original.meta)
        return copied

    # Changing

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Set the insert point before ``n``, permanently or for a ``with`` block.

        Args:
            n: A node of the graph; ``None`` is the beginning of the graph.
        """
        if n is None:
            return self.inserting_after(self._root)
        return self._inserting(n, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Set the insert point after ``n``, permanently or for a ``with`` block.

        Several new nodes end up in reverse order, since each is inserted directly after ``n``.

        Args:
            n: A node of the graph; ``None`` is the end of the graph.
        """
        if n is None:
            return self.inserting_before(self._root)
        return self._inserting(n, n.append)

    def _inserting(self, n: Node, insert: Callable[[Node], None]) -> _InsertPoint:
        if n.graph is not self:
            raise AssertionError(f"node '{n}' is not in the graph, so nothing can be put beside it")
        return _InsertPoint(self, insert)

    def erase_node(self, to_erase: Node) -> None:
        """Erase a node from the graph.

        Raises:
            RuntimeError: Other nodes use it, or it belongs to another graph.
        """
        if to_erase.users:
            raise RuntimeError(
                f"cannot erase node '{to_erase}': it still had {len(to_erase.users)} users in the "
                f"graph: {', '.join(map(str, to_erase.users))}; give them another input first"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"cannot erase node '{to_erase}' from another graph than its own")
        if to_erase._erased:
            warn(f"node '{to_erase}' is erased already")
            return
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs((), {})

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase the nodes whose value is not used.

        In-place operations count as pure: a call of ``x.add_(1)`` whose result is not used is
        erased. `has_side_effect` registers functions whose calls are kept.

        Args:
            is_impure_node: A predicate of nodes to keep in any case; by default `Node.is_impure`.

        Returns:
            Whether a node was erased.
        """
        self.lint()
        keeps = is_impure_node or Node.is_impure
        length = self._len
        for node in reversed(self.nodes):
            if not node.users and not keeps(node):
                self.erase_node(node)
        return self._len < length

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    def lint(self) -> None:
        """Check that the graph is well-formed.

        Raises:
            RuntimeError: A node uses a node of another graph or a later one, has a duplicate name,
                or refers to a member that the graph's module lacks.
        """
        names: set[str] = set()
        seen: set[Node] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"node '{node}' does not belong to this Graph")
            for each in node.all_input_nodes:
                if each.graph is not self:
                    raise RuntimeError(
                        f"node '{each}', an argument of '{node}', does not belong to this Graph; "
                        f"node_copy() can replace arguments when it copies\n{self}"
                    )
                if each not in seen:
                    raise RuntimeError(
                        f"node '{each}', an argument of '{node}', was used before it has been "
                        f"defined: nodes must be in topological order\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"two nodes of the graph have the name '{node.name}'")
            seen.add(node)
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                if node.op in ("get_attr", "call_module"):
                    _check_member(self.owning_module, node)

    # Code

    def python_code(self, root_module: str, *, verbose: bool = False) -> PythonCode:
        """The graph as Python code.

        Args:
            root_module: The name of the module in the code, usually ``"self"``.
            verbose: Add comments with source locations and known shapes.
        """
        # Names must be unique among the code's globals, too, so nodes may be renamed there.
        namespace = Namespace()
        shown = {node: node._repr_fn for node in self.nodes}
        for node in shown:
            node._repr_fn = lambda each: namespace.create_name(each.name, each)
        try:
            return self._codegen._gen_python_code(
                self.nodes, root_module, namespace, verbose=verbose
            )
        finally:
            for node, before in shown.items():
                node._repr_fn = before

    def set_codegen(self, codegen: CodeGen) -> None:
        """Set the code generator of the graph."""
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        """The placeholders' values, from the generated function's arguments."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """The generated function's result, from the output node's value."""
        return self._codegen.process_outputs(out)

    def on_generate_code(
        self, make_transformer: Callable[[Any], Callable[[list[str]], list[str]]]
    ) -> AbstractContextManager[None]:
        """Register a transformation of the generated code's lines.

        Args:
            make_transformer: Maps the current transformation, or ``None``, to its replacement,
                which takes and returns the statements of the body.

        Returns:
            A context manager; at its end the previous transformation is restored.
        """
        codegen = self._codegen
        before = codegen._body_transformer
        codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def restoring() -> Generator[None, None, None]:
            try:
                yield
            finally:
                codegen._body_transformer = before

        return restoring()


def _has_member(module: Any, path: str) -> bool:
    owner, _, name = path.rpartition(".")
    try:
        found = module.get_submodule(owner)
    except AttributeError:
        return False
    return any(name in table for table in (found._parameters, found._buffers, found._modules))


def _check_member(module: Any, node: Node) -> None:
    found = module
    for part in node.target.split("."):  # type: ignore[union-attr]
        found = getattr(found, part, None)
        if found is None:
            raise RuntimeError(
                f"node '{node}' refers to '{node.target}', a nonexistent attribute of the graph's "
                f"module: there is no '{part}'"
            )
    if node.op == "call_module" and not callable(found):
        raise RuntimeError(f"node '{node}' calls '{node.target}', which is not a module")
