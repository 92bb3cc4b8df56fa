"""Valid files of every format, small and taken apart, for `tests.fuzz.files` to change."""

from __future__ import annotations

import copy
import functools
import io
import json
import pickle
import pickletools
import struct
import tarfile
import zipfile
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import flambeau
from flambeau import nn
from flambeau.core.support.dtype import ALL_DTYPES
from tests.checkpoint.making import a_storage, a_tensor, archive, body, call, older

Operations = list[bytes]


@dataclass
class Parts:
    """A file taken apart; which parts there are depends on its format.

    Attributes:
        format: ``"archive"``, ``"older"``, ``"safetensors"`` or ``"bytes"``.
        pickles: The operations of its pickles.
        entries: Names and contents of an archive's other entries.
        arrays: What follows the pickles in the older format.
        header: The JSON of a safetensors file.
        data: What follows the header, or the whole file.
    """

    format: str
    pickles: list[Operations] = field(default_factory=list)
    entries: list[tuple[str, bytes]] = field(default_factory=list)
    arrays: list[bytes] = field(default_factory=list)
    header: Any = None
    data: bytes = b""

    def copied(self) -> Parts:
        """A file whose parts can be changed."""
        return Parts(
            self.format,
            [list(each) for each in self.pickles],
            list(self.entries),
            list(self.arrays),
            copy.deepcopy(self.header),
            self.data,
        )


def operations_of(pickled: bytes) -> Operations:
    """The operations of a pickle, each with its argument."""
    starts = [at for _, _, at in pickletools.genops(pickled) if at is not None]
    ends = [*starts[1:], len(pickled)]
    return [pickled[start:end] for start, end in zip(starts, ends, strict=True)]


def parts_of_archive(data: bytes) -> Parts:
    """An archive taken apart."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        entries = [(name, file.read(name)) for name in file.namelist()]
    pickled = next(content for name, content in entries if name.endswith("data.pkl"))
    others = [(name, content) for name, content in entries if not name.endswith("data.pkl")]
    return Parts("archive", [operations_of(pickled)], others)


def parts_of_safetensors(data: bytes) -> Parts:
    """A safetensors file taken apart."""
    length = int.from_bytes(data[:8], "little")
    return Parts("safetensors", header=json.loads(data[8 : 8 + length]), data=data[8 + length :])


def parts_of_older(data: bytes, arrays: list[bytes]) -> Parts:
    """A file of the older format taken apart, which ends with these arrays."""
    pickles, at = [], 0
    for _ in range(5):
        operations = operations_of(data[at:][: _end_of_pickle(data[at:])])
        pickles.append(operations)
        at += sum(map(len, operations))
    return Parts("older", pickles, arrays=arrays)


def _end_of_pickle(data: bytes) -> int:
    return next(at for code, _, at in pickletools.genops(data) if code.name == "STOP") + 1


def saved(obj: Any, **options: Any) -> bytes:
    """A file as `flambeau.save` writes it."""
    stream = io.BytesIO()
    flambeau.save(obj, stream, **options)
    return stream.getvalue()


def _checkpoint() -> dict[str, Any]:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "losses": [1.5, float("inf")],
        "best": (None, True, 1 + 2j, b"bytes", {"a", 1}, 2**70, frozenset([(1, (2, "x"))])),
        "kind": (flambeau.float16, flambeau.device("cpu"), flambeau.Size([2, 3]), np.float64(1)),
        "more": (bytearray(b"abc"), slice(1, None, 2), range(3), OrderedDict(a=1), b""),
    }


def _kinds() -> list[Any]:
    parameter = nn.Parameter(flambeau.ones(2))
    parameter.tag = "first"  # type: ignore[attr-defined]
    tied = flambeau.arange(6.0)
    with flambeau.device("meta"):
        meta = flambeau.zeros(2, 3)
    return [
        parameter, nn.Buffer(flambeau.ones(2), persistent=False), tied, tied[:2], meta,
        tied.detach().requires_grad_(), tied.expand(4, 6), flambeau.zeros(1).expand(10**11),
        nn.Parameter(tied, requires_grad=False),
    ]  # fmt: skip


def _views(*more: bytes) -> bytes:
    sizes = [((2, 2), (1, 2), 0), ((2,), (2,), 1), ((3, 2), (1, 1), 0), ((0, 4), (1, 1), 0)]
    tensors = [a_tensor(size, stride, offset) for size, stride, offset in sizes]
    return b"](" + b"".join([*tensors, *more]) + b"e"


def _conjugate() -> bytes:
    flagged = [a_storage(2, "ComplexFloatStorage"), body(0), body((2,)), body((1,)), body(False)]
    flagged += [b"}", body({"conj": True, "neg": True})]
    return call("torch._utils\n_rebuild_tensor_v2", *flagged)


def _tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as file:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            content = pickle.dumps({name: 1}, 2)
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


@functools.cache
def corpus() -> list[Parts]:
    """The files."""
    flambeau.manual_seed(0)
    every = {of.name: flambeau.ones(2, 3).to(of) for of in ALL_DTYPES}
    half = {name: each for name, each in every.items() if name != "complex128"}
    plain = [1, -1, 300, 2**40, -(2**70), 0.5, None, "é" * 30, {(1, (2, 3)): {1, 2}}, b"x" * 30]
    array = np.arange(4, dtype=np.float32).tobytes()
    counted = struct.pack("<Q", 4) + array
    views = b"\x80\x02" + _views(_conjugate()) + b"."
    swapped = io.BytesIO(archive(views, **{"0": array}))
    with zipfile.ZipFile(swapped, "a") as file:
        file.writestr("archive/byteorder", b"big")
    archives = [
        saved(_checkpoint()), saved(_kinds()), saved(every), saved(flambeau.ones(2)),
        archive(views, **{"0": array}), swapped.getvalue(),
        *[archive(pickle.dumps(plain, protocol)) for protocol in range(2, 6)],
    ]  # fmt: skip
    texts = {"epoch": "7", "format": "pt"}
    checkpoint = _checkpoint()["model"]
    flat = [saved(half, metadata=texts), saved(checkpoint, metadata={}), saved({}, metadata={})]
    bare = {"b": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}
    return [
        *map(parts_of_archive, archives),
        parts_of_older(older(_views(), ["0"], counted), [counted]),
        parts_of_older(older(a_tensor((4,), (1,)), ["0"], counted), [counted]),
        *map(parts_of_safetensors, flat),
        Parts("safetensors", header=bare, data=array),
        Parts("bytes", data=_tar()),
    ]
