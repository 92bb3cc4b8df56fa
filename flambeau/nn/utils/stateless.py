"""`functional_call` under its older name."""

from __future__ import annotations

from typing import Any

from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.nn.common_types import Kwargs
from flambeau.nn.module import Module

__all__ = ["functional_call"]

#: `flambeau.func.functional_call`, set by its module.
_call: Any = None


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: object = None,
    kwargs: Kwargs | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`flambeau.func.functional_call` under a deprecated name."""
    warn(
        "flambeau.nn.utils.stateless.functional_call is deprecated, use "
        "flambeau.func.functional_call",
        FutureWarning,
    )
    return _call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
