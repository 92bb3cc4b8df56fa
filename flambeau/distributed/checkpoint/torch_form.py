"""Writing a folder that PyTorch's ``torch.distributed.checkpoint`` reads.

Each box of elements, and each value, is a file of `torch.save` within a part. The file
``.metadata`` says where, as a pickle of PyTorch's classes, which `torch_folder` reads.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import jax

from flambeau.checkpoint.atomic import atomic_write
from flambeau.checkpoint.elements import tensor_from
from flambeau.checkpoint.torch_writer import Call, Global, TorchPickler, write_archive
from flambeau.core.devices.device import as_device
from flambeau.core.devices.layout import strided
from flambeau.core.support.dtype import from_numpy_dtype
from flambeau.core.values.tensor import Size
from flambeau.distributed.checkpoint.division import Box, Part
from flambeau.distributed.checkpoint.forms import Form, Place, Snapshot, elements_of
from flambeau.distributed.checkpoint.torch_folder import METADATA, RECORDS

__all__ = ["TORCH"]

_VERSION = "1.0.0"
_NEW = Global("copyreg", "__newobj__")
_CONTIGUOUS = Call(Global(RECORDS["_MEM_FORMAT_ENCODING"], "_MEM_FORMAT_ENCODING"), (0,))


class _Record:
    """An object of one of PyTorch's classes, with its attributes or another state."""

    def __init__(self, kind: str, state: Any = None, **attributes: Any) -> None:
        self.cls = Global(RECORDS[kind], kind)
        self.state = attributes if state is None else state


class _Pickler(TorchPickler):
    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is _Record:
            return _NEW, (obj.cls,), obj.state
        return super().reducer_override(obj)


def _write_part(path: Path, boxes: list[tuple[Box, jax.Array]]) -> dict[str, Place]:
    return _write(path, ((box.key, _tensor(array, box)) for box, array in boxes))


def _tensor(array: jax.Array, box: Box) -> Any:
    return tensor_from(elements_of(array, box), as_device("cpu"))


def _write_values(folder: Path, snapshot: Snapshot) -> dict[str, Place]:
    return _write(folder / f"values-{snapshot.token}.distcp", snapshot.values.items())


def _write(path: Path, content: Iterable[tuple[str, Any]]) -> dict[str, Place]:
    places = {}
    with open(path, "xb") as file:
        for name, value in content:
            places[name] = Place(path.name, file.tell(), _append(file, value))
        file.flush()
        os.fsync(file.fileno())
    return places


def _append(file: BinaryIO, value: Any) -> int:
    # Positions in an archive count from its start.
    archive = io.BytesIO()
    write_archive(value, archive)
    return file.write(archive.getbuffer())


def _write_index(
    folder: Path,
    snapshot: Snapshot,
    parts: list[tuple[Part, str]],
    places: dict[str, Place],
    values: dict[str, Place],
) -> None:
    described: dict[str, Any] = dict.fromkeys(snapshot.paths)
    stored: dict[Any, Any] = {}
    boxes: dict[str, list[Box]] = {}
    for part, _ in parts:
        for box in part.boxes:
            boxes.setdefault(box.name, []).append(box)
    for name in snapshot.paths:
        if name in values:
            described[name] = _Record("BytesStorageMetadata", {})
            index = _Record("MetadataIndex", fqn=name, offset=None, index=None)
            stored[index] = _info(values[name])
            continue
        first = snapshot.tied.get(name, name)
        array, chunks = snapshot.arrays[first], []
        for i, box in enumerate(sorted(boxes[first], key=lambda each: each.start)):
            start, sizes = Size(box.start), Size(box.shape)
            chunks.append(_Record("ChunkStorageMetadata", offsets=start, sizes=sizes))
            # Tied tensors are stored once.
            index = _Record("MetadataIndex", fqn=name, offset=start, index=i)
            stored[index] = _info(places[box.key])
        facts = from_numpy_dtype(array.dtype), strided, False, _CONTIGUOUS, False
        described[name] = _Record(
            "TensorStorageMetadata",
            properties=_Record("TensorProperties", facts),
            size=Size(array.shape),
            chunks=chunks,
        )
    metadata = _Record(
        "Metadata",
        state_dict_metadata=described,
        planner_data=snapshot.paths,
        storage_data=stored,
        storage_meta=_Record(
            "StorageMeta", checkpoint_id=None, save_id=snapshot.token, load_id=None, modules=[]
        ),
        version=_VERSION,
    )
    with atomic_write(folder / METADATA) as file:
        _Pickler(file).dump(metadata)


def _info(place: Place) -> _Record:
    facts = {"relative_path": place.part, "offset": place.start, "length": place.length}
    return _Record("_StorageInfo", {**facts, "transform_descriptors": None})


TORCH = Form("distcp", METADATA, _write_part, _write_values, _write_index)
