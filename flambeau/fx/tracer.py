"""The tracer, which runs a module on proxies to record its computation."""

from __future__ import annotations

import collections
import copy
import math
import threading
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

from flambeau.core.support import naming
from flambeau.core.values.tensor import Tensor
from flambeau.fx.graph import Graph
from flambeau.fx.node import Argument, map_aggregate
from flambeau.fx.patching import Patcher
from flambeau.fx.placeholders import Placeholders, annotations_of
from flambeau.fx.proxy import (
    ParameterProxy,
    Proxy,
    Scope,
    ScopeContextManager,
    TracerBase,
    proxies_expected,
)
from flambeau.nn.module import Module
from flambeau.nn.modules.container import Sequential
from flambeau.nn.parameter import Parameter
from flambeau.rare import functional_forms as _functional_forms  # noqa: F401 (knows proxies, too)

__all__ = ["ProxyableClassMeta", "Tracer", "is_fx_symbolic_tracing", "is_fx_tracing"]

_plain_getattr = Module.__getattr__
_plain_call = Module.__call__
_proxyable_classes: dict[type, None] = {}


class _Tracing(threading.local):
    depth = 0


_tracing = _Tracing()


def is_fx_tracing() -> bool:
    """Whether this thread is tracing a module."""
    return _tracing.depth > 0


def is_fx_symbolic_tracing() -> bool:
    """The same as `is_fx_tracing`."""
    return is_fx_tracing()


class ProxyableClassMeta(type):
    """A metaclass of classes whose construction from proxies is recorded."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable_classes[cls] = None
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        found: list[Proxy] = []
        if is_fx_tracing():
            map_aggregate(
                (args, kwargs),
                lambda each: found.append(each) if isinstance(each, Proxy) else None,
            )
        if found:
            return found[0].tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class Tracer(Placeholders, TracerBase):
    """Traces modules and functions into a `Graph`; `symbolic_trace` uses one.

    Subclasses override the modules that are traced into (`is_leaf_module`), the recording of module
    calls (`call_module`), attribute reads (`getattr`) and the conversion of arguments
    (`create_arg`).

    Args:
        autowrap_modules: Modules whose functions are recorded as single nodes, as if by `wrap`.
        autowrap_functions: Functions that are recorded as single nodes.
        param_shapes_constant: Whether the sizes of parameters are numbers instead of proxies.

    >>> import flambeau
    >>> from flambeau import fx, nn
    >>> class Whole(fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return True
    >>> model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Tanh())
    >>> print(Whole().trace(model))
    graph():
        %input_1 : [num_users=1] = placeholder[target=input]
        %_0 : [num_users=1] = call_module[target=0](args = (%input_1,), kwargs = {})
        %_1 : [num_users=1] = call_module[target=1](args = (%_0,), kwargs = {})
        return _1
    """

    module_stack: Any

    def __init__(
        self,
        autowrap_modules: Iterable[ModuleType] = (math,),
        autowrap_functions: Iterable[Callable[..., Any]] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_search = list(autowrap_modules)
        self._autowrap_function_ids = {id(each) for each in autowrap_functions} | {
            id(value)
            for module in self._autowrap_search
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self.param_shapes_constant = param_shapes_constant
        self.root: Any = None
        self.root_module_name = ""
        self.submodule_paths: dict[Module, str] | None = None
        #: The path of each tensor that is a plain attribute of a module.
        self.tensor_attrs: dict[Any, str] = {}
        self.scope: Scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        copied = object.__new__(type(self))
        memo[id(self)] = copied
        for name, value in self.__dict__.items():
            # Python modules cannot be copied.
            keeps = name == "_autowrap_search"
            copied.__dict__[name] = copy.copy(value) if keeps else copy.deepcopy(value, memo)
        return copied

    def trace(self, root: Any, concrete_args: Any = None) -> Graph:
        """Record the computation of ``root``.

        `Tracer.root` is then the module that the graph's nodes refer to: ``root`` itself, or an
        empty module with the tensors that a function closes over.

        Args:
            root: A module or a function.
            concrete_args: Values of arguments that do not become proxies; see `symbolic_trace`.

        Raises:
            TypeError: ``root`` is neither a module nor a Python function.
            TraceError: The control flow depends on the values of the inputs.
        """
        if isinstance(root, Module):
            self.root = root
            function: Any = getattr(type(root), self.traced_func_name, None)
            self.root_module_name: str = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, function = Module(), root
        if not isinstance(function, FunctionType):
            raise TypeError(
                "only a module whose forward is a Python function, or such a function, can be "
                f"traced, got {type(root).__name__}: {root!r:.80}"
            )
        self.graph: Any = Graph(tracer_cls=type(self))
        self.tensor_attrs = dict(_tensor_attributes(self.root))
        namespace = function.__globals__
        _tracing.depth += 1
        try:
            with proxies_expected():
                called, args = self.create_args_for_root(
                    function, isinstance(root, Module), concrete_args
                )
            with proxies_expected(), Patcher() as patcher:
                self._patch_modules(patcher)
                patcher.wrap_registered()
                for each in (namespace, *map(vars, self._autowrap_search)):
                    patcher.wrap_known(each, self._autowrap_function_ids)
                result = self.create_arg(called(*args))
                kind = annotations_of(called).get("return")
                self.create_node("output", "output", (result,), {}, type_expr=kind)
        finally:
            _tracing.depth -= 1
            self.submodule_paths = None
        return self.graph

    def _patch_modules(self, patcher: Patcher) -> None:
        """Redirect reads of parameters and calls of modules to this tracer, in this thread."""
        thread = threading.get_ident()
        proxies: dict[str, Proxy] = {}

        def read(module: Module, name: str) -> Any:
            value = _plain_getattr(module, name)
            if threading.get_ident() != thread:
                return value
            return self.getattr(name, value, proxies)

        def call(module: Module, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != thread:
                return _plain_call(module, *args, **kwargs)

            def forward(*args: Any, **kwargs: Any) -> Any:
                return _plain_call(module, *args, **kwargs)

            namespace = getattr(module.forward, "__globals__", {})
            patcher.wrap_known(namespace, self._autowrap_function_ids)
            return self.call_module(module, forward, args, kwargs)

        patcher.patch_member(Module, "__getattr__", read)
        patcher.patch_member(Module, "__call__", call)

    # Methods that subclasses may override

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of ``m`` is one node, instead of being traced into.

        By default this holds for the layers in `flambeau.nn` except `Sequential`.
        """
        return naming.module_of(type(m)).startswith("flambeau.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of ``mod`` below the root.

        Raises:
            NameError: It is not below the root.
        """
        if self.submodule_paths is not None:
            path = self.submodule_paths.get(mod)
        else:
            path = next((name for name, each in self.root.named_modules() if each is mod), None)
        if path is None:
            raise NameError(
                f"the {type(mod).__name__} that was called is not installed as a submodule of the "
                f"traced {type(self.root).__name__}; assign it to an attribute"
            )
        return path

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of a module call: the proxy of one node, or the result of tracing into it.

        Args:
            m: The module.
            forward: Calls it, with its hooks.
            args: Positional arguments of the call.
            kwargs: Keyword arguments of the call.
        """
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            count = self.num_calls.get(path, 0)
            self.num_calls[path] = count + 1
            key = f"{path}@{count}" if count else path
            self.module_stack[key] = (path, type(m))
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """The result of reading a parameter, buffer or submodule of a module.

        Args:
            attr: The attribute's name.
            attr_val: The attribute's value. Parameters become proxies, and so do buffers if
                `proxy_buffer_attributes` is set.
            parameter_proxy_cache: The existing proxies, by path.
        """
        if isinstance(attr_val, Parameter):
            members = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            members = self.root.named_buffers()
        else:
            return attr_val
        path = next((name for name, each in members if each is attr_val), None)
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            arguments: dict[str, Any] = {}
            if self.param_shapes_constant and isinstance(attr_val, Parameter):
                arguments["proxy_factory_fn"] = lambda node: ParameterProxy(
                    self, node, path, attr_val
                )
            parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {}, **arguments)
        return parameter_proxy_cache[path]

    def create_arg(self, a: Any) -> Argument:
        """Convert a value to a node argument; see `TracerBase.create_arg`.

        Parameters, buffers and modules below the root become ``get_attr`` nodes. Other tensors are
        first added to the root as ``_tensor_constant0`` and so on.

        Raises:
            NameError: A parameter is not below the root.
        """
        if isinstance(a, (Tensor, Module)):
            return self.create_node("get_attr", self._path_of_member(a), (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            members = tuple(self.create_arg(each) for each in a)
            return self.create_node("call_function", type(a), members, {})
        if type(a) in _proxyable_classes:
            path = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        return super().create_arg(a)

    def _path_of_member(self, member: Any) -> str:
        """The path of a tensor or module below the root, which is added if necessary."""
        if isinstance(member, Module):
            return self.path_of_module(member)
        is_parameter = isinstance(member, Parameter)
        members = self.root.named_parameters() if is_parameter else self.root.named_buffers()
        path = next((name for name, each in members if each is member), None)
        if path is not None:
            return path
        if is_parameter:
            raise NameError(
                f"parameter of shape {list(member.shape)} is not a member of this module, the "
                f"traced {type(self.root).__name__}; assign it to an attribute"
            )
        if member not in self.tensor_attrs:
            self.tensor_attrs[member] = self.get_fresh_qualname("_tensor_constant")
            setattr(self.root, self.tensor_attrs[member], member)
        return self.tensor_attrs[member]

    def get_fresh_qualname(self, prefix: str) -> str:
        """``prefix`` with the first numeric suffix that is unused in the root."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"


def _tensor_attributes(module: Module, prefix: str = "") -> Iterable[tuple[Tensor, str]]:
    """The tensors that are plain attributes of a module and its descendants, with their paths."""
    for name, value in vars(module).items():
        if isinstance(value, Tensor):
            yield value, f"{prefix}{name}"
    for name, child in module.named_children():
        yield from _tensor_attributes(child, f"{prefix}{name}.")
