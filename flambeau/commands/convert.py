"""Write a checkpoint in another format, which the ending of the new name selects.

``.safetensors`` is a safetensors file; ``.pt``, ``.pth``, ``.bin`` and ``.ckpt`` are archives of
PyTorch; a name without an ending is a folder of ``flambeau.distributed.checkpoint``. The whole
checkpoint must fit in memory. Lines that begin with "lost" list what the new format cannot hold.
"""

from __future__ import annotations

import argparse
import errno
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

import flambeau
from flambeau.checkpoint.elements import array_of, elements_of, unexpanded
from flambeau.checkpoint.io import load, save
from flambeau.checkpoint.limits import Budget, Limits
from flambeau.checkpoint.parts import INDEX
from flambeau.checkpoint.safetensors_file import second_names
from flambeau.commands.contents import entries, named, opened_contents
from flambeau.commands.text import listed, printable, write
from flambeau.core.devices.layout import strided
from flambeau.core.values.tensor import Tensor
from flambeau.distributed import checkpoint
from flambeau.distributed.checkpoint.format_utils import whole_checkpoint

__all__: list[str] = []

_ARCHIVES = (".pt", ".pth", ".bin", ".ckpt")
_SAFETENSORS = ".safetensors"
_DTYPES = ("bfloat16", "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", help="a file, an index or a folder")
    parser.add_argument("out", type=Path, help="the new file or folder")
    parser.add_argument(
        "--dtype", choices=_DTYPES, help="convert floating-point tensors of at least one dimension"
    )
    parser.add_argument("--force", action="store_true", help="replace what is there")


def run(options: argparse.Namespace) -> int:
    """Write the new checkpoint, completely or not at all."""
    out, ending = options.out, options.out.suffix
    if ending not in ("", _SAFETENSORS, *_ARCHIVES):
        known = ", ".join((_SAFETENSORS, *_ARCHIVES))
        raise ValueError(f"{str(out)!r} must end in one of {known}, or be a folder without ending")
    if not options.force and (out.exists() if ending else out.is_file() or (out / INDEX).exists()):
        raise FileExistsError(errno.EEXIST, "it exists; give --force to replace it", str(out))
    with opened_contents(options.file, options.limits) as found:
        texts = {key: text for key, text in found.metadata.items() if isinstance(text, str)}
        budget = options.limits.budget(found.size)
    with named(options.file):
        whole = _whole(options.file, options.limits)
        if options.dtype:
            _convert(whole, getattr(flambeau, options.dtype), budget)
        if ending not in _ARCHIVES:
            whole = _flat(whole, budget, keeps_values=not ending)
    if not ending:
        checkpoint.save(whole, checkpoint_id=out)
    elif ending == _SAFETENSORS:
        save(whole, out, metadata=texts)
    else:
        save(whole, out)
    if texts and ending != _SAFETENSORS:
        write(f"lost: the metadata {listed(texts)}")
    write(f"wrote {printable(str(out))}")
    return 0


def _whole(path: str, limits: Limits) -> Any:
    if Path(path).is_dir() or Path(path).suffix == ".json":
        return whole_checkpoint(path)
    return load(path, map_location="cpu", limits=limits)


def _convert(whole: Any, of: Any, budget: Budget) -> None:
    """Convert tensors in place; tied tensors stay tied."""
    new: dict[Any, Tensor] = {}
    old: list[Tensor] = []  # Keeps the ids of Cells unique.
    overflown: list[str] = []
    for name, tensor in entries(whole, budget):
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            continue
        if tensor.layout is not strided:
            raise TypeError(f"--dtype converts no sparse tensors, and {name!r} is sparse")
        # Scalars are counters, such as the steps of an optimizer, and scales.
        if not tensor.dim() or tensor.dtype is of:
            continue
        key = elements_of(tensor)
        if key not in new:
            base = unexpanded(tensor)[0].detach()
            budget.take(base.numel() * of.itemsize, f"{name!r:.80} in the new dtype")
            converted = base.to(of)
            if not base.is_meta:
                grown = np.isfinite(array_of(base)) & ~np.isfinite(array_of(converted))
                overflown += [name] if grown.any() else []
            new[key] = converted.expand(tensor.shape)
            old.append(tensor.detach())
        tensor.data = new[key]
    if overflown:
        write(f"lost: elements that are too large for {of.name}, in {listed(overflown)}")


def _flat(whole: Any, budget: Budget, keeps_values: bool) -> dict[str, Any]:
    """The tensors under flat names, and the values if the format keeps them."""
    if not isinstance(whole, dict):
        raise TypeError(f"the file holds no dict of tensors, but a {type(whole).__name__}")
    tensors: OrderedDict[str, Tensor] = OrderedDict()
    values: dict[str, Any] = {}
    for name, value in entries(whole, budget):
        if name in tensors or name in values:
            raise ValueError(f"two entries have the name {name!r:.80}, keys joined by dots")
        if isinstance(value, Tensor):
            budget.take(value.numel() * value.dtype.itemsize, f"{name!r:.80} in full")
            tensors[name] = value
        else:
            values[name] = value
    if any(each.requires_grad for each in tensors.values()):
        write("lost: which tensors are parameters or require grad")
    if whole.keys() - tensors.keys() - values.keys():
        write("lost: the nesting of dictionaries; names are their keys joined by dots")
    if shared := second_names(tensors):
        write(f"only flambeau knows these other names of tied tensors: {listed(shared)}")
    if keeps_values:
        return {**tensors, **values}
    if values:
        write(f"lost: values that are no tensors: {listed(values)}")
    if hasattr(whole, "_metadata") and whole.keys() == tensors.keys():
        tensors._metadata = whole._metadata  # type: ignore[attr-defined]
    return tensors
