"""Saving and loading: safetensors and PyTorch's files, written so that no crash can spoil them."""

from flambeau.checkpoint.atomic import atomic_path, atomic_write
from flambeau.checkpoint.io import load, save
from flambeau.checkpoint.safetensors_file import read_metadata

__all__ = ["atomic_path", "atomic_write", "load", "read_metadata", "save"]
