"""`vmap`: a function of one example becomes a function of a batch, by `jax.vmap`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.operators.writing import put
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.tape.transform import Capture, lifted
from flambeau.core.values.tensor import Tensor
from flambeau.func import recorded
from flambeau.func.batched_containers import Level, is_container
from flambeau.func.tree import Structure, as_tensor, broadcast, flatten, unflatten
from flambeau.ops.factories.from_data import tensor
from flambeau.ops.shapes.shape import cat, stack
from flambeau.random.drawing import Descent, Drawing

__all__ = ["vmap"]

_RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that applies ``func`` to every example of a batch at once.

    Args:
        func: Takes and returns Tensors without the batch dimension, or nested tuples, lists and
            dicts of them. Its control flow cannot depend on the values of its arguments.
        in_dims: The batch dimension of the positional arguments: a number for all, or a tuple in
            their structure, with ``None`` for arguments that are the same for every example.
            Keyword arguments are the same for every example.
        out_dims: The batch dimension of the outputs: a number for all, or a tuple in their
            structure, with ``None`` for outputs that do not depend on the example.
        randomness: The treatment of random numbers in ``func``: ``"error"`` forbids them,
            ``"same"`` draws once for all examples, ``"different"`` runs ``func`` on one example
            after another.
        chunk_size: The number of examples to run at once; by default all.

    Returns:
        A function of the same arguments with a batch dimension each.

    Raises:
        ValueError: The dimensions do not fit the arguments or outputs, batch sizes differ, or an
            output is not a Tensor.
        RuntimeError: An unknown ``randomness``; or ``func`` needs a value, or writes in place to a
            tensor from outside.

    >>> import flambeau
    >>> from flambeau.func import grad, vmap
    >>> vmap(grad(lambda x: x**3))(flambeau.tensor([1.0, 2.0]))
    tensor([ 3., 12.])
    """
    if randomness not in _RANDOMNESS:
        raise RuntimeError(f"randomness must be one of {_RANDOMNESS}, got {randomness!r}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap(): chunk_size must be positive, got {chunk_size}")

    @trimmed
    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        batch = _Batch(func, args, kwargs, in_dims, out_dims)
        if randomness == "different":
            return batch.by_rows()
        if chunk_size is not None and chunk_size < batch.size:
            return batch.by_chunks(chunk_size, randomness)
        return batch.at_once(randomness)

    return wrapped


class _Batch:
    """One call of a mapped function.

    Attributes:
        leaves: The leaves of the arguments, among them containers with a batch size.
        dims: The batch dimension of each leaf; ``None`` for a leaf without one.
        size: The number of examples.
        drawn: The random numbers that the examples share, once drawn.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        in_dims: Any,
        out_dims: Any,
    ) -> None:
        self.func = func
        self.kwargs = kwargs
        self.out_dims = out_dims
        leaves, self.structure = flatten(args, is_container)
        self.leaves = [as_tensor(each) for each in leaves]
        self.dims = _batch_dims(in_dims, self.leaves, self.structure)
        self.size = _batch_size(self.leaves, self.dims)
        self.containers = [i for i, leaf in enumerate(self.leaves) if is_container(leaf)]
        self.mapped = [
            i for i, dim in enumerate(self.dims) if dim is not None and i not in self.containers
        ]
        self.drawn: list[Any] | None = None

    def call(self, parts: Sequence[Tensor], level: Level) -> Any:
        """``func`` applied to these values in place of the mapped leaves."""
        leaves = list(self.leaves)
        for place, part in zip(self.mapped, parts, strict=True):
            leaves[place] = part
        for place in self.containers:
            leaves[place] = level.example(leaves[place], self.dims[place])
        return self.func(*unflatten(self.structure, leaves), **self.kwargs)

    def at_once(self, randomness: str) -> Any:
        """The results for the whole batch."""
        run = _Mapped(self, randomness)
        sources = [self.leaves[i] for i in self.mapped]
        results = recorded.run(run.compute, sources, self.drawn)
        self.drawn = run.drawn
        for place, value in zip(run.written, results[len(run.out_dims) :], strict=True):
            put(sources[place], value, "vmap")
        return unflatten(run.structure, run.outputs(results))

    def by_rows(self) -> Any:
        """The results of one example after another."""
        rows = []
        for i in range(self.size):
            parts = [self.leaves[place].select(self.dims[place], i) for place in self.mapped]
            rows.append(self.call(parts, Level(tensor(i) if self.containers else None)))
        return self._joined(rows, stack)

    def by_chunks(self, chunk_size: int, randomness: str) -> Any:
        """The results of one chunk after another."""
        chunks = []
        for start in range(0, self.size, chunk_size):
            part = _Batch.__new__(_Batch)
            part.__dict__.update(self.__dict__)
            part.size = min(chunk_size, self.size - start)
            part.leaves = [
                each if dim is None else _narrowed(each, dim, start, part.size)
                for each, dim in zip(self.leaves, self.dims, strict=True)
            ]
            chunks.append(part.at_once(randomness))
            self.drawn = part.drawn
        return self._joined(chunks, cat)

    def _joined(self, results: list[Any], join: Callable[..., Tensor]) -> Any:
        if not results:
            raise ValueError("vmap(): a batch of no examples cannot be run one by one")
        _, structure = flatten(results[0], is_container)
        columns = list(zip(*(flatten(each, is_container)[0] for each in results), strict=True))
        dims = _output_dims(self.out_dims, columns and [c[0] for c in columns], structure)
        joined = [
            column[0] if dim is None else join(column, dim)
            for column, dim in zip(columns, dims, strict=True)
        ]
        return unflatten(structure, joined)


class _Mapped:
    """One run of a mapped function through `jax.vmap`.

    Attributes:
        structure: The structure of the result.
        returned: The leaves of the result, each with its batch dimension.
        out_dims: The batch dimension of each output, a leaf or a tensor of a container.
        written: Which mapped arguments it wrote in place; their new values follow the outputs.
        drawn: The random numbers that it drew.
    """

    def __init__(self, batch: _Batch, randomness: str) -> None:
        self.batch = batch
        self.randomness = randomness
        self.structure: Any = None
        self.returned: list[tuple[Any, Any]] = []
        self.out_dims: list[Any] = []
        self.written: list[int] = []
        self.drawn: list[Any] = []

    def compute(self, arrays: Sequence[Any], capture: Capture) -> tuple[Any, ...]:
        """The outputs' arrays from the mapped arguments'; see `recorded.run`."""
        batch = self.batch
        self.drawn = capture.drawn
        in_axes: tuple[Any, ...] = tuple([batch.dims[place] for place in batch.mapped])
        example = functools.partial(self._example, capture, Descent())
        given, axes = arrays, in_axes
        if batch.containers:
            given, axes = (jnp.arange(batch.size), *arrays), (0, *in_axes)
        results = jax.vmap(example, in_axes=axes, out_axes=0)(*given)
        if None in self.out_dims:
            results = self._with_unmapped(given, axes, capture)
        dims = [*self.out_dims, *(in_axes[place] for place in self.written)]
        return tuple(
            [
                array if not dim else jnp.moveaxis(array, 0, _wrapped_dim(dim, array.ndim))
                for array, dim in zip(results, dims, strict=True)
            ]
        )

    def outputs(self, results: Sequence[Tensor]) -> list[Any]:
        """The leaves of the result for the whole batch."""
        remaining = iter(results)
        level = Level(results=remaining)
        return [
            level.batch(leaf, dim, self.batch.size) if is_container(leaf) else next(remaining)
            for leaf, dim in self.returned
        ]

    def _example(self, capture: Capture, descent: Descent, *arrays: Any) -> tuple[Any, ...]:
        with capture, descent, Drawing(randomness=self.randomness):
            parts = [Tensor._wrap(each) for each in arrays]
            level = Level(parts.pop(0) if self.batch.containers else None)
            leaves, self.structure = flatten(self.batch.call(parts, level), is_container)
            leaves = [as_tensor(each) for each in leaves]
            dims = _output_dims(self.batch.out_dims, leaves, self.structure)
            self.returned = [*zip(leaves, dims, strict=True)]
            for leaf, dim in self.returned:
                if is_container(leaf):
                    level.batch(leaf, dim, self.batch.size)
                else:
                    level.outputs.append((leaf, dim))
            self.out_dims = [dim for _, dim in level.outputs]
            results = [each._read() for each in lifted([each for each, _ in level.outputs])]
        self.written = [place for place, part in enumerate(parts) if part._cell.version]
        return (*results, *(parts[place]._read() for place in self.written))

    def _with_unmapped(
        self, arrays: Sequence[Any], in_axes: tuple[Any, ...], capture: Capture
    ) -> tuple[Any, ...]:
        out_axes = tuple([None if dim is None else 0 for dim in self.out_dims])
        out_axes += (0,) * len(self.written)
        again = Capture(capture.given, capture.drawn)
        example = functools.partial(self._example, again, Descent())
        try:
            return jax.vmap(example, in_axes=in_axes, out_axes=out_axes)(*arrays)
        except ValueError as error:
            raise ValueError(
                "vmap(): an output depends on the example, but its out_dims is None"
            ) from error


def _batch_dims(in_dims: Any, leaves: list[Any], structure: Structure) -> list[int | None]:
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"vmap(): in_dims must be an int or a tuple in the structure of the arguments, got "
            f"{in_dims!r}"
        )
    if not leaves:
        raise ValueError("vmap() needs at least one argument with a batch dimension")
    spread = broadcast(in_dims, structure)
    if spread is None:
        raise ValueError(
            f"vmap(): in_dims {in_dims!r} does not have the structure of the arguments, {structure}"
        )
    return [_checked_dim(dim, leaf) for dim, leaf in zip(spread, leaves, strict=True)]


def _checked_dim(dim: Any, leaf: Any) -> int | None:
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(f"vmap(): in_dims must hold ints and None, got {dim!r}")
    if not (isinstance(leaf, Tensor) or is_container(leaf)):
        raise ValueError(
            f"vmap(): in_dims has {dim} for an argument of type {type(leaf).__name__}; only "
            "Tensors can be mapped over, use None for it"
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(f"vmap(): in_dims has {dim} for a tensor with {leaf.ndim} dimensions")
    return dim % leaf.ndim


def _batch_size(leaves: list[Any], dims: list[int | None]) -> int:
    sizes = [each.shape[dim] for each, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap(): in_dims is None for all arguments, so there is no batch")
    if len(set(sizes)) > 1:
        raise ValueError(f"vmap(): the sizes of the mapped dimensions differ: {sizes}")
    return sizes[0]


def _output_dims(out_dims: Any, outputs: Sequence[Any], structure: Structure) -> list[int | None]:
    """The batch dimension of each output.

    Raises:
        ValueError: ``out_dims`` does not fit the outputs, or one of them is not a Tensor.
    """
    if structure.kind is None and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    dims = broadcast(out_dims, structure)
    if dims is None or any(not (dim is None or isinstance(dim, int)) for dim in dims):
        raise ValueError(
            f"vmap(): out_dims {out_dims!r} does not have the structure of the outputs, {structure}"
        )
    for each, dim in zip(outputs, dims, strict=True):
        if is_container(each) and dim is None:
            raise ValueError(
                f"vmap(): out_dims is None for a {type(each).__name__}, which needs a dimension"
            )
        if not (isinstance(each, Tensor) or is_container(each)):
            raise ValueError(
                f"vmap() needs a function that returns Tensors only, got {type(each).__name__}"
            )
    return dims


def _narrowed(leaf: Any, dim: int, start: int, length: int) -> Any:
    return leaf[(slice(None),) * dim + (slice(start, start + length),)]


def _wrapped_dim(dim: int, ndim: int) -> int:
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"vmap(): out_dims has {dim}, out of range for an output with {ndim} dimensions"
        )
    return dim % ndim
