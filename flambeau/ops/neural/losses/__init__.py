"""Losses, and the distances that some of them compare."""
