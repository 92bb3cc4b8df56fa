"""Files of every format, made from their parts: for tests that change the parts."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from typing import Any


def archive(pickled: bytes, method: int = zipfile.ZIP_STORED, **arrays: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        file.writestr("archive/data.pkl", pickled)
        for key, data in arrays.items():
            file.writestr(f"archive/data/{key}", data)
    return stream.getvalue()


def body(value: Any) -> bytes:
    """The operations that push a value."""
    return pickle.dumps(value, 2)[2:-1]


def call(name: str, *operations: bytes) -> bytes:
    """The operations that call a function on what others push."""
    return f"c{name}\n".encode() + b"(" + b"".join(operations) + b"tR"


def a_storage(count: int, kind: str = "FloatStorage", key: str = "0") -> bytes:
    pushed = body("storage") + f"ctorch\n{kind}\n".encode() + body(key) + body("cpu")
    return b"(" + pushed + body(count) + b"tQ"


def a_tensor(
    size: Any, stride: Any, offset: Any = 0, kind: str = "FloatStorage", grad: Any = False
) -> bytes:
    sizes = [each if isinstance(each, bytes) else body(each) for each in (size, stride)]
    pushed = [a_storage(4, kind), body(offset), *sizes, body(grad), b"}"]
    return call("torch._utils\n_rebuild_tensor_v2", *pushed)


def older(pickled: bytes, keys: list[str], *arrays: bytes) -> bytes:
    """A file of the format before archives; arrays begin with the number of their elements."""
    facts = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    start = b"".join(pickle.dumps(each, 2) for each in facts)
    return start + b"\x80\x02" + pickled + b"." + pickle.dumps(keys, 2) + b"".join(arrays)


def safetensors(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: str = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def pickled(operations: bytes) -> bytes:
    return archive(b"\x80\x02" + operations + b".", **{"0": bytes(16)})
