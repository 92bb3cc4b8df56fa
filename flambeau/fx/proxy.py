"""Proxies, which record operations on themselves, and the base class of tracers."""

from __future__ import annotations

import copy
import enum
import opcode
import operator
import os
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from flambeau.core.operators.function_modes import expect_stand_ins
from flambeau.core.values.tensor import Size
from flambeau.fx.names import is_method, name_of_target
from flambeau.fx.node import Argument, Node, Target, base_types, map_aggregate, map_arg
from flambeau.fx.operator_texts import magic_methods, reflectable_magic_methods
from flambeau.fx.recorded_arguments import as_recorded
from flambeau.nn.parameter import Parameter

__all__ = [
    "Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope", "ScopeContextManager",
    "TraceError", "TracerBase", "assert_fn",
]  # fmt: skip

_UNPACK = opcode.opmap["UNPACK_SEQUENCE"]
_EXTENDED = opcode.opmap["EXTENDED_ARG"]
_FOLDER = os.path.join(Path(__file__).parent.parent, "")


class _Expected(threading.local):
    """Whether functions of this package check for proxies.

    Attributes:
        scopes: The number of open blocks of this thread.
    """

    scopes = 0
    always = False


_expected = _Expected()


@contextmanager
def proxies_expected() -> Generator[None, None, None]:
    """A context manager under which functions of this package check for proxies."""
    _expected.scopes += 1
    expect_stand_ins(True)
    try:
        yield
    finally:
        _expected.scopes -= 1
        expect_stand_ins(False)


def _expect_from_now_on() -> None:
    """Check for proxies permanently, since the lifetime of this one is unknown."""
    if not _Expected.always:
        _Expected.always = True
        expect_stand_ins(True)


class TraceError(ValueError):
    """An operation depends on the value of a Proxy, which is unknown during tracing."""


class Scope:
    """The module whose ``forward`` is being traced: its path and its class."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """A context manager that temporarily replaces the values of a `Scope`."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope = scope
        self._before = copy.copy(scope)
        vars(scope).update(vars(current_scope))

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exception: object) -> None:
        vars(self._scope).update(vars(self._before))


class TracerBase:
    """Creates nodes for operations on proxies."""

    graph: Any
    #: Whether nodes record their source location, as `Node.stack_trace`.
    record_stack_traces: bool = False
    #: Whether ``assert proxy`` becomes a node instead of an error.
    trace_asserts: bool = False
    #: Whether reads of buffers return proxies, too.
    proxy_buffer_attributes: bool = False
    #: The name of the root module's method to trace.
    traced_func_name: str = "forward"

    scope: Scope
    #: The modules that are being traced, from the root: path to path and class.
    module_stack: dict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Create a node; subclasses may override it to check or change the recording."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if self.module_stack:
            node.meta["nn_module_stack"] = self.module_stack.copy()
        if self.record_stack_traces:
            node.stack_trace = _stack_trace()
        return node

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a new node; subclasses may override it to return their own class."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Create a node whose arguments may contain proxies.

        Returns:
            Its proxy, from ``proxy_factory_fn`` if given.
        """
        node = self.create_node(
            kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr
        )
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Argument:
        """Convert a value to a node argument, with nodes in place of proxies.

        Raises:
            NotImplementedError: The type is not supported in node arguments.
            RuntimeError: A proxy is among the keys of a dictionary.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            members = [self.create_arg(each) for each in a]
            if hasattr(a, "_fields"):
                return type(a)(*members)
            return tuple(members) if type(a) is Size else type(a)(members)
        if isinstance(a, list):
            return [self.create_arg(each) for each in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(each) for each in (a.start, a.stop, a.step)))
        if a is None or a is ... or isinstance(a, (*base_types, range, enum.Enum)):
            return a
        if is_dataclass(a) and not isinstance(a, type):
            values = {each.name: self.create_arg(getattr(a, each.name)) for each in fields(a)}
            return self.create_node("call_function", type(a), (), values)
        raise NotImplementedError(
            f"argument of type: {type(a)} cannot stand in a graph; override create_arg() of the "
            "Tracer, or wrap() the function that takes it"
        )

    def _key(self, key: Any) -> Any:
        if isinstance(key, str):
            return key
        lowered = self.create_arg(key)

        def refuse(node: Node) -> None:
            raise RuntimeError(
                f"keys for dictionaries cannot contain a Node, but one has '{node}': its value is "
                "not known while tracing"
            )

        map_arg(lowered, refuse)
        return lowered

    def to_bool(self, obj: Proxy) -> bool:
        """The truth value of a proxy, which is unknown; subclasses may override it."""
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow: whether "
            f"{obj} is true is not known while tracing; pass the value by concrete_args, or wrap() "
            "the function that asks"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """An iterator over a proxy, whose length is unknown; subclasses may override it."""
        raise TraceError(
            f"Proxy object cannot be iterated: how many elements {obj} has is not known while "
            "tracing; index it in a loop of known length, unpack it into names, or wrap() the "
            "function that iterates"
        )

    def keys(self, obj: Proxy) -> Any:
        """The result of ``obj.keys()``, which Python also calls for ``**obj``."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Appends operations on proxies to a graph outside of tracing."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.scope: Scope = Scope("", None)
        self.module_stack: dict[str, tuple[str, Any]] = {}
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}


def assert_fn(x: object) -> None:
    """Create the node of ``assert x``, for a tracer with ``trace_asserts = True``."""
    assert x, "the traced assertion failed"


class Proxy:
    """The unknown value of a node, which records all operations on it.

    Operators, methods, attributes and functions of tensors return further proxies. A proxy of a
    node in a finished graph appends to the graph at its insert point:

    >>> import flambeau
    >>> from flambeau import fx
    >>> traced = fx.symbolic_trace(lambda x: x + 1)
    >>> x, add, output = traced.graph.nodes
    >>> with traced.graph.inserting_before(output):
    ...     output.args = ((fx.Proxy(add) * 2).node,)
    >>> _ = traced.recompile()
    >>> traced(flambeau.ones(2))
    tensor([4., 4.])

    Args:
        node: The node.
        tracer: The tracer; by default, one that appends to the node's graph.
    """

    if TYPE_CHECKING:
        # Python's operators are defined below.
        __getitem__: Any

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer: GraphAppendingTracer | TracerBase = (
            GraphAppendingTracer(node.graph) if tracer is None else tracer
        )
        self.node = node
        if not _expected.scopes:
            _expect_from_now_on()

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        # Without this method, Python would use the Attribute of the same name.
        copied = object.__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        # ``a, b = proxy`` determines the number of elements.
        count = _unpacked(sys._getframe(1))
        return self.tracer.iter(self) if count is None else iter([self[i] for i in range(count)])

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_asserting(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """The tracer's result for ``keys()``, which ``**proxy`` calls."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default; to have the call recorded, "
            "call flambeau.fx.wrap('len') at the top level of the module that uses it"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Proxy:
        args, kwargs = tuple(args), dict(kwargs or {})
        tracers: dict[TracerBase, None] = {}

        def note(value: Any) -> None:
            if isinstance(value, Proxy):
                tracers[value.tracer] = None

        map_aggregate((args, kwargs), note)
        if len(tracers) > 1:
            raise RuntimeError(
                f"found multiple different tracers among the arguments of {orig_method}: proxies "
                "of one trace cannot be used in another"
            )
        (tracer,) = tracers
        if is_method(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        args, kwargs = as_recorded(orig_method, args, kwargs)
        name = name_of_target(orig_method)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=name)


class Attribute(Proxy):
    """An attribute of a proxy. It is recorded on its first use, unless it is called as a method."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer: GraphAppendingTracer | TracerBase = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:
        """The node that reads the attribute."""
        if self._node is None:
            read = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = read.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """The proxy of a parameter with known sizes; see `Tracer`'s ``param_shapes_constant``."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Parameter) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, Parameter):
            raise AssertionError(f"param must be a Parameter, got {type(param).__name__}")
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Size:
        """The parameter's sizes."""
        return self.param.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions that it has."""
        return self.param.ndim

    def size(self) -> Size:
        """The parameter's sizes."""
        return self.param.size()

    def dim(self) -> int:
        """The number of dimensions that it has."""
        return self.param.dim()

    def numel(self) -> int:
        """The number of elements that it has."""
        return self.param.numel()

    def nelement(self) -> int:
        """The number of elements that it has."""
        return self.param.nelement()


def _define_operators() -> None:
    def recording(target: Callable[..., Any]) -> Callable[..., Any]:
        def record(self: Proxy, *others: Any) -> Proxy:
            return self.tracer.create_proxy("call_function", target, (self, *others), {})

        return record

    def recording_reflected(target: Callable[..., Any]) -> Callable[..., Any]:
        def record(self: Proxy, other: Any) -> Proxy:
            return self.tracer.create_proxy("call_function", target, (other, self), {})

        return record

    for name in magic_methods:
        setattr(Proxy, f"__{name.strip('_')}__", recording(getattr(operator, name)))
    for name in reflectable_magic_methods:
        setattr(Proxy, f"__r{name.strip('_')}__", recording_reflected(getattr(operator, name)))


_define_operators()


def _unpacked(frame: FrameType) -> int | None:
    """The number of names that the running instruction unpacks into, if it does."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] != _UNPACK:
        return None
    more = code[at - 1] << 8 if at >= 2 and code[at - 2] == _EXTENDED else 0
    return more | code[at + 1]


def _is_asserting(frame: FrameType) -> bool:
    """Whether the running instruction belongs to an ``assert`` statement."""
    code, at = frame.f_code.co_code, frame.f_lasti
    names = [opcode.opname[code[i]] for i in range(at, min(at + 12, len(code)), 2)]
    if names and names[0] == "TO_BOOL":
        names = names[1:]
    following = [name for name in names if name not in ("CACHE", "EXTENDED_ARG", "NOT_TAKEN")]
    jumps = following[:1] and following[0] in ("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE")
    return bool(jumps) and following[1:2] == ["LOAD_ASSERTION_ERROR"]


def _stack_trace() -> str:
    """The traced program's stack from its ``forward``, without this package's frames."""
    stack = traceback.extract_stack()
    begin = next((n for n, each in enumerate(stack) if each.name == "forward"), len(stack))
    own = [each for each in stack[begin:] if not each.filename.startswith(_FOLDER)]
    return "".join(traceback.StackSummary.from_list(own).format()).strip()
