"""Settings of convolutions on NVIDIA GPUs.

``cudnn.deterministic = True`` is a demand: there is a warning if GPUs cannot meet it; see
`use_deterministic_algorithms`. So is ``cudnn.allow_tf32 = False``, which sets
`set_float32_matmul_precision`. The others keep what they are given and change nothing: XLA measures
its algorithms in any case.
"""

from __future__ import annotations

import sys
import types
from contextlib import AbstractContextManager
from typing import Any

from flambeau.backends.settings import Precision, allow, changed, check_flag, exchange
from flambeau.core.warning import warn
from flambeau.cuda.devices import is_available
from flambeau.numerics import gpus_are_deterministic

__all__ = [
    "allow_tf32", "benchmark", "benchmark_limit", "conv", "depthwise_kernel", "deterministic",
    "enabled", "flags", "fp32_precision", "is_acceptable", "is_available", "rnn", "set_flags",
    "version",
]  # fmt: skip

#: Whether to measure algorithms of convolutions, which XLA does on GPUs in any case.
benchmark: bool = False
#: How many algorithms to measure, which XLA decides.
benchmark_limit: int = 10
#: Which kernel computes depthwise convolutions, which XLA decides.
depthwise_kernel: str = "auto"
#: Whether NVIDIA's library is used, which XLA decides.
enabled: bool = True
#: Whether convolutions must give the same result each time.
deterministic: bool = False
#: Whether convolutions of float32 may be computed in TensorFloat32.
allow_tf32: bool = True
#: The same, as a word; see `flambeau.backends.settings.Precision`.
fp32_precision: str = "none"
conv: Precision = Precision()
rnn: Precision = Precision()


def version() -> int | None:
    """``None``: JAX does not say which version it calls."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether a tensor is on a GPU, where XLA may call NVIDIA's library."""
    return bool(enabled and tensor.is_cuda)


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str | None = "none",
    _depthwise_kernel: str | None = None,
) -> tuple[Any, ...]:
    """Set those that are not ``None``; gives what all were before."""
    return exchange(
        sys.modules[__name__],
        enabled=_enabled,
        benchmark=_benchmark,
        benchmark_limit=_benchmark_limit,
        deterministic=_deterministic,
        allow_tf32=_allow_tf32,
        fp32_precision=_fp32_precision,
        depthwise_kernel=_depthwise_kernel,
    )


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
    depthwise_kernel: str = "auto",
) -> AbstractContextManager[None]:
    """A block in which the settings are these."""
    return changed(
        sys.modules[__name__],
        enabled=enabled,
        benchmark=benchmark,
        benchmark_limit=benchmark_limit,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
        fp32_precision=fp32_precision,
        depthwise_kernel=depthwise_kernel,
    )


class _Settings(types.ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("allow_tf32", "benchmark", "deterministic", "enabled"):
            check_flag(f"cudnn.{name}", value)
        if name == "deterministic" and value and not gpus_are_deterministic():
            warn(
                "cudnn.deterministic: programs on GPUs are deterministic only if XLA_FLAGS "
                "contains --xla_gpu_deterministic_ops=true when JAX starts",
            )
        if name == "allow_tf32" and not value:
            allow("ieee")
        elif name == "fp32_precision":
            allow(value)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Settings
