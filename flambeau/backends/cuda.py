"""Settings of matrix products and attention on NVIDIA GPUs."""

from __future__ import annotations

from flambeau._absent import Absent as _Absent
from flambeau.backends.cuda_attention import (
    SDPAParams,
    SDPBackend,
    allow_fp16_bf16_reduction_math_sdp,
    can_use_cudnn_attention,
    can_use_efficient_attention,
    can_use_flash_attention,
    cudnn_sdp_enabled,
    enable_cudnn_sdp,
    enable_flash_sdp,
    enable_math_sdp,
    enable_mem_efficient_sdp,
    flash_sdp_enabled,
    fp16_bf16_reduction_math_sdp_allowed,
    is_ck_sdpa_available,
    is_flash_attention_available,
    math_sdp_enabled,
    mem_efficient_sdp_enabled,
    sdp_kernel,
)
from flambeau.backends.settings import PRECISIONS, check_precision
from flambeau.cuda.devices import is_available
from flambeau.numerics import get_float32_matmul_precision, set_float32_matmul_precision

__all__ = [
    "SDPAParams", "SDPBackend", "allow_fp16_bf16_reduction_math_sdp", "can_use_cudnn_attention",
    "can_use_efficient_attention", "can_use_flash_attention", "cuBLASModule", "cudnn_sdp_enabled",
    "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp",
    "flash_sdp_enabled", "fp16_bf16_reduction_math_sdp_allowed", "is_built", "is_ck_sdpa_available",
    "is_flash_attention_available", "math_sdp_enabled", "matmul", "mem_efficient_sdp_enabled",
    "sdp_kernel",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)


def is_built() -> bool:
    """Whether JAX can use GPUs on this machine."""
    return is_available()


class Matmul:
    """Settings of matrix products.

    The settings for half precision are stored without effect: XLA accumulates in float32.
    """

    def __init__(self) -> None:
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_fp16_reduced_precision_reduction_split_k = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction_split_k = True
        self.allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 may be computed in TensorFloat32.

        Setting it calls `set_float32_matmul_precision` with ``"high"`` or ``"highest"``, which
        applies to convolutions too.
        """
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        set_float32_matmul_precision("high" if allowed else "highest")

    @property
    def fp32_precision(self) -> str:
        """The precision of float32 products: ``"ieee"``, ``"tf32"`` or ``"bf16"``.

        Setting it calls `set_float32_matmul_precision`; ``"none"`` has no effect.
        """
        names = {each: name for name, each in PRECISIONS.items()}
        return names[get_float32_matmul_precision()]

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        check_precision(value)
        if value != "none":
            set_float32_matmul_precision(PRECISIONS[value])


cuBLASModule = Matmul
matmul: Matmul = Matmul()
