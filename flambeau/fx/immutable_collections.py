"""Immutable lists and dictionaries for the arguments of nodes.

A graph tracks the users of a node by assignments to `Node.args` and `Node.kwargs`; in-place changes
of a list there would be missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from flambeau.utils._pytree.nodes import register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"'{type(self).__name__}' object does not support mutation: to change the arguments of a "
        "node, assign a changed copy to node.args or node.kwargs"
    )


class immutable_list(list[Any]):
    """A list that rejects changes, and is hashable if its elements are."""

    if not TYPE_CHECKING:
        __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse
        append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self),)


class immutable_dict(dict[Any, Any]):
    """A dictionary that rejects changes, and is hashable if its values are."""

    if not TYPE_CHECKING:
        __delitem__ = __ior__ = __setitem__ = _refuse
        clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self.items()),)


# An Interpreter passes these to functions and returns them, where they are no pytree leaves.
register_pytree_node(
    immutable_list,
    lambda each: (list(each), None),
    lambda children, _: immutable_list(children),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
)
register_pytree_node(
    immutable_dict,
    lambda each: (list(each.values()), list(each)),
    lambda children, keys: immutable_dict(zip(keys, children, strict=True)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
)
