"""The arguments of recorded function calls.

Most calls are recorded as written. PyTorch's layer functions in Python record all arguments, with
those that have defaults as keyword arguments. Passes over graphs rely on it, as in
``node.kwargs["p"]`` of a dropout.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from flambeau.fx.names import public_path
from flambeau.ops.matrices.matrix_functions import einsum

# Functions of `nn.functional` that PyTorch implements in C++ and records as called.
_AS_WRITTEN = {
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear", "celu_", "channel_shuffle", "conv1d",
    "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_similarity", "elu_", "gelu", "hardshrink", "hardtanh_", "leaky_relu_", "linear",
    "logsigmoid", "native_channel_shuffle", "one_hot", "pairwise_distance", "pdist",
    "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_", "rrelu_",
    "scaled_dot_product_attention", "selu_", "softplus", "softshrink", "threshold_",
}  # fmt: skip
# Public functions that PyTorch implements in Python.
_SPELLED_OUT = {
    "cdist", "norm", "split", "stft", "tensordot", "unique", "unique_consecutive",
}  # fmt: skip


def as_recorded(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The recorded arguments of a call."""
    if function is einsum and len(args) == 2 and isinstance(args[1], list | tuple):
        return (args[0], *args[1]), kwargs
    signature = _signature(function)
    if signature is None:
        return args, kwargs
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        # The call will raise a better message when the graph runs.
        return args, kwargs
    bound.apply_defaults()
    required, named = [], {}
    for name, parameter in signature.parameters.items():
        if parameter.default is inspect.Parameter.empty:
            required.append(bound.arguments[name])
        else:
            named[name] = bound.arguments[name]
    return tuple(required), named


@lru_cache(maxsize=256)
def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a function whose arguments are recorded in full."""
    home, name = public_path(function) or (None, "")
    spelled = (home == "nn.functional" and name not in _AS_WRITTEN) or (
        home == "" and name in _SPELLED_OUT
    )
    if not spelled:
        return None
    signature = inspect.signature(function)
    kinds = {each.kind for each in signature.parameters.values()}
    if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return None
    return signature
