"""Writing a folder of safetensors files, with an index that Hugging Face's libraries read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from flambeau.checkpoint.atomic import atomic_write
from flambeau.checkpoint.io import save as save_file
from flambeau.checkpoint.parts import INDEX
from flambeau.checkpoint.safetensors_file import header_bytes
from flambeau.distributed.checkpoint.division import Box, Part
from flambeau.distributed.checkpoint.forms import Form, Place, Snapshot, elements_of

__all__ = ["SAFETENSORS"]


def _write_part(path: Path, boxes: list[tuple[Box, jax.Array]]) -> dict[str, Place]:
    # The largest dtypes first: then all elements are aligned.
    boxes = sorted(boxes, key=lambda each: -each[1].dtype.itemsize)
    facts = {box.key: (array.dtype, box.shape) for box, array in boxes}
    with open(path, "xb") as file:
        # Hugging Face's readers require this text.
        file.write(header_bytes(facts, {"format": "pt"}))
        file.writelines(
            elements_of(array, box).reshape(-1).view(np.uint8).data for box, array in boxes
        )
        file.flush()
        os.fsync(file.fileno())
    return {}


def _write_values(folder: Path, snapshot: Snapshot) -> dict[str, Place]:
    save_file(snapshot.values, folder / f"values-{snapshot.token}.pt")
    return {}


def _write_index(
    folder: Path, snapshot: Snapshot, parts: list[tuple[Part, str]], *others: Any
) -> None:
    places = {box.key: (name, box) for part, name in parts for box in part.boxes}
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


SAFETENSORS = Form("safetensors", INDEX, _write_part, _write_values, _write_index)
