"""The structure of a tree without its leaves."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flambeau.core.values import trees
from flambeau.core.values.trees import Kind, Structure
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
        num_leaves: The number of leaves.
    """

    __slots__ = ("_structure", "num_leaves")

    def __init__(self, type: Any, context: Any, children_specs: Iterable[TreeSpec]) -> None:
        parts = tuple([each._structure for each in children_specs])
        self._structure = trees.LEAF if type is None else Structure(Kind(type, (), context), parts)
        self.num_leaves = self._structure.num_leaves

    @classmethod
    def _of(cls, structure: Structure, num_leaves: int | None = None) -> TreeSpec:
        self = cls.__new__(cls)
        self._structure = structure
        self.num_leaves = structure.num_leaves if num_leaves is None else num_leaves
        return self

    @property
    def type(self) -> Any:
        """The class of the container; ``None`` for a leaf."""
        return self._structure.kind and self._structure.kind.cls

    @property
    def context(self) -> Any:
        """The metadata of the container, such as its keys."""
        return self._structure.kind and self._structure.kind.option

    @property
    def num_nodes(self) -> int:
        """The number of containers and leaves."""
        return 1 + sum(each.num_nodes for each in self.children_specs)

    @property
    def num_children(self) -> int:
        """The number of members of the container."""
        return len(self._structure.parts)

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The structures of the members, in a new list."""
        return [TreeSpec._of(each) for each in self._structure.parts]

    def children(self) -> list[TreeSpec]:
        """The same as `children_specs`."""
        return self.children_specs

    def child(self, index: int) -> TreeSpec:
        """The structure of one member."""
        return self.children_specs[index]

    def is_leaf(self) -> bool:
        """Whether it is the structure of a leaf."""
        return self._structure.kind is None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self._structure == other._structure

    def __hash__(self) -> int:
        # The context need not be hashable.
        return hash((self.type, *self.children_specs))

    def __repr__(self) -> str:
        return self._show(0)

    def _show(self, indent: int) -> str:
        if self.type is None:
            return "*"
        indent += 2
        shown = f",\n{' ' * indent}".join(each._show(indent) for each in self.children_specs)
        return f"TreeSpec({self.type.__name__}, {self.context!r}, [{shown}])"

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with these leaves.

        Raises:
            ValueError: The number of leaves is wrong.
        """
        given = [*leaves]
        if len(given) != self.num_leaves:
            raise ValueError(
                f"`leaves` has length {len(given)}, but the structure has {self.num_leaves} "
                f"leaves: {self!r}"
            )
        return trees.unflatten(self._structure, iter(given), _put_together)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of ``tree`` at the positions of the leaves of this structure.

        Raises:
            ValueError: ``tree`` has another structure above these positions.
        """
        return trees.flatten_up_to(self._structure, tree, _members_as) or []


def _members_as(structure: Structure, tree: Any) -> list[Any]:
    """The members of a container of this structure; those of dictionaries in its order of keys."""
    cls, option = structure.kind.cls, structure.kind.option
    given = node_type_of(tree)
    if not (given == cls or (given in _DICTIONARIES and cls in _DICTIONARIES)):
        raise ValueError(f"Node type mismatch: expected {cls}, but the other tree has {type(tree)}")
    members, context = SUPPORTED_NODES[given].flatten_fn(tree)
    if len(members) != len(structure.parts):
        raise ValueError(
            f"Node arity mismatch: expected {len(structure.parts)} members of {cls}, but the other "
            f"tree has {len(members)}"
        )
    if given in _DICTIONARIES:
        keys = option[1] if cls is defaultdict else option
        if set(keys) != set(tree):
            missing, extra = [*(set(keys) - set(tree))], [*(set(tree) - set(keys))]
            raise ValueError(f"Node keys mismatch: {missing} are missing, {extra} are extra")
        return [tree[key] for key in keys]
    # The maximum length of a deque is not compared.
    if given is not deque and context != option:
        raise ValueError(
            f"Node context mismatch for {cls}: expected {option}, but the other tree has {context}"
        )
    return [*members]


PyTreeSpec = TreeSpec
_LEAF = TreeSpec._of(trees.LEAF)


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
    """The structure printed like the tree, with asterisks for leaves.

    >>> from flambeau.utils._pytree import tree_structure, treespec_pprint
    >>> treespec_pprint(tree_structure({"b": 1, "a": (2, [3])}))
    "{'b': *, 'a': (*, [*])}"
    """
    return repr(treespec.unflatten([_Asterisk()] * treespec.num_leaves))


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether ``tree`` is a leaf."""
    return (is_leaf is not None and is_leaf(tree)) or node_type_of(tree) not in SUPPORTED_NODES


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, in order, and its structure.

    Args:
        tree: Any value: values other than containers are leaves, and so are ``None`` and tensors.
        is_leaf: Returns whether to treat a container as a leaf.

    >>> from flambeau.utils._pytree import tree_flatten
    >>> tree_flatten({"b": 1, "a": (2, None)})
    ([1, 2, None], TreeSpec(dict, ['b', 'a'], [*,
      TreeSpec(tuple, None, [*,
        *])]))
    """
    leaves: list[Any] = []
    structure = trees.flatten(tree, leaves, _taking_apart(is_leaf))
    return leaves, TreeSpec._of(structure, len(leaves))


def _take_apart(tree: Any) -> tuple[Kind, list[Any]] | None:
    cls = node_type_of(tree)
    if cls not in SUPPORTED_NODES:
        return None
    members, context = SUPPORTED_NODES[cls].flatten_fn(tree)
    return Kind(cls, (), context), members


def _taking_apart(is_leaf: IsLeaf) -> trees.TakeApart:
    def take_apart(tree: Any) -> Any:
        is_whole = is_leaf and node_type_of(tree) in SUPPORTED_NODES and is_leaf(tree)
        return None if is_whole else _take_apart(tree)

    return _take_apart if is_leaf is None else take_apart


def _put_together(kind: Kind, members: list[Any]) -> Any:
    return SUPPORTED_NODES[kind.cls].unflatten_fn(members, kind.option)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of this structure with these leaves; see `TreeSpec.unflatten`.

    Raises:
        TypeError: ``treespec`` is not a structure.
        ValueError: The number of leaves is wrong.
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
    leaves: list[Any] = []
    trees.flatten(tree, leaves, _taking_apart(is_leaf))
    return leaves


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """A leaf of ``tree`` for each leaf of ``treespec``, of which ``tree`` is a prefix.

    Returns:
        ``None`` if ``tree`` is not a prefix.
    """

    def entries_as(structure: Structure, tree: Any) -> Any:
        parts = take_apart(tree)
        if parts is None:
            return [tree] * len(structure.parts)
        kind, members = parts
        entries = [*members]
        return entries if (kind, len(entries)) == (structure.kind, len(structure.parts)) else None

    take_apart = _taking_apart(is_leaf)
    found = trees.flatten_up_to(treespec._structure, tree, entries_as)
    return None if found is None or any(map(take_apart, found)) else found
