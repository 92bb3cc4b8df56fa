"""Saving and loading tensors."""
