"""Distances and similarities of vectors."""

from __future__ import annotations

from flambeau.ops.neural.losses.distance import cosine_similarity, pairwise_distance, pdist

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]
