"""Sharded checkpoints: each process writes, and each device reads, its part.

`division.py` assigns elements to processes and files, in the same way on all. `writing.py` has them
written in one of two forms, `safetensors_form.py` or PyTorch's, `torch_form.py`, and the index
replaced last. `reading.py` and `filling.py` read the elements of each device, by
`checkpoint.parts` or `torch_folder.py`, after all checks.
"""

from flambeau._absent import Absent as _Absent
from flambeau.checkpoint.errors import CheckpointError as CheckpointError
from flambeau.distributed.checkpoint import format_utils as format_utils
from flambeau.distributed.checkpoint.filesystem import FileSystemReader as FileSystemReader
from flambeau.distributed.checkpoint.filesystem import FileSystemWriter as FileSystemWriter
from flambeau.distributed.checkpoint.filesystem import (
    HuggingFaceStorageReader as HuggingFaceStorageReader,
)
from flambeau.distributed.checkpoint.filesystem import (
    HuggingFaceStorageWriter as HuggingFaceStorageWriter,
)
from flambeau.distributed.checkpoint.state_dict_loader import load as load
from flambeau.distributed.checkpoint.state_dict_saver import async_save as async_save
from flambeau.distributed.checkpoint.state_dict_saver import save as save

__all__ = [
    "FileSystemReader", "FileSystemWriter", "HuggingFaceStorageReader", "HuggingFaceStorageWriter",
    "async_save", "load", "save",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)
