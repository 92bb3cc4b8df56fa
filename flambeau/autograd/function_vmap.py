"""The ``vmap`` of a custom Function, which `flambeau.func.vmap` calls in place of forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flambeau.autograd.function_node import is_overridden
from flambeau.core.values.inside import randomness
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.tracers import constant


class VmapInfo(NamedTuple):
    """The information about the batch that the ``vmap`` of a Function gets.

    Attributes:
        batch_size: The number of examples.
        randomness: `flambeau.func.vmap`'s argument of that name.
    """

    batch_size: int
    randomness: str


def defines_vmap(cls: Any) -> bool:
    """Whether a Function defines how it computes batches.

    Raises:
        RuntimeError: It sets ``generate_vmap_rule`` as well.
    """
    if not is_overridden(cls, "vmap"):
        return False
    if cls.generate_vmap_rule:
        raise RuntimeError(
            f"{cls.__name__} has generate_vmap_rule=True and defines vmap as well; decide for one"
        )
    return True


def forward(cls: Any, args: Sequence[Any]) -> Any:
    """``cls.forward(*args)``, which a batched call replaces by ``cls.vmap``.

    Raises:
        RuntimeError: The result of ``vmap`` does not fit the result of forward.
    """
    call = _Call(cls, args)
    mapped = jax.custom_batching.custom_vmap(call.single)
    mapped.def_vmap(call.batch)
    # The derivative is the Function's own, which JAX gets elsewhere.
    arrays = [constant(each._read()) for each in args if isinstance(each, Tensor)]
    return call.returned(mapped(*arrays))


class _Call:
    """One call of a Function, on arrays.

    Attributes:
        shown: For each result ``None`` if it is a Tensor, else a tuple that holds it.
        is_tuple: Whether forward returns a tuple.
    """

    def __init__(self, cls: Any, args: Sequence[Any]) -> None:
        self.cls = cls
        self.args = args
        self.randomness = randomness()
        self.shown: list[tuple[Any] | None] = []
        self.is_tuple = False

    def single(self, *arrays: Any) -> tuple[Any, ...]:
        """The results of forward, without a batch."""
        returned = self.cls.forward(*self._with(arrays))
        self.is_tuple = isinstance(returned, tuple)
        results = returned if isinstance(returned, tuple) else (returned,)
        self.shown = [None if isinstance(each, Tensor) else (each,) for each in results]
        return tuple([each._read() for each in results if isinstance(each, Tensor)])

    def batch(self, size: int, batched: list[bool], *arrays: Any) -> tuple[Any, Any]:
        """The results of ``vmap``, with batches in front, and which results have a batch."""
        remaining = iter(batched)
        in_dims = tuple(
            [0 if isinstance(each, Tensor) and next(remaining) else None for each in self.args]
        )
        returned = self.cls.vmap(VmapInfo(size, self.randomness), in_dims, *self._with(arrays))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise RuntimeError(
                f"{self.cls.__name__}: vmap must return a tuple of what forward returns and of its "
                "batch dimensions"
            )
        results, dims = returned
        results = results if isinstance(results, tuple) else (results,)
        dims = dims if isinstance(dims, tuple) else (dims,) * len(results)
        if len(results) != len(self.shown) or len(dims) != len(results):
            raise RuntimeError(
                f"{self.cls.__name__}: vmap returned {len(results)} results and {len(dims)} batch "
                f"dimensions, forward {len(self.shown)} results"
            )
        pairs = [pair for pair in zip(results, dims, strict=True) if isinstance(pair[0], Tensor)]
        moved = [e._read() if d is None else jnp.moveaxis(e._read(), d, 0) for e, d in pairs]
        return tuple(moved), tuple([dim is not None for _, dim in pairs])

    def returned(self, arrays: Sequence[Any]) -> Any:
        """These arrays in the structure of forward's result."""
        remaining = iter(arrays)
        results = [Tensor._wrap(next(remaining)) if e is None else e[0] for e in self.shown]
        return tuple(results) if self.is_tuple else results[0]

    def _with(self, arrays: Sequence[Any]) -> list[Any]:
        remaining = iter(arrays)
        return [
            Tensor._wrap(next(remaining)) if isinstance(each, Tensor) else each
            for each in self.args
        ]
