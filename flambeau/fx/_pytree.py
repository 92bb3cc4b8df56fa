"""Flattening a function's arguments with the structure that they were traced with."""

from __future__ import annotations

from typing import Any

from flambeau.utils._pytree.specs import TreeSpec, tree_flatten


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of ``pytree``, which must have the structure ``spec``.

    Raises:
        RuntimeError: The structure differs from ``spec``.
    """
    leaves, found = tree_flatten(tuple(pytree))
    if found != spec:
        raise RuntimeError(
            f"the arguments have the structure {found}, but the function was traced for {spec}"
        )
    return leaves
