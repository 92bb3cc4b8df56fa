"""Saving and loading: safetensors and PyTorch's files, written atomically.

Promise: files are untrusted. Reading one runs no code of its author, unless ``weights_only=False``,
and claims no more memory than `Limits` allow. A path always holds its old content or the new. May
import `core`, `ops`, `nn` and `sparse`.

- `io.py` identifies the format. `source.py` reads bytes by position, `archive.py` the entries of
  zip archives, `pickled.py` pickles of plain data. None of them knows tensors, and all claims of a
  file are taken from one budget (`limits.py`).
- `torch_reader.py` knows the layout of PyTorch's files, `torch_pickles.py` maps the names in them,
  `torch_tensors.py` makes tensors of storages.
- `safetensors_file.py` is the other format; `parts.py` reads any region of tensors in several
  files.
- `atomic.py` and `torch_writer.py` write.
"""

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
