"""The placeholders for the parameters of a traced function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from flambeau.assertions import _assert
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.fx.assertions import _assert_is_none
from flambeau.fx.node import base_types
from flambeau.fx.tree_codegen import _PyTreeCodeGen, _PyTreeInfo
from flambeau.utils import _pytree as pytree

_STARRED = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class PHBase:
    """A marker in `concrete_args` for a value that becomes a placeholder."""

    def __repr__(self) -> str:
        return "PH"


#: The marker in `concrete_args` for values that become placeholders.
PH = PHBase()


class PHWithMeta(PHBase):
    """A `PHBase` whose attributes are copied to the node."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


class Placeholders:
    """The methods of `Tracer` that create placeholders."""

    root: Any
    graph: Any
    create_proxy: Callable[..., Any]

    def create_args_for_root(
        self, root_fn: FunctionType, is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Placeholders for the parameters of a function.

        Args:
            root_fn: The function, or the ``forward`` of a module.
            is_module: Whether it takes the module as its first argument.
            concrete_args: Values for some parameters, by name, or for all in order.

        Returns:
            The function to call, and its arguments.
        """
        analyzed = inspect.unwrap(root_fn)
        code = analyzed.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames[is_module:count])
        if is_module and not count:
            raise RuntimeError("self argument cannot be part of *args expansion: name it")
        args: list[Any] = [self.root] if is_module else []
        if isinstance(concrete_args, tuple):
            if concrete_args and code.co_flags & _STARRED and count == 1:
                flat = [self._flat_placeholder(n, each) for n, each in enumerate(concrete_args)]
                return root_fn, [*args, *flat]
            if len(names) != len(concrete_args):
                raise RuntimeError(
                    f"tracing expected {len(names)} arguments but got {len(concrete_args)} "
                    "concrete arguments"
                )
            concrete_args = dict(zip(names, concrete_args, strict=True))
        starred = list(code.co_varnames[count:])
        if code.co_flags & inspect.CO_VARARGS:
            names.append(f"*{starred.pop(0)}")
        if code.co_flags & inspect.CO_VARKEYWORDS:
            names.append(f"**{starred.pop(0)}")
        parameters = inspect.signature(analyzed).parameters
        kinds = annotations_of(analyzed)
        given = concrete_args or {}
        args += [self._argument(name, given, parameters, kinds.get(name)) for name in names]
        called = root_fn
        if code.co_kwonlyargcount or code.co_flags & _STARRED:
            called = _all_positional(root_fn, len(args))
        if any(type(each) in (tuple, list, dict) for each in args):
            return self._flattened(called, args, list(code.co_varnames[:count]))
        return called, args

    def _flat_placeholder(self, number: int, value: Any) -> Any:
        result = self.create_proxy("placeholder", f"input_{number}", (), {})
        _copy_attributes(value, result.node)
        return result

    def _argument(
        self, name: str, concrete_args: dict[str, Any], parameters: Any, kind: Any
    ) -> Any:
        """The argument for the parameter ``name``."""
        default: tuple[Any, ...] = ()
        if name[0] != "*" and parameters[name].default is not inspect.Parameter.empty:
            default = (parameters[name].default,)
        if name in concrete_args:
            return self._concrete(name, concrete_args[name], default)
        return self.create_proxy("placeholder", name, default, {}, type_expr=kind)

    def _concrete(self, name: str, value: Any, default: tuple[Any, ...]) -> Any:
        """A given value, with a placeholder for each leaf, which must equal it."""
        count = 0

        def replace(leaf: Any) -> Any:
            nonlocal count
            count += 1
            result = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(leaf, PHBase):
                _copy_attributes(leaf, result.node)
                return result
            if leaf is None:
                says = f"{name} has been specialized to have value None but got another value"
                self.create_proxy("call_function", _assert_is_none, (result, says), {})
            elif type(leaf) in base_types and not isinstance(leaf, Tensor):
                says = f"{name} has been specialized to have value {leaf} but got another value"
                _assert(result == leaf, says)
            else:
                warn(
                    f"the traced function is specialized to the given '{name}', a "
                    f"{type(leaf).__name__}, and will not notice another one",
                )
            return leaf

        return pytree.tree_map(replace, value)

    def _flattened(
        self, function: Callable[..., Any], args: list[Any], names: list[str]
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Convert a function to one of the leaves of ``args``.

        The graph's code then flattens its arguments and unflattens its result.
        """
        leaves, in_spec = pytree.tree_flatten(tuple(args))
        codegen = _PyTreeCodeGen(_PyTreeInfo(names, in_spec, None))
        self.graph.set_codegen(codegen)

        def flat(*leaves: Any) -> Any:
            result = function(*pytree.tree_unflatten(list(leaves), in_spec))
            results, out_spec = pytree.tree_flatten(result)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return results

        return flat, leaves


def annotations_of(function: Any) -> dict[str, Any]:
    """The annotations of a function, as far as they are available."""
    try:
        found = inspect.get_annotations(inspect.unwrap(function), eval_str=True)
    except Exception:  # noqa: BLE001 - annotations are code, of names that may not be there
        found = inspect.get_annotations(inspect.unwrap(function))
    return {
        name: kind for name, kind in found.items() if kind is not Any and not isinstance(kind, str)
    }


def _copy_attributes(source: Any, node: Any) -> None:
    if source is not PH and isinstance(source, PHBase):
        for name, value in vars(source).items():
            if not hasattr(node, name):
                setattr(node, name, value)


def _all_positional(function: FunctionType, count: int) -> FunctionType:
    """``function`` with its first ``count`` local variables as positional parameters.

    ``*args`` and ``**kwargs`` are then passed as one value each.
    """
    code = function.__code__
    plain = code.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~_STARRED,
    )
    return FunctionType(
        plain, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
