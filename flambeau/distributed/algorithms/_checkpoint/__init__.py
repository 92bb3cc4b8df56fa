"""Modules whose activations are recomputed in backward."""
