"""PyTorch's algorithms for processes with unequal work, by name."""

from __future__ import annotations

from flambeau.distributed.algorithms import join as join

__all__: list[str] = []
