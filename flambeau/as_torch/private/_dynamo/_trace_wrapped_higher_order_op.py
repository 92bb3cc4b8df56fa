"""How PyTorch's `vmap` gets to read ``x[i]`` by an index that it maps over."""

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex:
    """A block like any other: an index may be a mapped tensor in any case."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        """Nothing has changed."""
