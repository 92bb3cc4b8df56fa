"""The old name of a tensor that takes gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.tape import engine
from flambeau.core.values.tensor import Tensor

__all__ = ["Variable"]


class ExecutionEngine:
    """The engine that runs the tape backwards, with the methods that programs call."""

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Call a function when the running backward has run all its nodes.

        For hooks, which may be called before other gradients are known. Callbacks run in the order
        in which they were queued. A backward inside a hook runs its own callbacks at its own end.

        Args:
            callback: Takes no arguments. It is not called if the backward fails.

        Raises:
            RuntimeError: No backward is running on this thread.

        >>> import flambeau
        >>> x = flambeau.ones(2, requires_grad=True)
        >>> engine = flambeau.autograd.Variable._execution_engine
        >>> y = x * 3
        >>> handle = y.register_hook(lambda grad: engine.queue_callback(lambda: print(x.grad)))
        >>> y.sum().backward()
        tensor([3., 3.])
        """
        run = engine.running()
        if run is None:
            raise RuntimeError(
                "queue_callback(): final callbacks can only be installed during backward pass, "
                "and none is running on this thread; call it in a hook"
            )
        run.callbacks.append(callback)


class _VariableMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """``Variable(data)`` is a tensor on the same elements; new code uses the tensor.

    Args:
        data: A tensor.
        requires_grad: Whether `backward` accumulates gradients for it.

    >>> import flambeau
    >>> flambeau.autograd.Variable(flambeau.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """

    _execution_engine = ExecutionEngine()

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: Any = None) -> Any:
        result = data.detach()
        return result.requires_grad_(True) if requires_grad else result
