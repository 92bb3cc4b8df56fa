"""Saving and loading tensors: safetensors files, written so that a crash cannot spoil them."""

from flambeau.checkpoint.atomic import atomic_path, atomic_write
from flambeau.checkpoint.io import load, read_metadata, save

__all__ = ["atomic_path", "atomic_write", "load", "read_metadata", "save"]
