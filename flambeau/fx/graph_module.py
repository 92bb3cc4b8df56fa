"""Modules whose ``forward`` is generated from a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.support.world import bump
from flambeau.core.values.tensor import Tensor
from flambeau.fx.codegen import PythonCode, predefined_globals
from flambeau.fx.graph import Graph
from flambeau.fx.tracer import Tracer
from flambeau.fx.tree_codegen import _PyTreeCodeGen
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

__all__ = ["GraphModule", "reduce_graph_module"]

#: The entry of `meta` whose attributes `copy.deepcopy` copies.
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"

_PRESERVED = ("_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")
_numbers = itertools.count()


class GraphModule(Module):
    """A module whose ``forward`` is generated from a `Graph`.

    It has the parameters, buffers and submodules that the graph refers to, and can be trained and
    compiled. After a change of the graph, `recompile` regenerates the code, which compiled
    functions notice.

    Args:
        root: The source of the graph's members: a module, or a dictionary of members by path.
        graph: The graph.
        class_name: The name of the class.

    Raises:
        RuntimeError: ``root`` lacks a member.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Python looks up `forward` on the class, so each instance has its own class.
        if "GraphModuleImpl" in vars(cls).get("__qualname__", cls.__qualname__).split("."):
            cls = cls.__mro__[1]
        result = type("GraphModuleImpl", (cls,), {"__module__": cls.__module__})
        return super().__new__(result)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        targets = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training: bool = getattr(root, "training", True)
            if isinstance(root, _CodeOnlyModule):
                # A copy also keeps members that the graph does not use.
                targets = [*(name for name, _ in _members(root)), *targets]
            for target in targets:
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            # Modules are assigned before their members, which would otherwise be overwritten.
            for target in sorted(targets, key=lambda each: each.count(".")):
                if target not in root:
                    raise RuntimeError(
                        f"the graph refers to '{target}', which is not in the given dictionary"
                    )
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"root must be a Module or a dict, got {type(root).__name__}")
        self.graph = graph
        tracer = graph._tracer_cls
        self._tracer_cls = tracer if tracer and "<locals>" not in tracer.__qualname__ else None
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = {}

    @property
    def graph(self) -> Graph:
        """The graph; assigning one regenerates the code."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"graph must be a Graph, got {type(g).__name__}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The generated code."""
        return self._code

    def recompile(self) -> PythonCode:
        """Regenerate the code after a change of the graph."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        generated = self._graph.python_code(root_module="self")
        self._code = generated.src
        type(self).forward = _forward_of(generated.src, generated.globals)
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()
        bump()
        return generated

    # Members

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a submodule, and empty modules along its path where they are missing.

        Args:
            target: Its path, such as ``"blocks.extra"``.
            m: The module.

        Returns:
            Whether it was added: ``False`` if its path leads through an object that is not a
                module.
        """
        *path, name = target.split(".")
        owner: Module = self
        for part in path:
            below = getattr(owner, part, None)
            if below is None:
                below = Module()
                setattr(owner, part, below)
            if not isinstance(below, Module):
                return False
            owner = below
        owner.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the submodule at the path ``target``; returns whether it existed."""
        owner_path, _, name = target.rpartition(".")
        try:
            owner = self.get_submodule(owner_path)
        except AttributeError:
            return False
        if not isinstance(getattr(owner, name, None), Module):
            return False
        delattr(owner, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete the submodules that the graph neither calls nor takes members from."""
        used = {""}
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                used.update(itertools.accumulate(node.target.split("."), "{}.{}".format))
            if node.op == "call_module":
                called = dict(self.named_modules()).get(node.target)
                below = called.named_modules(prefix=node.target) if called is not None else ()
                used.update(name for name, _ in below)
        for name in [name for name, _ in self.named_modules() if name not in used]:
            self.delete_submodule(name)

    # Text

    def print_readable(self, print_output: bool = True) -> str:
        """The code of this GraphModule and its descendants, with known shapes.

        Args:
            print_output: Print it as well.
        """
        text = _readable(self, self._get_name())
        if print_output:
            print(text)  # noqa: T201 - what the method is for
        return text

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, hint])

    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        """Not supported: pickle the module, or save its `state_dict` and `code`.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "GraphModule.to_folder() does not exist here; pickle the module, or write its code and "
            "save its state_dict()"
        )

    # Copies and pickles

    def __reduce__(self) -> Any:
        generated = self.recompile()
        state = self.__dict__.copy()
        del state["_graph"]
        state.pop("_compiled_call_impl", None)
        state["_graphmodule_cls_name"] = type(self).__name__
        return reduce_graph_module, (state, _import_block(generated.globals))

    def _deepcopy_init(self) -> Callable[..., None]:
        # Subclasses with another ``__init__`` override it.
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        result = type(self).__new__(type(self))
        memo[id(self)] = result
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        copied = _CodeOnlyModule(copy.deepcopy(state, memo))
        self._deepcopy_init()(result, copied, copied.__dict__["_graph"])
        type(result).__name__ = type(self).__name__
        for name in _PRESERVED:
            result.__dict__[name] = copied.__dict__[name]
        result.meta = copied.__dict__.get("meta", {})
        for name, value in result.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(result, name, value)
        return result

    def __copy__(self) -> Any:
        result = GraphModule(self, self.graph, type(self).__name__)
        result.meta = self.meta
        return result


class _CodeOnlyModule(Module):
    """The members of a GraphModule during copying or unpickling."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body
        # State that `Module.__setstate__` restores.
        self.__setstate__({})


def reduce_graph_module(body: dict[str, Any], import_block: str) -> Module:
    """Restore a GraphModule from its pickle, by retracing its code.

    Args:
        body: The state of the module, and its code.
        import_block: The imports that the code needs.
    """
    forward = _forward_of(f"{import_block}\n{body['_code']}", {})
    module = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})(body)
    tracer: Any = body.get("_tracer_cls") or Tracer

    class KeepModules(tracer):
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    graph = KeepModules().trace(module, **body.get("_tracer_extras", {}))
    graph._tracer_cls = tracer
    result = GraphModule(module, graph, body.pop("_graphmodule_cls_name", "GraphModule"))
    for name, value in body.items():
        if not hasattr(result, name):
            setattr(result, name, value)
    return result


def _forward_of(source: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    """Compile ``source`` and return its function ``forward``, with lines for tracebacks."""
    namespace = dict(namespace)
    name = f"<eval_with_key>.{next(_numbers)}"
    exec(compile(source, name, "exec", dont_inherit=True), namespace)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return namespace["forward"]


def _import_block(namespace: dict[str, Any]) -> str:
    """The import statements of the code's globals."""
    predefined = predefined_globals()
    return "\n".join(
        sorted(
            predefined[name].import_line if name in predefined else _import_line(name, obj)
            for name, obj in namespace.items()
        )
    )


def _import_line(name: str, obj: Any) -> str:
    if hasattr(obj, "__path__") or type(obj).__name__ == "module":
        return f"import {obj.__name__} as {name}"
    home, path = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if home is None or path is None or not path.isidentifier():
        raise RuntimeError(
            f"cannot pickle the GraphModule: its code calls {obj!r}, which is not a global of a "
            "module that can be imported"
        )
    return f"from {home} import {path} as {name}"


def _members(module: Module) -> Any:
    yield from module.named_children()
    yield from module.named_buffers()
    yield from module.named_parameters()


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Copy the member at a path to ``to_module``, with the modules along the path."""
    *path, name = target.split(".")
    for part in path:
        source, below = getattr(from_module, part), getattr(to_module, part, None)
        if source is below:
            # The whole module is copied already, with its members.
            return
        if below is None:
            below = Module()
            setattr(to_module, part, below)
        from_module, to_module = source, below
    _put(to_module, name, getattr(from_module, name))


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    """Set the member of a module at a path, with the modules along the path."""
    *path, name = target.split(".")
    for part in path:
        below = getattr(to_module, part, None)
        if below is None:
            below = Module()
            setattr(to_module, part, below)
        to_module = below
    _put(to_module, name, from_obj)


def _put(owner: Module, name: str, member: Any) -> None:
    if isinstance(member, Tensor) and not isinstance(member, Parameter):
        owner.register_buffer(name, member)
    else:
        setattr(owner, name, member)


def _get_attr(model: Module, attr_name: str) -> Any:
    """The member of a module at a path."""
    found: Any = model
    for part in attr_name.split("."):
        found = getattr(found, part)
    return found


def _readable(module: GraphModule, name: str) -> str:
    source = module.graph.python_code("self", verbose=True).src.lstrip("\n")
    text = f"class {name}({Module.__module__.partition('.')[0]}.nn.Module):\n{source}"
    parts = [_indented(text)]
    for child_name, child in module.named_children():
        if isinstance(child, GraphModule):
            parts.append(_indented(_readable(child, child_name)))
    return "\n".join(parts)


def _indented(text: str) -> str:
    first, *others = text.split("\n")
    return "\n".join([first, *(f"    {line}" for line in others)])
