"""Older functions than `nn.attention.sdpa_kernel` that select attention kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from flambeau.core.support.settings import setting
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
        # The setting is not restored at the end.
        fused_attention.enabled(fused).__enter__()


def _switch(kernel: str) -> tuple[Callable[[bool], None], Callable[[], bool]]:
    """The functions that set, in this thread, and return whether a kernel is enabled.

    All of PyTorch's fused kernels stand for cuDNN's here, which is used unless all of them are
    disabled; see `flambeau.nn.attention.sdpa_kernel`. Plain attention is always its fallback.
    """

    def enable(enabled: bool) -> None:
        _enable(kernel, enabled)

    def read() -> bool:
        return _enabled[kernel]

    enable.__name__ = enable.__qualname__ = f"enable_{kernel}_sdp"
    read.__name__ = read.__qualname__ = f"{kernel}_sdp_enabled"
    return enable, setting(read)


enable_flash_sdp: Callable[[bool], None]
flash_sdp_enabled: Callable[[], bool]
enable_flash_sdp, flash_sdp_enabled = _switch("flash")
enable_mem_efficient_sdp: Callable[[bool], None]
mem_efficient_sdp_enabled: Callable[[], bool]
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _switch("mem_efficient")
enable_cudnn_sdp: Callable[[bool], None]
cudnn_sdp_enabled: Callable[[], bool]
enable_cudnn_sdp, cudnn_sdp_enabled = _switch("cudnn")
enable_math_sdp: Callable[[bool], None]
math_sdp_enabled: Callable[[], bool]
enable_math_sdp, math_sdp_enabled = _switch("math")


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Store whether plain attention may accumulate in half precision; it never does."""
    _reduced["math"] = bool(enabled)


@setting
def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """The last value given to `allow_fp16_bf16_reduction_math_sdp`."""
    return _reduced["math"]


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """A context manager that enables these kernels, older than `nn.attention.sdpa_kernel`."""
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
    """``False``: that library is for AMD GPUs."""
    return False


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Whether cuDNN's flash attention computes an attention.

    Args:
        params: Its arguments.
        debug: Accepted for compatibility; no reason is printed.
    """
    query, key, value = (each.detach().jax() for each in params[:3])
    mask = None if params.attn_mask is None else params.attn_mask.detach().jax()
    kept = params.dropout or None
    fits = fused_attention.takes(query, key, value, mask, kept, params.is_causal)
    return fits and params.query.is_cuda


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Equal to `can_use_flash_attention`: there is one fused kernel."""
    return can_use_flash_attention(params, debug)


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Equal to `can_use_flash_attention`: there is one fused kernel."""
    return can_use_flash_attention(params, debug)
