"""Programs of models, for serving: saved, loaded and run without the model's source.

Promise: a program gives the model's results for every open size, on every platform that it was
exported for. Loading a file runs no code of its author. May import `core`, `ops`, `compile`, `nn`,
`func` and `checkpoint`.

- `dims.py` makes `jax.export`'s symbolic sizes of ``dynamic_shapes``; `structure.py` takes nested
  arguments and results apart.
- `tracing.py` traces a model inside `portable_forms` (`core/devices/compiler.py`), with parameters
  and buffers as inputs.
- `program.py` checks arguments and calls the program; `facts.py` is what it knows of itself, and
  the header of the file; `file.py` writes and reads safetensors files, `code.py` the program in
  them.
"""

from flambeau._absent import Absent as _Absent
from flambeau.export.dims import Dim, dims
from flambeau.export.file import load, save
from flambeau.export.program import ExportedProgram, ExportGraphSignature
from flambeau.export.tracing import export
from flambeau.utils._pytree import register_dataclass as _register_dataclass

__all__ = [
    "Dim", "ExportGraphSignature", "ExportedProgram", "dims", "export", "load",
    "register_dataclass", "save",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Register a dataclass as a pytree node; see `utils._pytree`."""
    _register_dataclass(cls)
