"""`save` and `async_save`."""

from __future__ import annotations

import secrets
import threading
from collections.abc import MutableMapping
from concurrent.futures import Future
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from flambeau.checkpoint.elements import at_one_moment
from flambeau.checkpoint.safetensors_file import check_present, checked, second_names
from flambeau.core.devices import spanning
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.checkpoint.filesystem import FileSystemWriter, path_of
from flambeau.distributed.checkpoint.flattening import flattened
from flambeau.distributed.checkpoint.forms import Snapshot
from flambeau.distributed.checkpoint.stateful import with_state_dicts
from flambeau.distributed.checkpoint.writing import write

__all__ = ["async_save", "save"]


def save(
    state_dict: MutableMapping[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> None:
    """Write the state of models and optimizers to a folder, each process its own part.

    The folder holds safetensors files and ``model.safetensors.index.json``, as Hugging Face's
    libraries write and read them, with the keys of nested dictionaries joined by dots; and a file
    in PyTorch's format for values other than tensors. A tensor held by one process, on any number
    of devices, is stored as a whole. A previous checkpoint in the folder is kept until the new one
    is complete, and then deleted.

    Args:
        state_dict: Tensors and values in nested dictionaries; at its first level also modules,
            optimizers and other objects with ``state_dict`` and ``load_state_dict``. All processes
            must pass the same keys.
        checkpoint_id: The folder, shared by all processes; created if it is missing.
        storage_writer: A `FileSystemWriter`, which writes PyTorch's own files instead: its
            ``distributed.checkpoint`` reads them, and `load` too.
        planner: Accepted for compatibility, like the next three.
        process_group: See above.
        no_dist: See above.
        use_collectives: See above.

    Raises:
        ValueError: No folder is given, or two entries have one name.
        TypeError: A tensor has a dtype that safetensors files lack, where they are written, or is
            sparse.
        NotImplementedError: A tensor is on the meta device.
        OSError: The operating system reports an error. The folder's checkpoint is unchanged.
        CheckpointError: Another process could not write its part.

    >>> from flambeau.distributed.checkpoint import save
    >>> import tempfile
    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.distributed.checkpoint import load
    >>> model, folder = nn.Linear(2, 1), tempfile.mkdtemp()
    >>> save({"model": model, "epoch": 3}, checkpoint_id=folder)
    >>> state = {"model": nn.Linear(2, 1), "epoch": 0}
    >>> load(state, checkpoint_id=folder)
    >>> state["epoch"], flambeau.equal(state["model"].weight, model.weight)
    (3, True)
    """
    folder = path_of(checkpoint_id, storage_writer, "save()")
    write(_snapshot(state_dict, storage_writer), folder)


def async_save(
    state_dict: MutableMapping[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    async_checkpointer_type: Any = None,
    async_stager: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[None]:
    """`save` in the background, with the state at the time of the call.

    The elements stay in the memory of their devices until they are written, in addition to those of
    later steps. Python ends only after the write.

    Args:
        state_dict: See `save`, like all arguments of the same name.
        checkpoint_id: See `save`.
        storage_writer: See `save`.
        planner: See `save`.
        process_group: See `save`.
        async_checkpointer_type: Accepted for compatibility, like the next.
        async_stager: See above.
        no_dist: See `save`.
        use_collectives: See `save`.

    Returns:
        A future; its ``result()`` waits, and raises the errors of `save`.
    """
    folder = path_of(checkpoint_id, storage_writer, "async_save()")
    snapshot = _snapshot(state_dict, storage_writer)
    future: Future[None] = Future()

    def work() -> None:
        try:
            write(snapshot, folder)
        except BaseException as error:  # noqa: BLE001 - it is the future's
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=work, name="flambeau-async-save").start()
    return future


def _snapshot(state_dict: MutableMapping[str, Any], writer: Any) -> Snapshot:
    places = flattened(with_state_dicts(state_dict))
    entries = {name: each.value for name, each in places.items()}
    tensors = {name: each for name, each in entries.items() if isinstance(each, Tensor)}
    for name, tensor in tensors.items():
        if tensor.is_sparse:
            raise TypeError(f"{name!r} is sparse, which no part can hold: use to_dense()")
        check_present(name, tensor)
    for_torch = isinstance(writer, FileSystemWriter)
    tied = second_names(tensors if for_torch else checked(tensors))
    firsts = [name for name in tensors if name not in tied]
    arrays = [each._read() for each in at_one_moment(tensors[name] for name in firsts)]
    values = {name: each for name, each in entries.items() if not isinstance(each, Tensor)}
    paths = {name: each.path for name, each in places.items()}
    named = dict(zip(firsts, arrays, strict=True))
    return Snapshot(named, tied, values, paths, _token(), for_torch)


def _token() -> str:
    """Sixteen hexadecimal digits, the same on all processes."""
    mine = np.frombuffer(secrets.token_bytes(8), np.uint8)
    if jax.process_count() > 1:
        everyone, arguments = tuple(range(jax.process_count())), (mine.astype(np.int32),)
        send = multihost_utils.broadcast_one_to_all
        mine = np.asarray(spanning.run(send, arguments, "checkpoint.save()", everyone))
    return mine.astype(np.uint8).tobytes().hex()
