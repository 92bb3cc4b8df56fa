"""Writing a checkpoint: each process its parts, then one of them the index that commits it.

Parts have names that no earlier checkpoint in the folder uses, and nothing refers to them until the
index is replaced atomically. So whenever a process is killed, the index lists the parts of the last
complete checkpoint. Processes signal their end by files in the folder, since a background thread
must not start a program that spans all processes.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from flambeau.checkpoint.atomic import atomic_write, remove_temporaries
from flambeau.checkpoint.errors import CheckpointError
from flambeau.checkpoint.io import save as save_file
from flambeau.checkpoint.parts import INDEX
from flambeau.checkpoint.safetensors_file import header_bytes
from flambeau.distributed.checkpoint.division import Box, Part, divided, part_name, region_of

__all__ = ["Snapshot", "write"]

#: Seconds for which a process waits for the others to write their parts.
PATIENCE = 1800.0
_OURS = re.compile(r"(?:model-|values-|\.)[0-9a-f]{16}[-.].*(?:safetensors|pt|done|failed)")
# The files that are written through temporary files.
_THROUGH_TEMPORARIES = (
    rf"values-[0-9a-f]{{16}}[.]pt|[.][0-9a-f]{{16}}-\d+[.](?:done|failed)|{re.escape(INDEX)}"
)
# One save at a time, so that none deletes the parts that another is writing.
_turn = threading.Lock()


class Snapshot(NamedTuple):
    """A consistent snapshot of the state to write.

    Attributes:
        arrays: The elements of tensors by name.
        tied: For each further name of a tensor, the name in ``arrays``.
        values: Values other than tensors, by name.
        token: Distinguishes the checkpoint from all others, and is the same on all processes.
    """

    arrays: dict[str, jax.Array]
    tied: dict[str, str]
    values: dict[str, Any]
    token: str


def write(snapshot: Snapshot, folder: Path) -> None:
    """Write a checkpoint, and wait until all processes have.

    Raises:
        OSError: The operating system reports an error.
        CheckpointError: Another process has failed, or has not finished in time.
    """
    mine, processes = jax.process_index(), jax.process_count()
    parts = divided(snapshot.arrays, processes)
    names = [part_name(snapshot.token, i, len(parts)) for i in range(len(parts))]
    with _turn:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            for part, name in zip(parts, names, strict=True):
                if part.process == mine:
                    _write_part(folder / name, part, snapshot.arrays)
            if mine == 0:
                if snapshot.values:
                    save_file(snapshot.values, folder / f"values-{snapshot.token}.pt")
                for process in range(1, processes):
                    _await(folder, snapshot.token, process)
                _force_folder(folder)
                _write_index(folder, snapshot, parts, names)
        except BaseException as error:
            # After the index is replaced, only forcing it to the disk can fail.
            for part, name in zip(parts, names, strict=True):
                if part.process == mine and not _is_current(folder, snapshot.token):
                    (folder / name).unlink(missing_ok=True)
            if processes > 1:
                _tell(folder, snapshot.token, mine, f"{type(error).__name__}: {error}")
            raise
        if mine == 0:
            _remove_others(folder, snapshot.token)
        elif processes > 1:
            _tell(folder, snapshot.token, mine, None)
            _await_index(folder, snapshot.token)


def _write_part(path: Path, part: Part, arrays: dict[str, jax.Array]) -> None:
    # The largest dtypes first: then all elements are aligned.
    boxes = sorted(part.boxes, key=lambda box: -arrays[box.name].dtype.itemsize)
    facts = {box.key: (arrays[box.name].dtype, box.shape) for box in boxes}
    with open(path, "xb") as file:
        # Hugging Face's readers require this text.
        file.write(header_bytes(facts, {"format": "pt"}))
        for box in boxes:
            elements = _elements(arrays[box.name], box)
            file.write(elements.reshape(-1).view(np.uint8).data)
        file.flush()
        os.fsync(file.fileno())


def _elements(array: jax.Array, box: Box) -> np.ndarray:
    """The elements of a box, collected from this process's devices."""
    shards = [(region_of(each.index, array.shape), each) for each in array.addressable_shards]
    ends = [a + n for a, n in zip(box.start, box.shape, strict=True)]
    for region, shard in shards:
        if region == tuple(zip(box.start, ends, strict=True)):
            return np.asarray(shard.data, order="C")
    found = np.empty(box.shape, array.dtype)
    for region, shard in dict(shards).items():
        place = tuple(slice(a - s, b - s) for (a, b), s in zip(region, box.start, strict=True))
        found[place] = np.asarray(shard.data)
    return found


def _write_index(folder: Path, snapshot: Snapshot, parts: list[Part], names: list[str]) -> None:
    places: dict[str, tuple[str, Box]] = {}
    for part, name in zip(parts, names, strict=True):
        places.update({box.key: (name, box) for box in part.boxes})
    pieces: dict[str, Any] = {}
    for key, (_, box) in places.items():
        if key != box.name:
            shape = [*snapshot.arrays[box.name].shape]
            pieces.setdefault(box.name, [shape, {}])[1][key] = [*box.start]
    values = f"values-{snapshot.token}.pt" if snapshot.values else None
    facts = {"token": snapshot.token, "values": values, "divided": pieces, "tied": snapshot.tied}
    total = sum(box.size for _, box in places.values())
    index = {
        "metadata": {"total_size": total, "flambeau": facts},
        "weight_map": {key: name for key, (name, _) in places.items()},
    }
    with atomic_write(folder / INDEX) as file:
        file.write(json.dumps(index, indent=1, ensure_ascii=False).encode())


def _remove_others(folder: Path, token: str) -> None:
    """Delete files of earlier checkpoints, and of interrupted saves, from the folder."""
    for path in folder.iterdir():
        stays = f"-{token}" in path.name and not path.name.startswith(".")
        if _OURS.fullmatch(path.name) and not stays:
            path.unlink(missing_ok=True)
    remove_temporaries(folder, _THROUGH_TEMPORARIES, age=0)


# Processes


def _tell(folder: Path, token: str, process: int, failure: str | None) -> None:
    kind = "done" if failure is None else "failed"
    with atomic_write(folder / f".{token}-{process:05}.{kind}") as file:
        file.write((failure or "").encode())


def _await(folder: Path, token: str, process: int) -> None:
    mark = folder / f".{token}-{process:05}.done"
    _until(mark.exists, folder, token, process)


def _await_index(folder: Path, token: str) -> None:
    _until(lambda: _is_current(folder, token), folder, token, 0)


def _is_current(folder: Path, token: str) -> bool:
    try:
        return token in (folder / INDEX).read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


def _until(holds: Any, folder: Path, token: str, process: int) -> None:
    end, pause = time.monotonic() + PATIENCE, 0.001
    failed = folder / f".{token}-{process:05}.failed"
    while not holds():
        reason = f"process {process} has not written its part within {PATIENCE:.0f} s"
        if failed.exists():
            reason = f"process {process} could not write its part: {failed.read_text()}"
        if failed.exists() or time.monotonic() > end:
            raise CheckpointError(
                f"the checkpoint is not complete: {reason}", file=repr(str(folder))
            )
        time.sleep(pause)
        pause = min(2 * pause, 0.2)


def _force_folder(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
