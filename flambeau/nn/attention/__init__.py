"""The kernels that `functional.scaled_dot_product_attention` may use.

There are two: XLA's operators, in blocks for long sequences; and, on NVIDIA GPUs, cuDNN's flash
attention, in half precision, without dropout, and without an additive mask. The choice is
automatic. cuDNN's has first derivatives only, and no forward mode.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable, Iterator

from flambeau._absent import Absent as _Absent
from flambeau.ops.neural import fused_attention

__all__ = ["SDPBackend", "sdpa_kernel"]

__getattr__: _Absent = _Absent(__name__)


class SDPBackend(enum.IntEnum):
    """PyTorch's attention kernels; here all except ``MATH`` mean cuDNN's."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_FUSED = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION)


@contextlib.contextmanager
def sdpa_kernel(
    backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Compute attention inside the block with these kernels.

    With ``SDPBackend.MATH`` alone cuDNN is not used, so that all derivatives exist. If cuDNN cannot
    compute an attention, XLA does, allowed or not.

    Args:
        backends: One or several kernels.
        set_priority: Accepted; cuDNN comes first in any case.

    Raises:
        TypeError: A backend is not an `SDPBackend`.
        ValueError: There is no backend.

    >>> import flambeau
    >>> from flambeau.nn.attention import SDPBackend, sdpa_kernel
    >>> x = flambeau.ones(1, 2, 8)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     flambeau.nn.functional.scaled_dot_product_attention(x, x, x).shape
    flambeau.Size([1, 2, 8])
    """
    chosen = (backends,) if isinstance(backends, SDPBackend) else tuple(backends)
    for each in chosen:
        if not isinstance(each, SDPBackend):
            raise TypeError(f"sdpa_kernel() takes members of SDPBackend, got {each!r}")
    if not chosen:
        raise ValueError("sdpa_kernel() needs at least one kernel; SDPBackend.MATH always works")
    with fused_attention.enabled(any(each in _FUSED for each in chosen)):
        yield
