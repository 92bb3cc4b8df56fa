"""Names that have an advice because they are PyTorch's are PyTorch's."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pytest
import torch

from flambeau._absent import advice


def is_in_pytorch(name: str) -> bool:
    room, _, last = name.rpartition(".")
    path = f"torch.{room}" if room else "torch"
    # What a module needs besides PyTorch may not be installed.
    return hasattr(import_module(path), last) or find_spec(f"{path}.{last}") is not None


# PyTorch's own, when torch.distributed.optim is imported.
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_every_name_with_an_advice_is_in_pytorch() -> None:
    assert torch.__version__.startswith("2.13")
    assert [name for name in sorted(advice()) if not is_in_pytorch(name)] == []
