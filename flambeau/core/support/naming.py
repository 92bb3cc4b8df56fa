"""The name under which programs use flambeau: its own, or torch, which it replaces.

Types print it (`flambeau.float32`, `torch.float32`), and some defaults depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: The name of the package; `flambeau.as_torch` sets it.
package = "flambeau"

#: Under the name torch: the modules that classes and functions claim to be defined in.
homes: dict[Any, str] = {}

#: Under the name torch: gives the pickled form of a tensor or a parameter.
reduced: Callable[[Any], Any] | None = None
reduced_parameter: Callable[[Any], Any] | None = None


def module_of(value: Any) -> Any:
    """The module in which a class or function is defined; ``None`` if it has none."""
    # Some values with a `__module__` are not hashable.
    if homes and isinstance(value, type | type(module_of)) and value in homes:
        return homes[value]
    module = getattr(value, "__module__", None)
    # Classes derived from renamed ones, such as a compiled module's, report the same module.
    if homes and isinstance(module, str) and module.partition(".")[0] == "torch":
        return f"flambeau{module[len('torch') :]}"
    return module
