"""Affine maps."""

from __future__ import annotations

from flambeau.ops.linalg import linear

__all__ = ["linear"]
