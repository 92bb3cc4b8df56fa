"""Settings of matrix products on NVIDIA GPUs."""

from __future__ import annotations

from flambeau._absent import Absent as _Absent
from flambeau.cuda.devices import is_available
from flambeau.numerics import get_float32_matmul_precision, set_float32_matmul_precision

__all__ = ["is_built", "matmul"]

__getattr__ = _Absent(__name__)


def is_built() -> bool:
    """Whether JAX can use GPUs on this machine."""
    return is_available()


class Matmul:
    """Settings of matrix products."""

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 may be computed in TensorFloat32.

        Setting it is `set_float32_matmul_precision` with ``"high"`` or ``"highest"``, which holds
        for convolutions too.
        """
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        set_float32_matmul_precision("high" if allowed else "highest")


matmul = Matmul()
