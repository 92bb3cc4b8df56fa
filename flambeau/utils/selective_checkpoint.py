"""PyTorch's choice of results that a checkpointed region saves; here it saves none."""

from __future__ import annotations

import contextlib
import enum
from typing import Any

__all__ = ["CheckpointPolicy", "create_selective_checkpoint_contexts"]


class CheckpointPolicy(enum.Enum):
    """The choice between saving an operator's result and recomputing it."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Two contexts for the ``context_fn`` of `checkpoint`: every operator is recomputed.

    Args:
        policy_fn_or_list: Accepted for compatibility: it would choose operators to save.
        allow_cache_entry_mutation: Accepted for PyTorch's sake.
    """
    return contextlib.nullcontext(), contextlib.nullcontext()
