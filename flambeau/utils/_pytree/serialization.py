"""Tree structures as JSON, in PyTorch's format."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from importlib import import_module
from typing import Any

from flambeau.core.values.tensor import Size
from flambeau.utils._pytree.nodes import (
    SERIALIZATIONS,
    DumpableContext,
    FromDumpableContextFn,
    Serialization,
    ToDumpableContextFn,
)
from flambeau.utils._pytree.specs import TreeSpec, treespec_leaf

__all__ = ["treespec_dumps", "treespec_loads"]

_PROTOCOL = 1
# Named tuples, which have one node type for all classes.
_NAMED_TUPLES: dict[Any, str] = {}


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A structure as text, readable by `treespec_loads` and PyTorch.

    Raises:
        NotImplementedError: A class in the structure was registered without a
            ``serialized_type_name``.
        TypeError: The argument is not a structure.
        ValueError: There is no such protocol; 1 is the only one.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"expected a TreeSpec for `treespec`, got {type(treespec)}: {treespec!r}")
    _check_protocol(_PROTOCOL if protocol is None else protocol)
    return json.dumps([_PROTOCOL, _dumped(treespec)])


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` wrote.

    Raises:
        NotImplementedError: No class is registered by a name in it.
        ValueError: The text has another protocol.
    """
    protocol, found = json.loads(serialized)
    _check_protocol(protocol)
    classes = {each.name: cls for cls, each in SERIALIZATIONS.items() if each.name is not None}
    return _loaded(found, classes)


def _register_namedtuple(cls: type[Any], *, serialized_type_name: str) -> None:
    """Set the name of a class of named tuples in the result of `treespec_dumps`."""
    _NAMED_TUPLES[cls] = serialized_type_name


def _check_protocol(protocol: Any) -> None:
    if protocol != _PROTOCOL:
        raise ValueError(
            f"Unknown protocol {protocol!r} of a structure; {_PROTOCOL} is the only one"
        )


def _dumped(treespec: TreeSpec) -> dict[str, Any]:
    if treespec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    known = SERIALIZATIONS.get(treespec.type)
    if known is None or known.name is None:
        raise NotImplementedError(
            f"{treespec.type} has no name in files: register it with a serialized_type_name"
        )
    context = (known.dump or json.dumps)(treespec.context)
    parts = [_dumped(each) for each in treespec.children_specs]
    return {"type": known.name, "context": context, "children_spec": parts}


def _loaded(found: dict[str, Any], classes: dict[str, Any]) -> TreeSpec:
    name = found["type"]
    if name is None:
        return treespec_leaf()
    if name not in classes:
        raise NotImplementedError(f"no class is registered by the serialized_type_name {name!r}")
    cls = classes[name]
    load: Callable[[Any], Any] = SERIALIZATIONS[cls].load or json.loads
    parts = [_loaded(each, classes) for each in found["children_spec"]]
    return TreeSpec(cls, load(found["context"]), parts)


def _dump_named_tuple(context: Any) -> DumpableContext:
    if context not in _NAMED_TUPLES:
        raise NotImplementedError(
            f"the named tuples {context} have no name in files: give them one with "
            "_register_namedtuple"
        )
    return _NAMED_TUPLES[context]


def _load_named_tuple(context: DumpableContext) -> Any:
    for cls, name in _NAMED_TUPLES.items():
        if name == context:
            return cls
    raise NotImplementedError(f"no named tuples are registered by the name {context!r}")


def _dump_defaultdict(context: Any) -> DumpableContext:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _load_defaultdict(context: DumpableContext) -> Any:
    module = import_module(context["default_factory_module"])
    return [getattr(module, context["default_factory_name"]), context["dict_context"]]


_OWN_FORMS: dict[Any, tuple[str, ToDumpableContextFn | None, FromDumpableContextFn | None]] = {
    tuple: ("builtins.tuple", None, None),
    list: ("builtins.list", None, None),
    dict: ("builtins.dict", None, None),
    namedtuple: ("collections.namedtuple", _dump_named_tuple, _load_named_tuple),
    OrderedDict: ("collections.OrderedDict", None, None),
    defaultdict: ("collections.defaultdict", _dump_defaultdict, _load_defaultdict),
    deque: ("collections.deque", None, None),
    Size: ("torch.Size", None, None),
}
SERIALIZATIONS.update({cls: Serialization(*form) for cls, form in _OWN_FORMS.items()})
