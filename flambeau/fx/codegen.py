"""The Python code of a graph."""

from __future__ import annotations

import enum
import math
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from flambeau.core.devices.device import device
from flambeau.core.support import naming
from flambeau.core.values.tensor import Tensor
from flambeau.fx.names import Namespace, is_reachable, qualified_name, type_text
from flambeau.fx.node import Node
from flambeau.fx.operator_texts import inplace_methods, magic_methods

__all__ = ["CodeGen", "PythonCode"]

# Types of `typing` for these builtins.
_GENERIC = {
    list: typing.List,  # noqa: UP006
    dict: typing.Dict,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}


@dataclass
class PythonCode:
    """The code of a graph, and its globals.

    Attributes:
        src: A definition of the function ``forward``.
        globals: The objects that the code refers to, by name.
    """

    src: str
    globals: dict[str, Any]


class Predefined(NamedTuple):
    """A global of all generated code: the object, and the line that imports it."""

    obj: Any
    import_line: str


def predefined_globals() -> dict[str, Predefined]:
    """The globals of all generated code, by name."""
    package = naming.package
    alias = "" if package == "flambeau" else f" as {package}"
    return {
        "inf": Predefined(math.inf, "from math import inf"),
        "nan": Predefined(math.nan, "from math import nan"),
        "NoneType": Predefined(type(None), "NoneType = type(None)"),
        package: Predefined(import_module("flambeau"), f"import flambeau{alias}"),
        "device": Predefined(device, "from flambeau import device"),
    }


class CodeGen:
    """The signature and return statement of a graph's code, which can be replaced."""

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The signature of the function.

        Args:
            free_vars: The parameters, with annotations and defaults.
            maybe_return_annotation: The return annotation, such as ``" -> int"``.
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(
        self, output_args: Any, *, repr_fn: Callable[[Any], str] | None = None
    ) -> str:
        """The ``return`` statement."""
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """The placeholders' values, from the function's arguments."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """The function's result, from the output node's value."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Additional globals of the code."""
        return []

    def _gen_python_code(
        self, nodes: Iterable[Any], root_module: str, namespace: Namespace, *, verbose: bool = False
    ) -> PythonCode:
        writer = _Writer(self, list(nodes), root_module, namespace, verbose)
        body = writer.body() or ["pass\n"]
        if self._body_transformer:
            body = self._body_transformer(body)
        for name, value in self.additional_globals():
            writer.globals[name] = value
        head = self.gen_fn_def(writer.parameters, writer.return_annotation)
        code = "\n".join(f"    {line}" for line in "".join(body).lstrip("\n").split("\n"))
        return PythonCode(f"\n{writer.wrap_statements()}\n\n{head}\n{code}", writer.globals)


class _Writer:
    """Writes the statements of a graph, node by node."""

    def __init__(
        self,
        codegen: CodeGen,
        nodes: list[Node],
        root_module: str,
        namespace: Namespace,
        verbose: bool,
    ) -> None:
        self.codegen = codegen
        self.nodes = nodes
        self.root_module = root_module
        self.namespace = namespace
        self.verbose = verbose
        self.globals: dict[str, Any] = {}
        self.parameters: list[str] = []
        self.return_annotation = ""
        self.wrapped: dict[str, None] = {}
        self._last_comment: str | None = None
        for name, predefined in predefined_globals().items():
            namespace.associate_name_with_obj(name, predefined.obj)
            self.globals[name] = predefined.obj

    def body(self) -> list[str]:
        dying = _last_uses(self.nodes)
        lines: list[str] = []
        for node in self.nodes:
            if self.verbose and node.op not in ("placeholder", "output"):
                lines.extend(self._comment(node))
            statement = getattr(self, f"_{node.op}")(node)
            if statement is None:
                continue
            dead = dying.get(node, [])
            if not node.users and node.op not in ("placeholder", "output"):
                dead = [*dead, node]
            free = node.op not in ("placeholder", "output") and dead
            freeing = f";  {' = '.join([*map(repr, dead), 'None'])}" if free else ""
            lines.append(f"{statement}{freeing}\n")
        return lines

    def wrap_statements(self) -> str:
        """Calls of `wrap`, which retracing the code needs."""
        if not self.wrapped:
            return ""
        wrap = f"{naming.package}.fx._symbolic_trace.wrap"
        return "\n".join(f'{wrap}("{name}")' for name in self.wrapped)

    def add_global(self, hint: str, obj: Any) -> str:
        """Register ``obj`` as a global and return its name."""
        if is_reachable(obj) and obj is not device:
            return qualified_name(obj)
        name = self.namespace.create_name(hint, obj)
        self.globals[name] = obj
        return name

    # One method for each opcode: its statement, or None.

    def _placeholder(self, node: Node) -> str | None:
        default = f" = {self._text(node.args[0])}" if node.args else ""
        self.parameters.append(f"{node.target}{self._annotation(node)}{default}")
        name = str(node.target).replace("*", "")
        return None if name == repr(node) else f"{node!r} = {name}"

    def _get_attr(self, node: Node) -> str:
        return self._assigned(node, _path(self.root_module, str(node.target)))

    def _call_module(self, node: Node) -> str:
        called = _path(self.root_module, str(node.target))
        return self._assigned(node, f"{called}({self._arguments(node.args, node.kwargs)})")

    def _call_method(self, node: Node) -> str:
        called = _path(self._text(node.args[0]), str(node.target))
        return self._assigned(node, f"{called}({self._arguments(node.args[1:], node.kwargs)})")

    def _call_function(self, node: Node) -> str:
        target: Any = node.target
        if getattr(target, "__module__", "") == "_operator":
            operands = [self._text(each) for each in node.args]
            if target.__name__ in magic_methods:
                return self._assigned(node, magic_methods[target.__name__].format(*operands))
            if target.__name__ in inplace_methods:
                written = inplace_methods[target.__name__].format(*operands)
                return f"{written};  {self._assigned(node, operands[0])}"
        if target is getattr and len(node.args) == 2 and _is_name(node.args[1]):
            return self._assigned(node, _path(self._text(node.args[0]), node.args[1]))
        called = self.add_global(qualified_name(target), target)
        if node.meta.get("is_wrapped", False):
            self.wrapped[called] = None
        return self._assigned(node, f"{called}({self._arguments(node.args, node.kwargs)})")

    def _output(self, node: Node) -> str:
        if node.type is not None:
            self.return_annotation = f" -> {self._type(node.type)}"
        return self.codegen.generate_output(node.args[0], repr_fn=self._text)

    # Parts of statements

    def _assigned(self, node: Node, value: str) -> str:
        return f"{node!r}{self._annotation(node)} = {value}"

    def _annotation(self, node: Node) -> str:
        if self.verbose:
            noted: Any = node.meta.get("tensor_meta", node.meta.get("val"))
            if hasattr(noted, "dtype") and hasattr(noted, "shape"):
                return f': "{_short_dtype(noted.dtype)}{list(noted.shape)}"'
        return "" if node.type is None else f" : {self._type(node.type)}"

    def _arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        named = [f"{name} = {self._text(each)}" for name, each in kwargs.items()]
        return ", ".join([*map(self._text, args), *named])

    def _text(self, argument: Any) -> str:
        """The expression for an argument."""
        if isinstance(argument, tuple):
            if hasattr(argument, "_fields"):
                kind = self.add_global(qualified_name(type(argument)), type(argument))
                return f"{kind}({', '.join(map(self._text, argument))})"
            comma = "," if len(argument) == 1 else ""
            return f"({', '.join(map(self._text, argument))}{comma})"
        if isinstance(argument, list):
            return f"[{', '.join(map(self._text, argument))}]"
        if isinstance(argument, dict):
            members = (f"{key!r}: {self._text(value)}" for key, value in argument.items())
            return f"{{{', '.join(members)}}}"
        if isinstance(argument, slice):
            bounds = (argument.start, argument.stop, argument.step)
            return f"slice({', '.join(map(self._text, bounds))})"
        if isinstance(argument, enum.Enum):
            return f"{self.add_global(type(argument).__name__, type(argument))}.{argument.name}"
        if isinstance(argument, Tensor):
            raise RuntimeError(
                f"a Tensor of shape {list(argument.shape)} among a node's arguments cannot be "
                "written as code; make it a member of the module, and use a get_attr node"
            )
        return repr(argument)

    def _type(self, kind: Any) -> str:
        """The annotation for a type."""
        if isinstance(kind, tuple) and not kind:
            return "()"
        if isinstance(kind, types.UnionType):
            return "|".join(map(self._type, typing.get_args(kind)))
        origin = getattr(kind, "__origin__", None)
        if origin is None:
            return self.add_global(type_text(kind), kind)
        if isinstance(kind, typing._GenericAlias):  # type: ignore[attr-defined]
            origin = _GENERIC.get(origin, origin)
        name = self.add_global(type_text(origin), origin)
        members = typing.get_args(kind)
        return f"{name}[{','.join(map(self._type, members))}]" if members else name

    def _comment(self, node: Node) -> list[str]:
        """The node's source location, unless the previous node has the same one."""
        where = "No stacktrace found for following nodes"
        if node.stack_trace:
            lines = node.stack_trace.strip().split("\n")
            places = [n for n, line in enumerate(lines) if line.strip().startswith("File ")]
            if places:
                code = lines[places[-1] + 1].strip() if places[-1] + 1 < len(lines) else ""
                where = f"{lines[places[-1]].strip()}, code: {code}"
        comment = f"\n# {where}\n"
        if comment == self._last_comment:
            return []
        self._last_comment = comment
        return [comment]


def _last_uses(nodes: list[Node]) -> dict[Node, list[Node]]:
    """For each node, the values whose last use it is."""
    seen: set[Node] = set()
    dying: dict[Node, list[Node]] = {}
    for user in reversed(nodes):
        for each in user.all_input_nodes:
            if each not in seen:
                seen.add(each)
                dying.setdefault(user, []).append(each)
    return dying


def _path(base: str, target: str) -> str:
    """The expression for the attribute of ``base`` at a path, whose parts may be numbers."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _short_dtype(dtype: Any) -> str:
    """The abbreviation of a dtype: ``f32``, ``i64``, ``b8``."""
    name = str(dtype).rpartition(".")[2]
    letters = name.rstrip("0123456789")
    short = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c", "bool": "b8"}
    return f"{short.get(letters, letters)}{name.removeprefix(letters)}"
