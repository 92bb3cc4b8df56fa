"""Checkpoints in parts from and to single files."""

from __future__ import annotations

import os
from typing import Any

from flambeau.checkpoint.elements import tensor_from
from flambeau.checkpoint.io import load, save
from flambeau.core.device import as_device
from flambeau.distributed.checkpoint import state_dict_saver
from flambeau.distributed.checkpoint.reading import Checkpoint

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Write a checkpoint in parts as one file, with its flat names.

    The whole is in this process's memory meanwhile.

    Args:
        dcp_checkpoint_dir: The folder.
        torch_save_path: The file; a safetensors file if its name ends so.

    Raises:
        CheckpointError: There is no complete checkpoint, or it is damaged.
        OSError: The operating system refuses.
    """
    with Checkpoint(dcp_checkpoint_dir) as saved:
        # A tensor of several names, as tied weights are, stays one.
        firsts = {name: saved.first_name(name) for name in saved.tensor_names}
        read = {
            name: tensor_from(saved.elements(name), as_device("cpu")) for name in {*firsts.values()}
        }
        whole: dict[str, Any] = {name: read[first] for name, first in firsts.items()}
        whole.update(saved.values)
    save(whole, torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Write one file, of `flambeau.save` or `torch.save`, as a checkpoint in parts.

    Args:
        torch_save_path: The file.
        dcp_checkpoint_dir: The folder.

    Raises:
        CheckpointError: The file cannot be read.
        OSError: The operating system refuses.
    """
    state_dict_saver.save(
        load(torch_save_path, map_location="cpu"), checkpoint_id=dcp_checkpoint_dir
    )
