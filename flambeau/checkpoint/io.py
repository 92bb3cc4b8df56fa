"""`save` and `load`: safetensors files, and PyTorch's files."""

from __future__ import annotations

import errno
import io
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, BinaryIO

from flambeau.checkpoint.atomic import atomic_write
from flambeau.checkpoint.elements import tensor_from
from flambeau.checkpoint.errors import DamagedFileError, RefusedContentError
from flambeau.checkpoint.limits import Limits
from flambeau.checkpoint.parts import Parts, index_text_begins
from flambeau.checkpoint.safetensors_file import (
    check_metadata,
    read_safetensors,
    write_safetensors,
)
from flambeau.checkpoint.source import opened
from flambeau.checkpoint.torch_reader import (
    Reading,
    begins_archive,
    begins_older_file,
    begins_tar,
    read_archive,
    read_older_file,
    refuse_tar,
)
from flambeau.checkpoint.torch_writer import write_archive
from flambeau.core.devices.device import as_device, device
from flambeau.core.support.tracebacks import trimmed

__all__ = ["load", "save"]

Source = str | os.PathLike[str] | BinaryIO
Locations = str | device | Mapping[str, str | device] | Callable[[Any, str], Any] | None

_SAFETENSORS = ".safetensors"
# Enough bytes to tell the formats apart.
START = 512


@trimmed
def save(
    obj: Any,
    f: Source,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors, or objects that hold them, to a file.

    A file whose name ends in ``.safetensors`` holds a flat dict of tensors, such as
    ``model.state_dict()``, in the safetensors format. Any other is an archive that `torch.load`
    reads too: of dicts, lists, numbers, text and tensors, such as a checkpoint with the state of
    the optimizer, or of anything else that Python can pickle, for `load` with
    ``weights_only=False``.

    A file given by path is written atomically (`flambeau.checkpoint.atomic.atomic_write`): the path
    always holds either its old content or the new one. All checks come before the first write.

    Several names of one tensor (tied weights) are written once, and are one tensor again after
    `load`. Views of *parts* of a tensor are written in full, each as a separate tensor. Tensors on
    any device are saved as if from the CPU. A safetensors file does not record whether they are
    parameters or require grad.

    Args:
        obj: The object to save.
        f: A path, or a file open for writing bytes.
        pickle_module: Accepted for compatibility, like the next two: there is one format.
        pickle_protocol: See above.
        _use_new_zipfile_serialization: See above.
        metadata: Text to store with the tensors; `read_metadata` returns it. Only safetensors files
            can store it, so an open file without a name is written in that format.

    Raises:
        TypeError: For a safetensors file: ``obj`` is not a dict, or the value under the name in the
            message is not a tensor, or has a dtype that the format lacks (complex128). For others:
            Python cannot pickle a part of ``obj``.
        ValueError: ``metadata`` is given for another file, or has the key ``flambeau``; or a name
            is ``__metadata__``.
        NotImplementedError: A tensor for a safetensors file is on the meta device, so has no
            elements.
        pickle.PicklingError: Python cannot pickle a part of ``obj``; it may raise AttributeError
            for that too.
        OSError: The operating system reports an error, such as a full disk; a path then holds its
            old content, an open file a part of the new content.

    >>> from flambeau import load, save
    >>> import io
    >>> import flambeau
    >>> file = io.BytesIO()
    >>> save({"epoch": 3, "model": {"weight": flambeau.ones(2)}}, file)
    >>> _ = file.seek(0)
    >>> load(file)
    {'epoch': 3, 'model': {'weight': tensor([1., 1.])}}
    """
    texts = check_metadata(metadata)
    name = _name_of(f)
    if name.endswith(_SAFETENSORS) or (metadata is not None and not name):
        write = partial(write_safetensors, obj, texts)
    elif metadata is not None:
        raise ValueError(
            f"metadata is kept in safetensors files only, and {name!r} does not end in "
            f"{_SAFETENSORS}; put it into what is saved"
        )
    else:
        write = partial(write_archive, obj)
    write_to(f, write)


def write_to(f: Source, write: Callable[[BinaryIO], None]) -> None:
    """Give ``write`` a file to write to: a path's, which is replaced atomically, or an open one."""
    if isinstance(f, str | os.PathLike):
        with atomic_write(f) as file:
            write(file)
    else:
        whole = io.BytesIO()
        write(whole)
        _write_all(f, whole.getbuffer())


def _write_all(file: BinaryIO, rest: memoryview) -> None:
    """Write all bytes: an unbuffered file may accept fewer than it is given."""
    while rest:
        written = file.write(rest)
        if not written:
            raise BlockingIOError(
                errno.EAGAIN,
                f"the open file takes no more now, and {len(rest)} bytes are left; save to a file "
                "that blocks, or to an io.BytesIO",
            )
        rest = rest[written:]


def _name_of(f: Any) -> str:
    name = f if isinstance(f, str | os.PathLike) else getattr(f, "name", "")
    return os.fspath(name) if isinstance(name, str | os.PathLike) else ""


@trimmed
def load(
    f: Source,
    map_location: Locations = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    limits: Limits | None = None,
) -> Any:
    """Read a safetensors file, the files of an index, or a file of `torch.save`.

    The first bytes identify the format. An index, such as ``model.safetensors.index.json``, is
    given by its path; its parts are in the same folder and are read one tensor after another.

    The result for a safetensors file is an ``OrderedDict`` of tensors that do not require grad, in
    the order in which they were saved, or for files of other programs in the order of the data. A
    state dict's ``_metadata`` is restored as the attribute of that name.

    Args:
        f: A path, or a file open for reading bytes.
        map_location: The device that the tensors are put on: ``"cpu"``, ``"cuda:0"``, ``"meta"``
            for shapes and dtypes alone; or a mapping from the devices of the file, as in
            ``{"cuda:1": "cuda:0"}``; or a function of a storage on the CPU and the name of its
            device in the file, which returns the storage, its ``cuda()``, or ``None``. By default
            the default device.
        pickle_module: Accepted for compatibility.
        weights_only: In PyTorch's files, accept only tensors, numbers, text, containers of them,
            and objects allowed by `flambeau.serialization.add_safe_globals`; ``None`` means
            ``True``. With ``False`` they may hold any object that Python can import here, and **run
            code chosen by the file's author**.
        mmap: Accepted for compatibility. Tensors are read one after another.
        limits: How much memory the content may claim, and how deep tuples may be nested; by default
            ``Limits()``. They do not apply to code run with ``weights_only=False``.

    Raises:
        CheckpointError: The content of the file cannot be read. Each class of these errors is a
            RuntimeError, names the file and the place in it, and is one of: `DamagedFileError`: the
            file is in none of these formats, or damaged; `RefusedContentError`, also a
            pickle.UnpicklingError: the file needs content that is not read, such as code with
            ``weights_only``, or PyTorch-only objects; `UnsupportedDtypeError`, also a TypeError: a
            tensor has a dtype that flambeau lacks; `LimitExceededError`, also a
            pickle.UnpicklingError: the file claims too much memory.
        OSError: The file cannot be read: ``FileNotFoundError`` if there is none of this path.
        RuntimeError: This machine has no such device.
        TypeError: The file is open for text, ``limits`` are no Limits, or the function
            ``map_location`` gives something else.
    """
    placed = _placing(map_location)
    limits = Limits() if limits is None else limits
    if not isinstance(limits, Limits):
        raise TypeError(f"limits= are flambeau.checkpoint.Limits, but got {limits!r:.80}")
    with opened(f) as source:
        start = source.read(0, min(START, source.size))
        read, name = reader_of(start)
        if read is not None:
            reading = Reading(placed, weights_only is None or bool(weights_only), limits)
            try:
                return read(source, reading)
            except _ChoiceFailedError as failed:
                raise failed.error from None
            except DamagedFileError as error:
                error.format = name
                raise
        if not index_text_begins(start):
            return read_safetensors(source, placed("cpu"), limits)
    # Outside the block, since its errors name the part at fault.
    return _read_parts(f, placed("cpu"), limits)


def _read_parts(f: Source, where: device, limits: Limits) -> OrderedDict[str, Any]:
    """The tensors of all parts of an index, one after another."""
    if not isinstance(f, str | os.PathLike):
        raise RefusedContentError("an index of several parts is read by its path, beside them")
    with Parts(f, limits) as parts:
        parts.claim_all()
        found: OrderedDict[str, Any] = OrderedDict()
        for name in parts.names:
            first = parts.first_name(name)
            if first not in found:
                found[first] = tensor_from(parts.read(parts.stored(first)), where)
            found[name] = found[first]
    return OrderedDict((name, found[name]) for name in parts.names)


def reader_of(start: bytes) -> tuple[Callable[..., Any] | None, str]:
    """The reader of a file that begins with these bytes, and the name of its format."""
    if begins_archive(start):
        return read_archive, "archive of PyTorch's"
    if begins_older_file(start):
        return read_older_file, "file of PyTorch's older format"
    if begins_tar(start):
        return refuse_tar, "tar archive"
    return None, ""


def _placing(map_location: Any) -> Callable[[str], device]:
    if callable(map_location) and not isinstance(map_location, device):
        return lambda location: _chosen_by(map_location, location)
    if isinstance(map_location, Mapping):
        targets = {str(name): as_device(where) for name, where in map_location.items()}
        default = as_device(None)
        return lambda location: targets.get(location, default)
    where = as_device(map_location)
    return lambda location: where


class _ChoiceFailedError(Exception):
    """An error of the user's ``map_location`` function, not of the file."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _OnDevice:
    """The storage that is passed to a ``map_location`` function for the elements of a tensor."""

    def __init__(self, where: device) -> None:
        self.device = where

    def cpu(self) -> _OnDevice:
        """The elements on the CPU."""
        return _OnDevice(as_device("cpu"))

    def cuda(self, device: Any = None) -> _OnDevice:
        """The elements on a GPU, by default the first."""
        number = "cuda" if device is None else device
        return _OnDevice(as_device(f"cuda:{number}" if isinstance(number, int) else number))


def _chosen_by(function: Callable[..., Any], location: str) -> device:
    try:
        found = function(_OnDevice(as_device("cpu")), location)
    except Exception as error:
        raise _ChoiceFailedError(error) from error
    if found is None:
        return as_device(None)
    if not isinstance(found, _OnDevice):
        advice = "the function map_location= gives back what it is given, its cpu() or cuda(), or "
        error = TypeError(f"{advice}None, but it gave {type(found).__name__}")
        raise _ChoiceFailedError(error)
    return found.device
