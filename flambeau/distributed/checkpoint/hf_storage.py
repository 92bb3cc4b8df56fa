"""Names of PyTorch's checkpoints in Hugging Face's layout, of which there are none."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau._absent import Absent as _Absent

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

__getattr__: _Absent = _Absent(__name__)


class HuggingFaceStorageReader:
    """Refuses, when it is made.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("HuggingFaceStorageReader")


class HuggingFaceStorageWriter:
    """Refuses, when it is made.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("HuggingFaceStorageWriter")


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"there is no {name}: flambeau.distributed.checkpoint.save and load write and read "
        "safetensors files in a layout of their own; flambeau.save writes a whole state dict"
    )
