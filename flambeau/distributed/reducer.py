"""Gradients and buffers of a module that processes train together."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import flambeau.distributed.collectives as collectives
from flambeau.core.support.modes import modes, no_grad
from flambeau.core.tape import engine
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.exchange import PIECE, exchanged, from_process, means, pieces
from flambeau.distributed.process_group import ProcessGroup
from flambeau.distributed.reduce_op import ReduceOp
from flambeau.nn.module import Module
from flambeau.ops.factories.creation import full, zeros_like
from flambeau.ops.factories.from_data import from_numpy
from flambeau.ops.shapes.shape import cat

__all__: list[str] = []


class GradBucket:
    """Some of the gradients of a backward pass, for a function of `register_comm_hook`.

    Args:
        index: The number of the bucket, from 0.
        parameters: The parameters.
        gradients: Their gradients, all of one dtype.
        is_last: Whether it is the last bucket.
    """

    def __init__(
        self, index: int, parameters: list[Tensor], gradients: list[Tensor], is_last: bool
    ) -> None:
        self._index, self._is_last = index, is_last
        self._parameters = parameters
        self._buffer: Tensor = cat([each.reshape(-1) for each in gradients])

    def index(self) -> int:
        """The number of the bucket, from 0."""
        return self._index

    def buffer(self) -> Tensor:
        """All gradients as one vector."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the vector of `buffer`."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """The gradients as views of `buffer`, one for each parameter."""
        parts = self._buffer.split([each.numel() for each in self._parameters])
        pairs = zip(parts, self._parameters, strict=True)
        return [part.view(own.shape) for part, own in pairs]

    def parameters(self) -> list[Tensor]:
        """The parameters."""
        return [*self._parameters]

    def is_last(self) -> bool:
        """Whether it is the last bucket of the backward pass."""
        return self._is_last


class Reducer:
    """Averages the gradients of a wrapped module, and makes its buffers equal.

    Args:
        owner: The wrapper. Its ``expects_backward`` says whether the next backward pass ends with
            averaged gradients.
        module: The module.
        group: The processes.
        megabytes: The size of the pieces in which gradients are exchanged, in MiB.

    Attributes:
        divisor: The number by which sums of gradients are divided.
        hook: A function of `register_comm_hook`, with its first argument.
    """

    def __init__(
        self, owner: Module, module: Module, group: ProcessGroup, megabytes: float | None
    ) -> None:
        self.ignored: set[str] = {*getattr(module, "_ddp_params_and_buffers_to_ignore", ())}
        self.group = group
        self.divisor: float = group.size()
        self.hook: tuple[Callable[..., Any], Any] | None = None
        self.piece = PIECE if megabytes is None else int(megabytes * (1 << 20))
        self.parameters: dict[str, Tensor] = {
            name: each
            for name, each in module.named_parameters()
            if each.requires_grad and name not in self.ignored
        }
        # The parameters that have no gradient yet since the forward pass.
        self.waiting: set[Tensor] = set()
        # The parameters may outlive the wrapper.
        ready = functools.partial(_ready, weakref.ref(owner))
        for each in self.parameters.values():
            each.register_post_accumulate_grad_hook(ready)

    def average(self, is_finished: bool = False) -> None:
        """Replace the gradients by their averages over the processes.

        Args:
            is_finished: Whether this process has no gradients of its own any more, and only takes
                part; see `Join`.

        Raises:
            NotImplementedError: A gradient is sparse.
        """
        named = self.parameters
        if modes.trace is not None:
            # All processes run the same program.
            named = {name: each for name, each in named.items() if each.grad is not None}
        parameters = [*named.values()]
        grads = [None if is_finished else each.grad for each in parameters]
        _refuse_sparse(named, grads)
        given = [
            zeros_like(own) if grad is None else grad.detach()
            for own, grad in zip(parameters, grads, strict=True)
        ]
        has_gradient = from_numpy(np.array([grad is not None for grad in grads], np.float32))
        with no_grad():
            if self.hook is None:
                *results, shares = self._means([*given, has_gradient.to(given[0].device)])
            else:
                (shares,) = self._means([has_gradient.to(given[0].device)])
                results = self._by_hook(parameters, given)
            for i, (own, grad) in enumerate(zip(parameters, grads, strict=True)):
                if grad is not None:
                    grad._store(results[i]._read())
                elif not is_finished and shares[i]:
                    own.grad = results[i]

    def _means(self, tensors: list[Tensor]) -> list[Tensor]:
        arrays = [each._read() for each in tensors]
        found = exchanged(means, arrays, self.group, self.divisor, piece=self.piece)
        return [*map(Tensor._wrap, found)]

    def _by_hook(self, parameters: list[Tensor], grads: list[Tensor]) -> list[Tensor]:
        assert self.hook is not None
        function, state = self.hook
        results: list[Any] = [None] * len(grads)
        places = pieces([each._read() for each in grads], self.piece)
        for number, piece in enumerate(places):
            bucket = GradBucket(
                number,
                [parameters[i] for i in piece],
                [grads[i] for i in piece],
                is_last=number == len(places) - 1,
            )
            found = function(state, bucket).wait()
            flat = found[0] if isinstance(found, list) else found
            parts = flat.split([grads[i].numel() for i in piece])
            for i, part in zip(piece, parts, strict=True):
                results[i] = part.reshape(grads[i].shape).to(grads[i].dtype)
        return results

    def broadcast_buffers(self, module: Module, place: int = 0) -> None:
        """Give all processes the buffers of one."""
        named = module.named_buffers()
        self.broadcast([each for name, each in named if name not in self.ignored], place)

    def broadcast(self, tensors: list[Tensor], place: int) -> None:
        """Give all processes the tensors of one."""
        results = exchanged(from_process, [each._read() for each in tensors], self.group, place)
        with no_grad():
            for each, array in zip(tensors, results, strict=True):
                each._store(array)

    def greatest(self, number: int) -> int:
        """The greatest of the numbers of the processes."""
        found = full((1,), int(number), device=next(iter(self.parameters.values())).device)
        collectives.all_reduce(found, ReduceOp.MAX, self.group)
        return int(found.item())


def _refuse_sparse(names: Iterable[str], grads: list[Any]) -> None:
    for name, grad in zip(names, grads, strict=True):
        if grad is not None and grad.is_sparse:
            raise NotImplementedError(
                f"DistributedDataParallel does not average sparse gradients, and that of {name} is "
                "sparse; make its layer with sparse=False"
            )


def _ready(owner: weakref.ref[Any], parameter: Tensor) -> None:
    """A gradient has been accumulated; all of them are averaged when the backward pass ends.

    Other parameters may get theirs from another backward pass, after which they are averaged again.
    """
    wrapper, run = owner(), engine.running()
    if wrapper is None or not wrapper.expects_backward or run is None:
        return
    while run.outer is not None:
        run = run.outer
    reducer: Reducer = wrapper.reducer
    if not reducer.waiting:
        reducer.waiting.update(reducer.parameters.values())
    reducer.waiting.discard(parameter)
    wrapper.expects_backward = bool(reducer.waiting)
    if reducer.average not in run.callbacks:
        run.callbacks.append(reducer.average)
