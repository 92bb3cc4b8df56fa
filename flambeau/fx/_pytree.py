"""Taking a function's arguments apart as it was traced with them."""

from __future__ import annotations

from typing import Any

from flambeau.utils._pytree.specs import TreeSpec, tree_flatten


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of ``pytree``, which must have the structure ``spec``.

    Raises:
        RuntimeError: Its structure is another one.
    """
    leaves, found = tree_flatten(tuple(pytree))
    if found != spec:
        raise RuntimeError(
            f"the arguments have the structure {found}, but the function was traced for {spec}"
        )
    return leaves
