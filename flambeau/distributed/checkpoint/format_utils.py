"""Conversion between sharded checkpoints and single files."""

from __future__ import annotations

import os
from typing import Any

from flambeau.checkpoint.elements import tensor_from
from flambeau.checkpoint.io import load, save
from flambeau.core.devices.device import as_device
from flambeau.distributed.checkpoint import state_dict_saver
from flambeau.distributed.checkpoint.reading import Checkpoint

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Write a sharded checkpoint as one file, with flat names.

    The whole checkpoint must fit in this process's memory.

    Args:
        dcp_checkpoint_dir: The folder.
        torch_save_path: The file; in the safetensors format if its name ends in ``.safetensors``.

    Raises:
        CheckpointError: There is no complete checkpoint, or it is damaged.
        OSError: The operating system reports an error.
    """
    save(whole_checkpoint(dcp_checkpoint_dir), torch_save_path)


def whole_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """All tensors and values of a sharded checkpoint, under flat names.

    A tensor with several names, such as a tied weight, is one tensor.

    Raises:
        CheckpointError: There is no complete checkpoint, or it is damaged.
        OSError: The operating system reports an error.
    """
    with Checkpoint(path) as saved:
        firsts = {name: saved.first_name(name) for name in saved.tensor_names}
        read = {
            name: tensor_from(saved.elements(name), as_device("cpu")) for name in {*firsts.values()}
        }
        return {**{name: read[first] for name, first in firsts.items()}, **saved.values}


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Write one file, of `flambeau.save` or `torch.save`, as a sharded checkpoint.

    Args:
        torch_save_path: The file.
        dcp_checkpoint_dir: The folder.

    Raises:
        CheckpointError: The file cannot be read.
        OSError: The operating system reports an error.
    """
    state_dict_saver.save(
        load(torch_save_path, map_location="cpu"), checkpoint_id=dcp_checkpoint_dir
    )
