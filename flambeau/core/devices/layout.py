"""Memory formats and layouts under PyTorch's names: accepted, but XLA chooses."""

from __future__ import annotations

from flambeau.core.support import naming

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "jagged",
    "layout",
    "legacy_contiguous_format",
    "memory_format",
    "preserve_format",
    "sparse_bsc",
    "sparse_bsr",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "strided",
]


class _Named:
    """A constant that prints as its name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name: str = name

    def __repr__(self) -> str:
        return f"{naming.package}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class memory_format(_Named):
    """An order of dimensions in memory. It has no effect, since XLA chooses its own."""

    __slots__ = ()


class layout(_Named):
    """The storage of elements: dense (`strided`), or sparse, such as `sparse_coo`."""

    __slots__ = ()


contiguous_format: memory_format = memory_format("contiguous_format")
legacy_contiguous_format: memory_format = contiguous_format
preserve_format: memory_format = memory_format("preserve_format")
channels_last: memory_format = memory_format("channels_last")
channels_last_3d: memory_format = memory_format("channels_last_3d")
strided: layout = layout("strided")
sparse_coo: layout = layout("sparse_coo")
# No tensor has one of these; code compares `Tensor.layout` with them.
sparse_csr: layout = layout("sparse_csr")
sparse_csc: layout = layout("sparse_csc")
sparse_bsr: layout = layout("sparse_bsr")
sparse_bsc: layout = layout("sparse_bsc")
jagged: layout = layout("jagged")
_mkldnn = layout("_mkldnn")
