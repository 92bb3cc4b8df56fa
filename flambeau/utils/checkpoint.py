"""Activation checkpointing: saving memory by recomputing parts of the forward in backward."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau.autograd.saved_tensors import saved_tensors_hooks
from flambeau.compile.recomputation import Region
from flambeau.core.support.modes import autocast_by, enable_grad, modes
from flambeau.core.tape import nodes as tape
from flambeau.core.tape import packing
from flambeau.core.values.inside import capture
from flambeau.core.values.tensor import Tensor
from flambeau.random import fork_rng
from flambeau.random.generator import default_generators
from flambeau.utils.device_states import get_device_states, set_device_states
from flambeau.utils.selective_checkpoint import (
    CheckpointPolicy,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError", "CheckpointPolicy", "checkpoint", "checkpoint_sequential",
    "create_selective_checkpoint_contexts", "get_device_states",
    "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
    "set_device_states",
]  # fmt: skip

Contexts = Callable[[], tuple[contextlib.AbstractContextManager, contextlib.AbstractContextManager]]


class CheckpointError(RuntimeError):
    """A checkpointed function behaved differently in its second run."""


class _Enough(BaseException):
    """Ends a recomputation once backward has all that it needs.

    No Exception: code in the checkpoint may catch these.
    """


#: The argument of `set_checkpoint_early_stop`; ``None`` leaves it to the calls.
_early_stop: contextvars.ContextVar[bool | None] = contextvars.ContextVar(
    "early_stop", default=None
)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Override whether recomputation ends early, for the calls of `checkpoint` in this block.

    Args:
        enable: Replaces their ``early_stop``.
    """
    token = _early_stop.set(bool(enable))
    try:
        yield
    finally:
        _early_stop.reset(token)


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Accepted for compatibility: a `CheckpointError` always says which tensor differs.

    Args:
        enabled: Ignored.
    """
    yield


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts without effect, for the first run and for recomputation."""
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

    Backward recomputes the saved values by a second call of the function. The second call updates
    buffers again, such as those of batch normalization. Tensors among the arguments may be written
    to in between: the second call gets the original values.

    In a compiled function the program recomputes the operations. The function is called once, while
    it is traced, so buffers change once and the same random numbers are used. ``backward()`` may be
    inside or outside. Inside `flambeau.func.vmap` and `jvp`, whose gradients are JAX's, the
    function is called without recomputation. `docs/performance.md` shows the savings.

    Args:
        function: The function to compute, such as a module.
        args: Its arguments.
        use_reentrant: Accepted for compatibility. The behaviour is PyTorch's for ``False``.
        context_fn: Returns two contexts, for the first run and for recomputation. In a compiled
            function the second is not entered.
        determinism_check: ``"default"`` compares the shapes and dtypes that both runs would save;
            ``"none"`` does not.
        debug: Accepted for PyTorch's sake.
        early_stop: Whether the second call ends, by an exception inside the function, as soon as
            backward has all the values that it needs.
        preserve_rng_state: Whether recomputation draws the same random numbers.
        kwargs: Its keyword arguments.

    Raises:
        CheckpointError: In backward: the function saved other tensors in its second run.
        ValueError: ``determinism_check`` is neither of the two.

    >>> import flambeau
    >>> from flambeau.utils.checkpoint import checkpoint
    >>> from flambeau import nn
    >>> layer, x = nn.Linear(2, 2), flambeau.ones(1, 2)
    >>> checkpoint(layer, x, use_reentrant=False).sum().backward()
    >>> layer.weight.grad
    tensor([[1., 1.],
            [1., 1.]])
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"checkpoint(): determinism_check must be 'default' or 'none', got "
            f"{determinism_check!r}"
        )
    first, again = context_fn()
    if not modes.grad_enabled:
        with first:
            return function(*args, **kwargs)
    if modes.trace is not None:
        with first, Region() if capture() is None else contextlib.nullcontext():
            return function(*args, **kwargs)
    chosen = _early_stop.get()
    stops = early_stop if chosen is None else chosen
    given = [_Given(each) for each in args]
    named = {name: _Given(each) for name, each in kwargs.items()}

    def run() -> None:
        function(
            *[each.again() for each in given],
            **{name: each.again() for name, each in named.items()},
        )

    region = _Region(run, again, preserve_rng_state, determinism_check != "none", stops)
    with first, saved_tensors_hooks(region.pack, region.unpack):
        return function(*args, **kwargs)


class _Given:
    """An argument of the function, as it was at the first call.

    A tensor is packed by the active `saved_tensors_hooks`: inside another checkpoint, it is
    recomputed.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        self.packed: packing.Packed | None = None
        if isinstance(value, Tensor):
            self.edge = tape.edge_of(value)
            hooks = packing.hooks()
            if hooks is None:
                self.array = value._read()
            else:
                self.value, self.packed = None, packing.Packed(hooks, value)

    def again(self) -> Any:
        """The argument for the second call."""
        if self.packed is not None:
            return tape.saved_tensor(self.packed.array(), self.edge)
        value = self.value
        if not isinstance(value, Tensor):
            return value
        # Arrays never change, so a tensor with another array was written to.
        is_same = value._read() is self.array and tape.edge_of(value) == self.edge
        return value if is_same else tape.saved_tensor(self.array, self.edge)


class _Region:
    """A part that is recomputed as a whole; packs the tensors that its operators save.

    Args:
        run: Computes it.
        context: The context of the recomputation.
        preserves_rng: Whether the same random numbers are drawn.
        checks: Whether shapes and dtypes are compared.
        stops: Whether recomputation ends once as many tensors are saved as in the first run.
    """

    def __init__(
        self, run: Callable[[], Any], context: Any, preserves_rng: bool, checks: bool, stops: bool
    ) -> None:
        self.run, self.context, self.checks, self.stops = run, context, checks, stops
        self.autocast = modes.autocast
        self.generators = [(e, e.save()) for e in default_generators()] if preserves_rng else []
        self.forms: list[tuple[Any, ...]] = []
        self.found: dict[int, Tensor] = {}

    def pack(self, tensor: Tensor) -> int:
        """An index in place of a tensor."""
        self.forms.append((tuple(tensor.shape), tensor.dtype))
        return len(self.forms) - 1

    def unpack(self, number: int) -> Tensor:
        """The tensor with this index; only once, so that it is freed early."""
        if number not in self.found:
            self._run_again()
        return self.found.pop(number)

    def _run_again(self) -> None:
        saved: list[Tensor] = []

        def keep(tensor: Tensor) -> Tensor:
            saved.append(tensor.detach())
            if self.stops and len(saved) == len(self.forms):
                raise _Enough
            return tensor

        with fork_rng(enabled=bool(self.generators)), autocast_by(self.autocast):
            for generator, state in self.generators:
                generator.restore(state)
            with (
                contextlib.suppress(_Enough),
                enable_grad(),
                self.context,
                saved_tensors_hooks(keep, lambda kept: kept),
            ):
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
    """The functions in sequence, in segments that are each a `checkpoint`, except the last.

    Args:
        functions: A `flambeau.nn.Sequential`, or an iterable of functions of one argument.
        segments: The number of segments, at most the number of functions.
        input: The input of the first function.
        use_reentrant: See `checkpoint`.
        preserve_rng_state: See `checkpoint`.

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
