"""Files of exported programs.

They are safetensors files: of the state by name, and of the program's text as one more tensor. The
text metadata has the header. So any reader of that format reads the state.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from typing import Any, BinaryIO

import jax
import numpy as np

from flambeau.checkpoint.errors import DamagedFileError, RefusedContentError
from flambeau.checkpoint.io import write_to
from flambeau.checkpoint.limits import Limits
from flambeau.checkpoint.safetensors_file import (
    header_of,
    of_json,
    read_safetensors,
    write_safetensors,
)
from flambeau.checkpoint.source import Source, opened
from flambeau.core.devices.device import as_device, device
from flambeau.export.code import program_from
from flambeau.export.facts import VERSION, Entry, Facts
from flambeau.export.program import ExportedProgram
from flambeau.ops.factories.from_data import tensor

__all__ = ["load", "save"]

_HEADER = "flambeau.export"
# No module has a member of this name.
_CODE = ".program"
_FORMAT = "file of an exported program"
_TIMES_THE_TEXT = 8


def save(ep: ExportedProgram, f: str | os.PathLike[str] | BinaryIO) -> None:
    """Write a program with its state to a file.

    A path is written atomically, as by `flambeau.save`.

    Args:
        ep: The program.
        f: A path, or a file open for writing bytes.

    Raises:
        TypeError: ``ep`` is no program, or its state has a dtype that safetensors files lack.
        OSError: The operating system reports an error.

    >>> from flambeau.export import load, save
    >>> import io
    >>> import flambeau
    >>> file = io.BytesIO()
    >>> save(flambeau.export.export(lambda x: x + 1, (flambeau.ones(2),)), file)
    >>> load(io.BytesIO(file.getvalue()))(flambeau.zeros(2))
    tensor([1., 1.])
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"The 'ep' parameter must be an ExportedProgram, got {type(ep).__name__}")
    code = ep.stablehlo().encode()
    header = {
        "digest": hashlib.sha256(code).hexdigest(),
        "convention": ep.exported.calling_convention_version,
        "jax": jax.__version__,
        **ep._facts.to_json(),
    }
    state = {_CODE: tensor(np.frombuffer(code, np.uint8)), **ep.state_dict}
    write_to(f, partial(write_safetensors, state, {_HEADER: json.dumps(header)}))


def load(
    f: str | os.PathLike[str] | BinaryIO, *, device: Any = None, limits: Limits | None = None
) -> ExportedProgram:
    """Read a program that `save` has written. No code of the file's author runs.

    The program itself is code of XLA, which reads and writes its own arrays only. It may compute
    for any time and allocate any memory when it is called.

    Args:
        f: A path, or a file open for reading bytes.
        device: Where the state is put; by default the default device.
        limits: How much memory the content may claim; by default ``Limits()``.

    Raises:
        CheckpointError: The file is damaged or of another format, was written by a newer version,
            calls functions outside of XLA, or claims too much memory.
        OSError: The file cannot be read.
    """
    where = as_device(device)
    limits = Limits() if limits is None else limits
    with opened(f) as source:
        try:
            return _read(source, where, limits)
        except DamagedFileError as error:
            error.format = _FORMAT
            raise


def _read(source: Source, where: device, limits: Limits) -> ExportedProgram:
    if source.read(0, min(4, source.size)) == b"PK\x03\x04":
        raise RefusedContentError(
            "it is a zip archive, such as torch.export.save writes; export the model with flambeau"
        )
    texts = header_of(source, limits.budget(source.size)).texts
    if _HEADER not in texts:
        raise RefusedContentError(
            "it holds tensors without a program; read them with flambeau.load"
        )
    header = of_json(texts[_HEADER], "the header of the program")
    if header.get("version") != VERSION:
        raise RefusedContentError(
            f"it has version {header.get('version')!r:.20} of the format, and this flambeau reads "
            f"version {VERSION}"
        )
    digest, convention = header.pop("digest", None), header.pop("convention", None)
    writer = header.pop("jax", None)
    try:
        facts = Facts.from_json(header, limits.depth)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise DamagedFileError(f"the header of the program is malformed: {error}") from None
    tensors = read_safetensors(source, as_device("cpu"), limits)
    if _CODE not in tensors or type(convention) is not int or type(writer) is not str:
        raise DamagedFileError("it has no program")
    code = tensors.pop(_CODE).numpy().tobytes()
    if hashlib.sha256(code).hexdigest() != digest:
        raise DamagedFileError("the digest of the program is wrong")
    state = {name: each.to(where) for name, each in tensors.items() if name not in facts.tied}
    if {*state} != {*facts.state} or not {*facts.tied.values()} <= {*state}:
        raise DamagedFileError("its header names other parameters and buffers than it holds")
    own = [
        Entry(name, np.dtype(state[name].dtype.numpy).name, tuple(state[name].shape))
        for name in facts.state
    ]
    try:
        text = code.decode()
    except UnicodeDecodeError:
        raise DamagedFileError("the program is not text") from None
    # An estimate of the memory that MLIR takes for it.
    limits.budget(source.size).take(_TIMES_THE_TEXT * len(text), "the program")
    program = program_from(text, facts, own, convention, writer)
    return ExportedProgram(program, facts, state | {n: state[e] for n, e in facts.tied.items()})
