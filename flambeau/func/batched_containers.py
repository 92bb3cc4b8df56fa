"""Containers that take part in `vmap` by PyTorch's private protocol, as those of tensordict do.

Such a container is no nested list or dictionary: it has a batch size of its own, and drops or adds
the batch dimension itself. It calls ``torch._C._functorch._add_batch_dim`` and
``torch._functorch.vmap._maybe_remove_batch_dim`` for its tensors, and passes on the `Level`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.ops.indices.gathering import index_select

_OUTSIDE = (
    "a dimension of a batch is neither added to a tensor nor removed: call the function through "
    "flambeau.func.vmap"
)


def is_container(value: Any) -> bool:
    """Whether a value drops the batch dimension itself."""
    return not isinstance(value, Tensor) and hasattr(type(value), "_add_batch_dim")


class Level:
    """One call of `vmap`, for the containers among its arguments and results.

    Args:
        index: The number of the example, a Tensor without dimensions.
        results: The tensors of the whole batch, in the order of `outputs`.

    Attributes:
        outputs: The tensors that containers return for one example, each with the place of its
            batch dimension.
    """

    def __init__(self, index: Any = None, results: Iterable[Tensor] | None = None) -> None:
        self.index = index
        self.outputs: list[tuple[Tensor, int]] = []
        self._results: Iterator[Tensor] | None = None if results is None else iter(results)

    def example(self, container: Any, dim: int | None) -> Any:
        """The container of one example.

        A copy that shares the tensors, so that names that the function adds do not stay.
        """
        copied = container.clone(False)
        return copied if dim is None else copied._add_batch_dim(in_dim=dim, vmap_level=self)

    def batch(self, container: Any, dim: int, size: int) -> Any:
        """The container of the whole batch, from that of one example."""
        return container._maybe_remove_batch_dim(
            "vmap", vmap_level=self, batch_size=size, out_dim=dim
        )

    def add(self, tensor: Tensor, dim: int) -> Tensor:
        """One example of a tensor."""
        return index_select(tensor, dim, self.index.reshape(1)).squeeze(dim)

    def remove(self, tensor: Tensor, size: int, dim: int) -> Tensor:
        """The tensor of the whole batch; before it is known, one of its shape."""
        if self._results is not None:
            return next(self._results)
        self.outputs.append((tensor, dim))
        whole = tensor.unsqueeze(dim)
        sizes = [*whole.shape]
        sizes[dim] = size
        return whole.expand(sizes)


def _add_batch_dim(module: Any, given: dict[str, Any]) -> Tensor:
    return _level(given).add(given["tensor"], given["in_dim"])


def _remove_batch_dim(module: Any, given: dict[str, Any]) -> Tensor:
    return _level(given).remove(given["tensor"], given["batch_size"], given["out_dim"])


def _level(given: dict[str, Any]) -> Level:
    level = given["vmap_level"]
    if not isinstance(level, Level):
        raise NotImplementedError(_OUTSIDE)
    return level
