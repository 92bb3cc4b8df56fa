"""Affine and bilinear maps."""

from __future__ import annotations

from flambeau.ops.linalg import bilinear, linear

__all__ = ["bilinear", "linear"]
