"""Affine and bilinear maps."""

from __future__ import annotations

from flambeau.ops.matrices.grouped import grouped_mm
from flambeau.ops.matrices.linalg import bilinear, linear

__all__ = ["bilinear", "grouped_mm", "linear"]
