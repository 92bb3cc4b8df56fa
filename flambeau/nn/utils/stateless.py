"""`functional_call` under its older name."""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor import Tensor
from flambeau.core.warning import warn
from flambeau.nn.module import Module

__all__ = ["functional_call"]

#: `flambeau.func.functional_call`, which the file of that function puts here.
_call: Any = None


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`flambeau.func.functional_call`, under a name that is deprecated."""
    warn(
        "flambeau.nn.utils.stateless.functional_call is deprecated, use "
        "flambeau.func.functional_call",
        FutureWarning,
    )
    return _call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
