"""The structure of a tree without its leaves."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flambeau.utils._pytree.nodes import SUPPORTED_NODES, node_type_of

__all__ = [
    "LeafSpec", "PyTreeSpec", "TreeSpec", "tree_flatten", "tree_is_leaf", "tree_iter",
    "tree_leaves", "tree_structure", "tree_unflatten", "treespec_dict", "treespec_leaf",
    "treespec_pprint", "treespec_tuple",
]  # fmt: skip

IsLeaf = Callable[[Any], bool] | None
_DICTIONARIES = (dict, OrderedDict, defaultdict)


class TreeSpec:
    """The structure of a tree: the class of its container, and the structures of its members.

    Attributes:
        type: The class; ``None`` for a leaf.
        context: What else there is to know of the container, such as its keys.
        num_nodes: How many containers and leaves it has.
        num_leaves: How many leaves it has.
        num_children: How many members the container has.
    """

    __slots__ = ("_children", "context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self._children = children_specs
        self.num_children = len(children_specs)
        self.num_nodes = 1 + sum(each.num_nodes for each in children_specs)
        is_leaf = type is None
        self.num_leaves = 1 if is_leaf else sum(each.num_leaves for each in children_specs)

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The structures of the members."""
        return self._children

    def children(self) -> list[TreeSpec]:
        """The structures of the members, in a new list."""
        return [*self._children]

    def child(self, index: int) -> TreeSpec:
        """The structure of one member."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether it is the structure of a leaf."""
        return self.type is None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self is other or (
            self.type == other.type
            and self.context == other.context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        keys = self.context
        if isinstance(keys, list):
            keys = tuple(tuple(each) if isinstance(each, list) else each for each in keys)
        try:
            found = hash(keys)
        except TypeError:
            found = 0
        return hash((self.type, found, tuple(self._children)))

    def __repr__(self) -> str:
        return self._show(0)

    def _show(self, indent: int) -> str:
        if self.type is None:
            return "*"
        indent += 2
        shown = f",\n{' ' * indent}".join(each._show(indent) for each in self._children)
        return f"TreeSpec({self.type.__name__}, {self.context!r}, [{shown}])"

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with these leaves.

        Raises:
            ValueError: There are more or fewer leaves than it has.
        """
        given = [*leaves]
        if len(given) != self.num_leaves:
            raise ValueError(
                f"`leaves` has length {len(given)}, but the structure has {self.num_leaves} "
                f"leaves: {self!r}"
            )
        return self._put_together(iter(given))

    def _put_together(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        members = [each._put_together(leaves) for each in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(members, self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of ``tree`` at the places of the leaves of this structure.

        Raises:
            ValueError: ``tree`` has another structure above these places.
        """
        found: list[Any] = []
        self._take_apart_as_this(tree, found)
        return found

    def _take_apart_as_this(self, tree: Any, found: list[Any]) -> None:
        if self.type is None:
            found.append(tree)
            return
        for part, member in zip(self._children, self._members_as_this(tree), strict=True):
            part._take_apart_as_this(member, found)

    def _members_as_this(self, tree: Any) -> list[Any]:
        kind = node_type_of(tree)
        if not (kind == self.type or (kind in _DICTIONARIES and self.type in _DICTIONARIES)):
            raise ValueError(
                f"Node type mismatch: expected {self.type}, but the other tree has {type(tree)}"
            )
        members, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(members) != self.num_children:
            raise ValueError(
                f"Node arity mismatch: expected {self.num_children} members of {self.type}, but "
                f"the other tree has {len(members)}"
            )
        if kind in _DICTIONARIES:
            keys = self.context[1] if self.type is defaultdict else self.context
            if set(keys) != set(tree):
                missing, extra = [*(set(keys) - set(tree))], [*(set(tree) - set(keys))]
                raise ValueError(f"Node keys mismatch: {missing} are missing, {extra} are extra")
            return [tree[key] for key in keys]
        # The length of a deque is no part of what is compared.
        if kind is not deque and context != self.context:
            raise ValueError(
                f"Node context mismatch for {self.type}: expected {self.context}, but the other "
                f"tree has {context}"
            )
        return [*members]


PyTreeSpec = TreeSpec
_LEAF = TreeSpec(None, None, [])


class _LeafSpecs(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TreeSpec) and instance.is_leaf()

    def __call__(cls) -> TreeSpec:
        return _LEAF


class LeafSpec(metaclass=_LeafSpecs):
    """The structure of a leaf; `treespec_leaf` gives the same."""


def treespec_leaf() -> TreeSpec:
    """The structure of a leaf."""
    return _LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple of trees of these structures."""
    return TreeSpec(tuple, None, [*iterable])


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (),
    /,
    **kwargs: TreeSpec,
) -> TreeSpec:
    """The structure of a dictionary of trees of these structures."""
    found = dict(mapping, **kwargs)
    return TreeSpec(dict, [*found], [*found.values()])


class _Asterisk:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as the tree prints, with asterisks in the place of leaves.

    >>> treespec_pprint(tree_structure({"b": 1, "a": (2, [3])}))
    "{'b': *, 'a': (*, [*])}"
    """
    return repr(treespec.unflatten([_Asterisk()] * treespec.num_leaves))


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether ``tree`` is not taken apart."""
    return (is_leaf is not None and is_leaf(tree)) or node_type_of(tree) not in SUPPORTED_NODES


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, in order, and its structure.

    Args:
        tree: Any value: what is no container is a leaf, and so are ``None`` and tensors.
        is_leaf: Whether to leave a container as it is.

    >>> tree_flatten({"b": 1, "a": (2, None)})
    ([1, 2, None], TreeSpec(dict, ['b', 'a'], [*,
      TreeSpec(tuple, None, [*,
        *])]))
    """
    leaves: list[Any] = []
    return leaves, _take_apart(tree, leaves, is_leaf)


def _take_apart(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    kind = node_type_of(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return _LEAF
    members, context = node.flatten_fn(tree)
    return TreeSpec(kind, context, [_take_apart(each, leaves, is_leaf) for each in members])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of this structure with these leaves; see `TreeSpec.unflatten`.

    Raises:
        TypeError: ``treespec`` is no structure.
        ValueError: There are more or fewer leaves than it has.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"expected a TreeSpec for `treespec`, got {type(treespec)}: {treespec!r}; the leaves "
            "come first"
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves of a tree, one by one."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for each in SUPPORTED_NODES[node_type_of(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(each, is_leaf)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree, in order."""
    return [*tree_iter(tree, is_leaf)]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """A leaf of ``tree`` for each leaf of ``treespec``, of which it has the upper part.

    Returns:
        ``None`` if it has another structure.
    """
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = node_type_of(tree)
    members, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if (kind, context, len(members)) != (treespec.type, treespec.context, treespec.num_children):
        return None
    found: list[Any] = []
    for member, part in zip(members, treespec.children_specs, strict=True):
        spread = _broadcast_to_and_flatten(member, part, is_leaf)
        if spread is None:
            return None
        found.extend(spread)
    return found
