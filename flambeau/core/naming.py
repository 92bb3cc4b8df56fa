"""The name under which programs use flambeau: its own, or torch, for which it stands in.

Types show it (`flambeau.float32`, `torch.float32`), and defaults that differ follow it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: The name of the package; `flambeau.as_torch` sets it.
package = "flambeau"

#: The modules of classes and functions that say, under the name torch, that they are in others.
homes: dict[Any, str] = {}

#: Under the name torch: give what a tensor and a parameter are pickled as.
reduced: Callable[[Any], Any] | None = None
reduced_parameter: Callable[[Any], Any] | None = None


def module_of(value: Any) -> Any:
    """The module in which a class or function is defined; ``None`` for what has none."""
    # Not all that has a `__module__` can be hashed.
    if homes and isinstance(value, type | type(module_of)) and value in homes:
        return homes[value]
    module = getattr(value, "__module__", None)
    # Classes that are derived from renamed ones, as a compiled module's, say what those say.
    if homes and isinstance(module, str) and module.partition(".")[0] == "torch":
        return f"flambeau{module[len('torch') :]}"
    return module
