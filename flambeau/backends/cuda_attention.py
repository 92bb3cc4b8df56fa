"""Which kernels of attention may be used, by older functions than `nn.attention.sdpa_kernel`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from flambeau.core.settings import setting
from flambeau.cuda.devices import is_available
from flambeau.nn.attention import SDPBackend
from flambeau.ops.neural import fused_attention

__all__ = [
    "SDPAParams", "SDPBackend", "allow_fp16_bf16_reduction_math_sdp", "can_use_cudnn_attention",
    "can_use_efficient_attention", "can_use_flash_attention", "cudnn_sdp_enabled",
    "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp",
    "flash_sdp_enabled", "fp16_bf16_reduction_math_sdp_allowed", "is_ck_sdpa_available",
    "is_flash_attention_available", "math_sdp_enabled", "mem_efficient_sdp_enabled", "sdp_kernel",
]  # fmt: skip


class SDPAParams(NamedTuple):
    """The arguments of an attention, for `can_use_flash_attention`."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any = None
    dropout: float = 0.0
    is_causal: bool = False
    enable_gqa: bool = False


_enabled = {"cudnn": True, "flash": True, "math": True, "mem_efficient": True}
_reduced = {"math": False}


def _enable(name: str, enabled: bool) -> None:
    _enabled[name] = bool(enabled)
    fused = any(each for kernel, each in _enabled.items() if kernel != "math")
    if fused != fused_attention.enabled.value:
        # It stays until it is set otherwise.
        fused_attention.enabled(fused).__enter__()


def enable_flash_sdp(enabled: bool) -> None:
    """Allow or forbid flash attention in this thread.

    The kernels of PyTorch but the plain one stand for cuDNN's here, which is used unless all are
    forbidden; see `flambeau.nn.attention.sdpa_kernel`.
    """
    _enable("flash", enabled)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow or forbid memory-efficient attention in this thread; see `enable_flash_sdp`."""
    _enable("mem_efficient", enabled)


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow or forbid cuDNN's attention in this thread; see `enable_flash_sdp`."""
    _enable("cudnn", enabled)


def enable_math_sdp(enabled: bool) -> None:
    """Keep whether plain attention is allowed, which is used wherever cuDNN's cannot be."""
    _enable("math", enabled)


@setting
def flash_sdp_enabled() -> bool:
    """The last argument of `enable_flash_sdp`."""
    return _enabled["flash"]


@setting
def mem_efficient_sdp_enabled() -> bool:
    """The last argument of `enable_mem_efficient_sdp`."""
    return _enabled["mem_efficient"]


@setting
def cudnn_sdp_enabled() -> bool:
    """The last argument of `enable_cudnn_sdp`."""
    return _enabled["cudnn"]


@setting
def math_sdp_enabled() -> bool:
    """The last argument of `enable_math_sdp`."""
    return _enabled["math"]


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Keep whether plain attention may add up in half precision; it never does."""
    _reduced["math"] = bool(enabled)


@setting
def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """The last argument of `allow_fp16_bf16_reduction_math_sdp`."""
    return _reduced["math"]


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """A block in which these kernels are allowed; an older `nn.attention.sdpa_kernel`."""
    before = dict(_enabled)
    given = {
        "flash": enable_flash, "math": enable_math, "mem_efficient": enable_mem_efficient,
        "cudnn": enable_cudnn,
    }  # fmt: skip
    try:
        for name, each in given.items():
            _enable(name, each)
        yield
    finally:
        for name, each in before.items():
            _enable(name, each)


def is_flash_attention_available() -> bool:
    """Whether there is a GPU, on which cuDNN's flash attention is used."""
    return is_available()


def is_ck_sdpa_available() -> bool:
    """``False``: that library is AMD's."""
    return False


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether cuDNN's flash attention computes an attention.

    Args:
        params: Its arguments.
        debug: Accepted for PyTorch's sake; no reason is told.
    """
    query, key, value = (each.detach().jax() for each in params[:3])
    mask = None if params.attn_mask is None else params.attn_mask.detach().jax()
    kept = params.dropout or None
    fits = fused_attention.takes(query, key, value, mask, kept, params.is_causal)
    return fits and params.query.is_cuda


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """`can_use_flash_attention`: there is one such kernel."""
    return can_use_flash_attention(params, debug)


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """`can_use_flash_attention`: there is one such kernel."""
    return can_use_flash_attention(params, debug)
