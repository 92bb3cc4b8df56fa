"""Methods of Tensor whose modules are imported when one of them is first called.

Few programs use them. The module, once imported, puts the method itself in the place of these.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from flambeau.core.tensor import Tensor

_METHODS = {
    "ops.buffers": ("apply_", "map2_", "map_"),
    "ops.copies": ("narrow_copy",),
    "ops.hashing": ("hash_tensor",),
    "ops.histograms": ("histogram",),
    "ops.matrices.older_factorizations": ("geqrf", "lu", "lu_solve", "orgqr", "ormqr"),
    "ops.older_names": ("unsafe_split_with_sizes",),
    "ops.resizing": (
        "as_strided_", "as_strided_scatter", "new", "new_empty_strided", "resize_", "resize_as_",
    ),
    "ops.signals.short_time_fourier": ("istft", "stft"),
    "storage": ("const_data_ptr", "set_", "storage", "storage_type", "untyped_storage"),
    "sparse.methods": (
        "_indices", "_nnz", "_values", "coalesce", "dense_dim", "indices", "is_coalesced",
        "sparse_dim", "sparse_mask", "to_sparse", "to_sparse_coo", "values",
    ),
}  # fmt: skip


def _defer(name: str, home: str) -> None:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        import_module(f"flambeau.{home}")
        return getattr(self, name)(*args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"See `flambeau.{home}`, which is imported at the first call."
    setattr(Tensor, name, method)


for _home, _names in _METHODS.items():
    for _name in _names:
        _defer(_name, _home)

__all__: list[str] = []
