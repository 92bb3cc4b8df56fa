"""Capabilities of the processor."""

from __future__ import annotations

import functools
from pathlib import Path

__all__ = ["get_cpu_capability"]

_KINDS = (
    ("AVX512", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma"}),
    ("AVX2", {"avx2", "fma"}),
)


@functools.cache
def get_cpu_capability() -> str:
    """PyTorch's widest vector instructions: ``"AVX512"``, ``"AVX2"`` or ``"DEFAULT"``.

    XLA selects its instructions independently. On systems that do not list the processor's
    instructions (other than Linux) it is ``"DEFAULT"``.
    """
    found = _instructions()
    return next((name for name, needed in _KINDS if needed <= found), "DEFAULT")


def _instructions() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())
