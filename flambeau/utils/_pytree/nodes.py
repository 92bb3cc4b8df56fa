"""Nodes of a tree: Python's containers, and registered classes."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from flambeau.core.support.warning import warn
from flambeau.core.values.pytree import OwnParts, register_parts
from flambeau.core.values.tensor import Size
from flambeau.utils._pytree.keys import GetAttrKey, MappingKey, SequenceKey
from flambeau.utils._pytree.named_tuples import is_namedtuple_class

__all__ = [
    "BUILTIN_TYPES", "SUPPORTED_NODES", "ConstantNode", "Context", "DumpableContext", "FlattenFn",
    "FlattenFunc", "FlattenWithKeysFn", "FromDumpableContextFn", "NodeDef", "PyTree",
    "ToDumpableContextFn", "UnflattenFn", "UnflattenFunc", "is_constant_class",
    "register_constant", "register_dataclass", "register_pytree_node",
]  # fmt: skip

#: A tree is any value: a container of trees, or a leaf.
PyTree = Any
#: The metadata of a container besides its members.
Context = Any
DumpableContext = Any
FlattenFn = FlattenFunc = Callable[[PyTree], tuple[list[Any], Context]]
UnflattenFn = UnflattenFunc = Callable[[Iterable[Any], Context], PyTree]
FlattenWithKeysFn = Callable[[PyTree], tuple[list[tuple[Any, Any]], Context]]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]


class NodeDef(NamedTuple):
    """The flatten functions of one class of containers.

    Attributes:
        type: The class.
        flatten_fn: Returns the members and the context.
        unflatten_fn: The inverse, from members and context.
        flatten_with_keys_fn: Like ``flatten_fn``, with a key for each member.
    """

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None


class ConstantNode(NamedTuple):
    """Replaces an object without leaves."""

    value: Any


class Serialization(NamedTuple):
    """The serialized form of a class of containers.

    Attributes:
        name: Its serialized name.
        dump: Converts the context to JSON values; ``None`` if it is JSON already.
        load: The inverse.
    """

    name: str | None
    dump: ToDumpableContextFn | None
    load: FromDumpableContextFn | None


#: By class; all named tuples are under ``collections.namedtuple``.
SUPPORTED_NODES: dict[Any, NodeDef] = {}
#: The classes that need not be registered.
BUILTIN_TYPES: frozenset[Any] = frozenset(
    {OrderedDict, defaultdict, deque, dict, list, namedtuple, tuple}
)
SERIALIZATIONS: dict[Any, Serialization] = {}
_CONSTANTS: set[type] = set()


def register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ToDumpableContextFn | None = None,
    from_dumpable_context: FromDumpableContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Register how instances of a class are flattened, here, in JAX and in compiled functions.

    Args:
        cls: The class; subclasses are not included.
        flatten_fn: A function of an instance that returns the list of its members and the context,
            which is compared with ``==``.
        unflatten_fn: A function of members and the context that returns an instance.
        serialized_type_name: Its name in the result of `treespec_dumps`.
        to_dumpable_context: Converts the context to JSON values.
        from_dumpable_context: The inverse.
        flatten_with_keys_fn: Like ``flatten_fn``, but returns pairs of keys and members.

    Raises:
        ValueError: The class is registered, or only one of the two functions for JSON is given.

    >>> import flambeau
    >>> from flambeau.utils._pytree import register_pytree_node, tree_flatten
    >>> class Output:
    ...     def __init__(self, loss):
    ...         self.loss = loss
    >>> register_pytree_node(
    ...     Output, lambda it: ([it.loss], None), lambda members, _: Output(*members)
    ... )
    >>> tree_flatten(Output(3.0))
    ([3.0], TreeSpec(Output, None, [*]))
    >>> flambeau.compile(lambda x: Output(x.sum()))(flambeau.ones(2)).loss
    tensor(2.)
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"to_dumpable_context and from_dumpable_context of {cls.__name__} are the inverse of "
            "each other: give both or neither"
        )
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SERIALIZATIONS[cls] = Serialization(
        serialized_type_name, to_dumpable_context, from_dumpable_context
    )
    if cls not in BUILTIN_TYPES:
        register_parts(cls, _parts_of(flatten_fn, unflatten_fn))


def _register_pytree_node(
    cls: type[Any], flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, **options: Any
) -> None:
    """`register_pytree_node`, under an older name."""
    warn(
        "_register_pytree_node is deprecated; use register_pytree_node",
        FutureWarning,
    )
    register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


class _Hashable:
    """The context of a container as a hashable key for JAX.

    The context may be a list; later changes to the list have no effect.
    """

    def __init__(self, context: Any) -> None:
        self.context = context
        self.frozen = _freeze(context)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashable) and self.frozen == other.frozen

    def __hash__(self) -> int:
        try:
            return hash(self.frozen)
        except TypeError:
            return hash(type(self.context))

    def __repr__(self) -> str:
        return repr(self.context)


def _freeze(context: Any) -> tuple[type, Any]:
    # With types, since 1 == True.
    if isinstance(context, list | tuple):
        return type(context), tuple(map(_freeze, context))
    if isinstance(context, dict):
        return type(context), tuple((_freeze(key), _freeze(each)) for key, each in context.items())
    if isinstance(context, set | frozenset):
        return type(context), frozenset(map(_freeze, context))
    return type(context), context


def _parts_of(flatten_fn: FlattenFn, unflatten_fn: UnflattenFn) -> OwnParts:
    def take_apart(value: Any) -> tuple[Any, _Hashable]:
        members, context = flatten_fn(value)
        return tuple(members), _Hashable(context)

    def put_together(context: _Hashable, members: Iterable[Any]) -> Any:
        return unflatten_fn([*members], context.context)

    return OwnParts(take_apart, put_together, lambda _: False)


def register_dataclass(
    cls: type[Any],
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Register a dataclass with its fields as members.

    Args:
        cls: A dataclass.
        field_names: The fields that are members; by default all parameters of ``__init__``.
        drop_field_names: The fields that are no members; they are reset to their defaults.
        serialized_type_name: See `register_pytree_node`.

    Raises:
        TypeError: It is not a dataclass.
        ValueError: A field is in neither list, or a name is not a field.
    """
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"{cls} is not a dataclass; register it with register_pytree_node")
    dropped = drop_field_names or []
    fields = [each.name for each in dataclasses.fields(cls) if each.init]
    names = [each for each in fields if each not in dropped] if field_names is None else field_names
    left = sorted(set(fields) - {*names, *dropped})
    unknown = sorted({*names, *dropped} - set(fields))
    if left or unknown:
        raise ValueError(
            f"field_names and drop_field_names do not cover the fields of {cls.__name__}: "
            f"{left} are in neither, {unknown} are not fields that its __init__ takes"
        )

    def flatten(value: Any) -> tuple[list[Any], Any]:
        found = {name: getattr(value, name) for name in names}
        # A field that is None is not a member, so that it stays None.
        here = [name for name in names if found[name] is not None]
        return [found[name] for name in here], [here, [n for n in names if n not in here]]

    def flatten_with_keys(value: Any) -> tuple[list[Any], Any]:
        members, context = flatten(value)
        return [(GetAttrKey(n), each) for n, each in zip(context[0], members, strict=True)], context

    def unflatten(members: Iterable[Any], context: Any) -> Any:
        here, missing = context
        return cls(**dict(zip(here, members, strict=True)), **dict.fromkeys(missing))

    register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


def register_constant(cls: type[Any]) -> None:
    """Register a class whose instances have no leaves; they must compare by value."""
    if cls.__eq__ is object.__eq__ or getattr(cls, "__hash__", None) in (None, object.__hash__):
        raise TypeError(
            f"instances of {cls.__name__} must compare by value: define __eq__ and __hash__, as "
            "a frozen dataclass does"
        )
    register_pytree_node(
        cls,
        lambda value: ([], ConstantNode(value)),
        lambda members, context: context.value,
        flatten_with_keys_fn=lambda value: ([], ConstantNode(value)),
    )
    _CONSTANTS.add(cls)


def is_constant_class(cls: type[Any]) -> bool:
    """Whether ``cls`` was registered with `register_constant`."""
    return cls in _CONSTANTS


def node_type_of(tree: Any) -> Any:
    """The key of `SUPPORTED_NODES` for ``tree``, which may be missing there."""
    kind = type(tree)
    if kind not in SUPPORTED_NODES and is_namedtuple_class(kind):
        return namedtuple
    return kind


# PyTorch's name, which packages import.
_get_node_type = node_type_of


# Python's own containers


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Context]:
    """The values of a dictionary, and its keys."""
    return [*d.values()], [*d]


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[Any], Context]:
    """The values of a dictionary with their keys, and its keys."""
    return [(MappingKey(key), each) for key, each in d.items()], [*d]


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    """The dictionary with these values and keys."""
    return dict(zip(context, values, strict=True))


def _list_flatten(d: list[Any]) -> tuple[list[Any], Context]:
    """The members of a sequence."""
    return [*d], None


def _list_unflatten(values: Iterable[Any], context: Context) -> list[Any]:
    """The list with these members."""
    return [*values]


def _sequence_flatten_with_keys(sequence: Iterable[Any]) -> tuple[list[Any], Context]:
    return [(SequenceKey(i), each) for i, each in enumerate(sequence)], None


def _namedtuple_flatten_with_keys(value: Any) -> tuple[list[Any], Context]:
    pairs = zip(value._fields, value, strict=True)
    return [(GetAttrKey(name), each) for name, each in pairs], type(value)


def _defaultdict_unflatten(values: Iterable[Any], context: Context) -> Any:
    factory, keys = context
    return defaultdict(factory, _dict_unflatten(values, keys))


_BUILTIN = (
    NodeDef(
        tuple, _list_flatten, lambda values, context: tuple(values), _sequence_flatten_with_keys
    ),
    NodeDef(list, _list_flatten, _list_unflatten, _sequence_flatten_with_keys),
    NodeDef(dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
    NodeDef(
        namedtuple,
        lambda value: ([*value], type(value)),
        lambda values, context: context(*values),
        _namedtuple_flatten_with_keys,
    ),
    NodeDef(
        OrderedDict,
        _dict_flatten,
        lambda values, context: OrderedDict(zip(context, values, strict=True)),
        _dict_flatten_with_keys,
    ),
    NodeDef(
        defaultdict,
        lambda value: ([*value.values()], [value.default_factory, [*value]]),
        _defaultdict_unflatten,
        lambda value: (
            _dict_flatten_with_keys(value)[0],
            [value.default_factory, [*value]],
        ),
    ),
    NodeDef(
        deque,
        lambda value: ([*value], value.maxlen),
        lambda values, context: deque(values, maxlen=context),
        lambda value: (_sequence_flatten_with_keys(value)[0], value.maxlen),
    ),
    NodeDef(Size, _list_flatten, lambda values, context: Size(values), _sequence_flatten_with_keys),
)
SUPPORTED_NODES.update({each.type: each for each in _BUILTIN})
