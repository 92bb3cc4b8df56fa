"""`load`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from flambeau.distributed.checkpoint.filesystem import path_of
from flambeau.distributed.checkpoint.filling import fill
from flambeau.distributed.checkpoint.optimizers import open_optimizers
from flambeau.distributed.checkpoint.reading import Checkpoint
from flambeau.distributed.checkpoint.stateful import is_stateful, with_state_dicts

__all__ = ["load"]


def load(
    state_dict: MutableMapping[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_reader: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Load a checkpoint into the tensors and dictionaries of a state dict.

    Each tensor keeps its sharding, and the elements of each device are read separately, so the mesh
    may differ from that of `save`. Keys that the state dict does not have at its first level are
    not read; below them, every entry of the checkpoint must have a place. A tensor on the meta
    device gets its elements on the devices planned by `flambeau.shard`, and stays the same object:
    a module of the state dict is filled in place, tied parameters included.

    An optimizer's state dict (a dictionary with ``"state"`` and ``"param_groups"``, at any level)
    gets the state of the checkpoint's parameters, which a new optimizer does not have yet.

    Args:
        state_dict: As for `save`. Objects with ``load_state_dict`` are loaded through it.
        checkpoint_id: A folder of `save`, of Hugging Face's libraries, or of PyTorch's function of
            this name; an index or a safetensors file; or a file of `flambeau.save` or `torch.save`,
            which is read completely.
        storage_reader: A `FileSystemReader`, an alternative to ``checkpoint_id``.
        planner: Accepted for compatibility, like the next two.
        process_group: See above.
        no_dist: See above.

    Raises:
        CheckpointError: There is no complete checkpoint, a part is missing or damaged, or it lacks
            entries, has entries without a place, or tensors of other shapes. The message lists all
            problems; nothing is changed then. Only a failure while elements are read, such as a
            disk error, leaves some tensors loaded and others not.
        ValueError: No path is given, or two entries have one name.
        OSError: The file cannot be read: ``FileNotFoundError`` if there is none.
    """
    path = path_of(checkpoint_id, storage_reader, "load()")
    states = with_state_dicts(state_dict)
    with Checkpoint(path) as saved, open_optimizers(states, state_dict, saved) as undoing:
        fill(states, saved)
        undoing.pop_all()
    for key, owner in state_dict.items():
        if is_stateful(owner):
            owner.load_state_dict(states[key])
        else:
            state_dict[key] = states[key]
