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
from typing import Any

import jax

from flambeau.checkpoint.atomic import atomic_write, remove_temporaries
from flambeau.checkpoint.errors import CheckpointError
from flambeau.checkpoint.parts import INDEX
from flambeau.distributed.checkpoint.division import divided, part_name
from flambeau.distributed.checkpoint.forms import Place, Snapshot
from flambeau.distributed.checkpoint.safetensors_form import SAFETENSORS
from flambeau.distributed.checkpoint.torch_folder import METADATA
from flambeau.distributed.checkpoint.torch_form import TORCH

__all__ = ["write"]

#: Seconds for which a process waits for the others to write their parts.
PATIENCE = 1800.0
_OURS = re.compile(
    r"(?:model-|values-|\.)[0-9a-f]{16}[-.].*(?:safetensors|pt|distcp|done|failed)"
    r"|__\d+_\d+\.distcp"  # PyTorch's names.
)
# The files that are written through temporary files.
_THROUGH_TEMPORARIES = (
    rf"values-[0-9a-f]{{16}}[.]pt|[.][0-9a-f]{{16}}-\d+[.](?:done|failed)"
    rf"|{re.escape(INDEX)}|{re.escape(METADATA)}"
)
# One save at a time, so that none deletes the parts that another is writing.
_turn = threading.Lock()


def write(snapshot: Snapshot, folder: Path) -> None:
    """Write a checkpoint, and wait until all processes have.

    Raises:
        OSError: The operating system reports an error.
        CheckpointError: Another process has failed, or has not finished in time.
    """
    mine, processes = jax.process_index(), jax.process_count()
    form = TORCH if snapshot.for_torch else SAFETENSORS
    parts = divided(snapshot.arrays, processes)
    names = [part_name(snapshot.token, i, len(parts), form.suffix) for i in range(len(parts))]
    places: dict[str, Place] = {}
    with _turn:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            for part, name in zip(parts, names, strict=True):
                if part.process == mine:
                    boxes = [(each, snapshot.arrays[each.name]) for each in part.boxes]
                    places |= form.write_part(folder / name, boxes)
            if mine == 0:
                values = form.write_values(folder, snapshot) if snapshot.values else {}
                for process in range(1, processes):
                    places |= _await(folder, snapshot.token, process)
                _force_folder(folder)
                named = [*zip(parts, names, strict=True)]
                form.write_index(folder, snapshot, named, places, values)
        except BaseException as error:
            # After the index is replaced, only forcing it to the disk can fail.
            for part, name in zip(parts, names, strict=True):
                if part.process == mine and not _has(folder / form.index_name, snapshot):
                    (folder / name).unlink(missing_ok=True)
            if processes > 1:
                _tell(folder, snapshot.token, mine, "failed", f"{type(error).__name__}: {error}")
            raise
        if mine == 0:
            _remove_others(folder, snapshot.token, form.index_name)
        elif processes > 1:
            _tell(folder, snapshot.token, mine, "done", json.dumps(places))
            _until(lambda: _has(folder / form.index_name, snapshot), folder, snapshot.token, 0)


def _remove_others(folder: Path, token: str, index_name: str) -> None:
    """Delete files of earlier checkpoints, and of interrupted saves, from the folder."""
    for other in {INDEX, METADATA} - {index_name}:
        # First: without its parts it is no checkpoint.
        (folder / other).unlink(missing_ok=True)
    for path in folder.iterdir():
        stays = f"-{token}" in path.name and not path.name.startswith(".")
        if _OURS.fullmatch(path.name) and not stays:
            path.unlink(missing_ok=True)
    remove_temporaries(folder, _THROUGH_TEMPORARIES, age=0)


# Processes


def _tell(folder: Path, token: str, process: int, kind: str, content: str) -> None:
    with atomic_write(folder / f".{token}-{process:05}.{kind}") as file:
        file.write(content.encode())


def _await(folder: Path, token: str, process: int) -> dict[str, Place]:
    mark = folder / f".{token}-{process:05}.done"
    _until(mark.exists, folder, token, process)
    return {key: Place(*each) for key, each in json.loads(mark.read_text()).items()}


def _has(index: Path, snapshot: Snapshot) -> bool:
    """Whether an index is that of a snapshot."""
    try:
        return snapshot.token.encode() in index.read_bytes()
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
