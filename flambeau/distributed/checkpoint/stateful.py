"""Modules, optimizers and other objects at the first level of a state dict."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

__all__ = ["is_stateful", "with_state_dicts"]


def is_stateful(value: Any) -> bool:
    """Whether an entry of a state dict has a ``state_dict`` itself."""
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def with_state_dicts(state_dict: MutableMapping[str, Any]) -> dict[str, Any]:
    """The state dict with each object replaced by its state.

    Raises:
        TypeError: ``state_dict`` is not a dictionary.
    """
    if not isinstance(state_dict, MutableMapping):
        raise TypeError(
            f"a state dict is a dictionary, but got a {type(state_dict).__name__}; for a module, "
            "give its state_dict(), or {'model': module}"
        )
    return {
        key: each.state_dict() if is_stateful(each) else each for key, each in state_dict.items()
    }
