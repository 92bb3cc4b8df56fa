"""Running a graph node by node."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule, _get_attr
from flambeau.fx.node import Argument, Node, Target, map_aggregate, map_arg
from flambeau.fx.proxy import Proxy, proxies_expected
from flambeau.fx.tracer import Tracer
from flambeau.nn.module import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a `GraphModule` node by node; subclasses override the execution of opcodes.

    Args:
        module: The module that has the graph and its members.
        garbage_collect_values: Free each value after its last use; otherwise `env` keeps all of
            them.
        graph: The graph, if it is not ``module.graph``.

    >>> import flambeau
    >>> from flambeau import fx
    >>> class Doubling(fx.Interpreter):
    ...     def call_method(self, target, args, kwargs):
    ...         return 2 * super().call_method(target, args, kwargs)
    >>> Doubling(fx.symbolic_trace(lambda x: x.neg() + 1)).run(flambeau.ones(2))
    tensor([-1., -1.])
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.submodules: dict[str, Any] = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        # Whether errors name the failing node.
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for user in reversed(self.graph.nodes):
            for each in user.all_input_nodes:
                if each not in seen:
                    seen.add(each)
                    self.user_to_last_uses.setdefault(user, []).append(each)

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Run the graph.

        Args:
            args: The module's arguments, by position.
            initial_env: Values of nodes that are not to be run.
            enable_io_processing: Flatten arguments and unflatten the result as the generated code
                does.

        Returns:
            The module's result. A note with the node's name is added to errors.
        """
        self.env = {} if initial_env is None else initial_env
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    error.add_note(f"While executing {node.format_node()}")
                    if node.stack_trace:
                        error.add_note(f"Original traceback:\n{node.stack_trace}")
                raise
            if self.garbage_collect_values:
                for each in self.user_to_last_uses.get(node, ()):
                    self.env.pop(each, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph on the arguments in a list, which is emptied.

        Raises:
            RuntimeError: The number of arguments differs from the number of placeholders.
        """
        inputs = [node for node in self.graph.nodes if node.op == "placeholder"]
        if len(inputs) != len(args_list):
            raise RuntimeError(
                f"the graph has {len(inputs)} placeholders, but got {len(args_list)} arguments"
            )
        values = dict(zip(inputs, args_list, strict=True))
        args_list.clear()
        return self.run(initial_env=values)

    def run_node(self, n: Node) -> Any:
        """Run one node, by the method that is named after its opcode."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    # One method for each opcode

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument, or the default.

        Raises:
            RuntimeError: There is none.
        """
        assert isinstance(target, str)
        if target.startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but got none")

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The member of the module at the path ``target``."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function ``target``."""
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the method ``target`` of the first of ``args``."""
        return getattr(args[0], str(target))(*args[1:], **kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the submodule at the path ``target``."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the graph."""
        return args[0]

    # Values

    def fetch_attr(self, target: str) -> Any:
        """The member of the module at a path.

        Raises:
            RuntimeError: There is none.
        """
        try:
            return _get_attr(self.module, target)
        except AttributeError as error:
            raise RuntimeError(
                f"the graph refers to '{target}', a nonexistent target of the module: {error}"
            ) from error

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of a node's arguments."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """``args`` with nodes replaced by their values.

        Raises:
            RuntimeError: A node has no value.
        """

        def value_of(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"node '{n}' referenced nonexistent value '{node}'; Graph.lint() says what is "
                    "wrong with the graph"
                )
            return self.env[node]

        return map_arg(args, value_of)


class _LeavesOnly(Tracer):
    """A tracer into an existing graph, in which calls of modules remain calls."""

    def __init__(self, graph: Graph, root: Module) -> None:
        super().__init__()
        self.graph = graph
        self.root = root

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Runs a `GraphModule` on proxies to build a new one; subclasses override opcodes.

    >>> import flambeau
    >>> from flambeau import fx
    >>> class Swapping(fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         if target is flambeau.sigmoid:
    ...             return flambeau.tanh(*args, **kwargs)
    ...         return super().call_function(target, args, kwargs)
    >>> swapped = Swapping(fx.symbolic_trace(lambda x: flambeau.sigmoid(x) + 1)).transform()
    >>> [node.name for node in swapped.graph.nodes]
    ['x', 'tanh', 'add', 'output']
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph: Graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer: _LeavesOnly = _LeavesOnly(self.new_graph, module)

    def run_node(self, n: Node) -> Any:
        """Run one node; the new node keeps its metadata."""
        result = super().run_node(n)
        if isinstance(result, Proxy):
            for name in ("stack_trace", "nn_module_stack", "is_wrapped"):
                if name in n.meta:
                    result.node.meta.setdefault(name, n.meta[name])
        return result

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """Create the same input in the new graph."""
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """Create the same ``get_attr`` node in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Create the same call in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Create the same call in the new graph, by the tracer."""
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module."""
        with proxies_expected():
            result = self.run(enable_io_processing=False)
        if result is not None:
            returned = map_aggregate(
                result, lambda each: each.node if isinstance(each, Proxy) else each
            )
            self.new_graph.output(returned).meta.update(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph)
