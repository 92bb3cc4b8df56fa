"""Saving and loading: safetensors and PyTorch's files, written so that no crash can spoil them."""

from flambeau.checkpoint.atomic import atomic_path, atomic_write
from flambeau.checkpoint.errors import (
    CheckpointError,
    DamagedFileError,
    LimitExceededError,
    RefusedContentError,
    UnsupportedDtypeError,
)
from flambeau.checkpoint.io import load, save
from flambeau.checkpoint.limits import Limits
from flambeau.checkpoint.safetensors_file import read_metadata

__all__ = [
    "CheckpointError",
    "DamagedFileError",
    "LimitExceededError",
    "Limits",
    "RefusedContentError",
    "UnsupportedDtypeError",
    "atomic_path",
    "atomic_write",
    "load",
    "read_metadata",
    "save",
]
