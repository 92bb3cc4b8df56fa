"""Activation checkpointing: memory saved by computing parts of the forward again in backward."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.autograd.saved_tensors import saved_tensors_hooks
from flambeau.compile.recomputation import Region
from flambeau.core.generator import default_generators
from flambeau.core.modes import autocast_by, enable_grad, modes
from flambeau.core.tensor import Tensor
from flambeau.random import fork_rng

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "noop_context_fn"]

Contexts = Callable[[], tuple[contextlib.AbstractContextManager, contextlib.AbstractContextManager]]


class CheckpointError(RuntimeError):
    """A checkpointed function did something else when it ran again."""


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing: for the function's first run, and for running it again."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Contexts = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, keeping only the arguments for backward.

    What its operators would save is computed again, by another call of the function, when
    backward needs it. Such a second call changes buffers a second time, as those of batch
    normalization.

    In a compiled function the program computes it again, operation by operation. The function is
    called once, while it is traced, so buffers change once and the same random numbers are used.
    ``backward()`` may stand inside or outside. Inside `flambeau.func.vmap` and `jvp` there, whose
    gradients are JAX's, the function is only called. `docs/performance.md` says what it saves.

    Args:
        function: What to compute; a module, say.
        args: Its arguments. They must not be written to before backward has run.
        use_reentrant: Accepted for PyTorch's sake. What is done is what PyTorch does for ``False``.
        context_fn: Gives two contexts, for the first run and for running again. In a compiled
            function the second is not entered.
        determinism_check: ``"default"`` compares the shapes and dtypes that both runs would save;
            ``"none"`` does not.
        debug: Accepted for PyTorch's sake, as is ``early_stop``.
        preserve_rng_state: Whether running again draws the same random numbers.
        kwargs: Its keyword arguments.

    Raises:
        CheckpointError: In backward: the function saved other tensors when it ran again.

    >>> import flambeau
    >>> from flambeau import nn
    >>> layer, x = nn.Linear(2, 2), flambeau.ones(1, 2)
    >>> checkpoint(layer, x, use_reentrant=False).sum().backward()
    >>> layer.weight.grad
    tensor([[1., 1.],
            [1., 1.]])
    """
    first, again = context_fn()
    if not modes.grad_enabled:
        with first:
            return function(*args, **kwargs)
    if modes.trace is not None:
        with first, Region() if modes.capture is None else contextlib.nullcontext():
            return function(*args, **kwargs)
    region = _Region(
        lambda: function(*args, **kwargs), again, preserve_rng_state, determinism_check != "none"
    )
    with first, saved_tensors_hooks(region.pack, region.unpack):
        return function(*args, **kwargs)


class _Region:
    """What is computed again as one: stands for the tensors that its operators save.

    Args:
        run: Computes it.
        context: Stands around running again.
        preserves_rng: Whether the same random numbers are drawn.
        checks: Whether shapes and dtypes are compared.
    """

    def __init__(
        self, run: Callable[[], Any], context: Any, preserves_rng: bool, checks: bool
    ) -> None:
        self.run, self.context, self.checks = run, context, checks
        self.autocast = modes.autocast
        self.generators = [(e, e.save()) for e in default_generators()] if preserves_rng else []
        self.forms: list[tuple[Any, ...]] = []
        self.found: dict[int, Tensor] = {}

    def pack(self, tensor: Tensor) -> int:
        """A number in place of a tensor."""
        self.forms.append((tuple(tensor.shape), tensor.dtype))
        return len(self.forms) - 1

    def unpack(self, number: int) -> Tensor:
        """The tensor with that number; once, so that it is kept no longer than needed."""
        if number not in self.found:
            self._run_again()
        return self.found.pop(number)

    def _run_again(self) -> None:
        saved: list[Tensor] = []

        def keep(tensor: Tensor) -> Tensor:
            saved.append(tensor.detach())
            return tensor

        with fork_rng(enabled=bool(self.generators)), autocast_by(self.autocast):
            for generator, state in self.generators:
                generator.restore(state)
            with enable_grad(), self.context, saved_tensors_hooks(keep, lambda kept: kept):
                self.run()
        self._check(saved)
        self.found = dict(enumerate(saved))

    def _check(self, saved: list[Tensor]) -> None:
        advice = "; it must do the same each time it is called with the same arguments"
        if len(saved) != len(self.forms):
            raise CheckpointError(
                f"the checkpointed function saved {len(self.forms)} tensors when it first ran, "
                f"and {len(saved)} when it ran again{advice}"
            )
        for number, (form, tensor) in enumerate(zip(self.forms, saved, strict=True)):
            now = tuple(tensor.shape), tensor.dtype
            if self.checks and now != form:
                raise CheckpointError(
                    f"tensor {number} that the checkpointed function saved had shape "
                    f"{list(form[0])} and dtype {form[1]} when it first ran, and {list(now[0])} "
                    f"and {now[1]} when it ran again{advice}"
                )


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """The functions one after the other, in segments that are each a `checkpoint` but the last.

    Args:
        functions: A `flambeau.nn.Sequential`, or an iterable of functions of one argument.
        segments: How many segments, at most as many as functions.
        input: What the first function is given.
        use_reentrant: See `checkpoint`.
        preserve_rng_state: Likewise.

    Raises:
        ValueError: There are fewer functions than segments, or no segments.
    """
    children = getattr(functions, "children", None)
    parts = [*(functions if children is None else children())]
    if not 0 < segments <= len(parts):
        raise ValueError(
            f"checkpoint_sequential() cannot divide {len(parts)} functions into {segments} segments"
        )
    size = len(parts) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(
            _chained, parts[start : start + size], input,
            use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state,
        )  # fmt: skip
    return _chained(parts[size * (segments - 1) :], input)


def _chained(functions: Iterable[Callable[[Any], Any]], value: Any) -> Any:
    for function in functions:
        value = function(value)
    return value
