"""Saved tensors in another form: `saved_tensors_hooks` and similar blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.core.devices.device import CPU
from flambeau.core.devices.donation import put
from flambeau.core.support.modes import modes
from flambeau.core.tape.packing import Hooks
from flambeau.core.values.tensor import Tensor

__all__ = [
    "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "save_on_cpu",
    "saved_tensors_hooks",
]  # fmt: skip


class saved_tensors_hooks:
    """Operators inside this block pass each tensor that they save through two functions.

    Each recorded operator calls ``pack_hook`` for each tensor that it saves, and each of its
    backwards calls ``unpack_hook`` for each of them. Both run without recording. Only the innermost
    of nested blocks applies. The saved tensors are the operator's inputs, also if PyTorch saves the
    result or nothing.

    Compiled functions, and the transformations of `flambeau.func` that JAX computes, do not call
    the hooks.

    Args:
        pack_hook: Takes a tensor, which it must not write to; returns any object.
        unpack_hook: A function of the result of ``pack_hook`` that returns the tensor.

    Raises:
        TypeError: A hook is not callable; or, in backward, the result of ``unpack_hook`` is not a
            tensor.
        RuntimeError: The block is inside a compiled function, or in `disable_saved_tensors_hooks`.

    >>> import flambeau
    >>> from flambeau.autograd.graph import saved_tensors_hooks
    >>> x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    >>> with saved_tensors_hooks(lambda tensor: tensor.numpy(force=True), flambeau.from_numpy):
    ...     y = x * x
    >>> y.sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        for each in (pack_hook, unpack_hook):
            if not callable(each):
                raise TypeError(
                    f"saved_tensors_hooks() takes two functions, got {type(each).__name__}"
                )
        self.hooks: Hooks = Hooks(pack_hook, unpack_hook)
        self._before: list[Any] = []

    def __enter__(self) -> None:
        if modes.packing_refused is not None:
            raise RuntimeError(modes.packing_refused)
        if modes.trace is not None:
            raise RuntimeError(
                "saved_tensors_hooks() inside a compiled function has no effect, since the program "
                "decides what it keeps; leave it out there"
            )
        self._before.append(modes.packing)
        modes.packing = self.hooks

    def __exit__(self, *exception: object) -> None:
        modes.packing = self._before.pop()


class save_on_cpu(saved_tensors_hooks):
    """Operators inside this block keep the tensors that they save for backward in CPU memory.

    Backward moves a saved tensor back to its device.

    Args:
        pin_memory: Accepted for compatibility.
        device_type: Likewise.

    >>> import flambeau
    >>> x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    >>> with flambeau.autograd.graph.save_on_cpu():
    ...     y = x.exp()
    >>> y.sum().backward()
    >>> bool((x.grad == y).all())
    True
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(_to_cpu, _from_cpu)


def _to_cpu(tensor: Tensor) -> tuple[Any, Any]:
    array = tensor._read()
    return array.sharding, put(array, CPU.jax_device)


def _from_cpu(packed: tuple[Any, Any]) -> Tensor:
    sharding, array = packed
    return Tensor._wrap(put(array, sharding))


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Refuse `saved_tensors_hooks` inside this block.

    Args:
        error_message: The text of the error.

    Raises:
        RuntimeError: Such hooks are already active.
    """
    if modes.packing is not None:
        raise RuntimeError(error_message)
    before, modes.packing_refused = modes.packing_refused, error_message
    try:
        yield
    finally:
        modes.packing_refused = before


class SavedCopies:
    """PyTorch's copies for `allow_mutation_on_saved_tensors`; here there are none."""

    def clear(self) -> None:
        """Do nothing: no copies are kept."""


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[SavedCopies]:
    """Allow in-place writes to tensors that the tape has saved; they are always allowed.

    Saved arrays never change, so the block needs no copies. It exists for programs written for
    PyTorch.

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> with flambeau.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = y.sin()
    ...     _ = y.mul_(10)
    >>> z.sum().backward()
    >>> bool((x.grad == flambeau.ones(2).cos()).all())
    True
    """
    yield SavedCopies()
