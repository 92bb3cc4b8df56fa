"""Forward-mode differentiation inside a block: tensors as dual numbers.

>>> import flambeau
>>> from flambeau.autograd import forward_ad
>>> x, direction = flambeau.tensor([1.0, 2.0]), flambeau.tensor([1.0, 0.0])
>>> with forward_ad.dual_level():
...     dual = forward_ad.make_dual(x, direction)
...     value, tangent = forward_ad.unpack_dual(dual**2)
>>> tangent
tensor([2., 0.])
"""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.core.operators.viewing import make_view
from flambeau.core.support.modes import ContextDecorator, modes
from flambeau.core.values.dual import Level, suspended, tangent_of
from flambeau.core.values.steps import Reshape
from flambeau.core.values.tensor import Tensor

__all__ = [
    "UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual",
    "unpack_dual",
]  # fmt: skip


class UnpackedDualTensor(NamedTuple):
    """The two parts of a dual tensor.

    Attributes:
        primal: The values, without a tangent.
        tangent: The tangent; ``None`` if there is none.
    """

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Start forward-mode differentiation on this thread; `dual_level` does it for a block.

    Returns:
        The level, always 0: levels do not nest.

    Raises:
        RuntimeError: A level is open.
    """
    if modes.level is not None:
        raise RuntimeError(
            "nested forward mode AD is not supported: a dual level is open already; use func.jvp "
            "for derivatives of derivatives"
        )
    Level().enter()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level that `enter_dual_level` began, and drop its tangents.

    Raises:
        RuntimeError: No level is open, or ``level`` is another.
    """
    if modes.level is None:
        raise RuntimeError("exit_dual_level(): no dual level is open; enter_dual_level() opens one")
    if level not in (None, 0):
        raise RuntimeError(
            f"trying to exit forward AD level {level}, which was not the last one that was "
            "created; the open one is 0"
        )
    modes.level.leave()


class dual_level(ContextDecorator):
    """A block in which operators on this thread propagate tangents.

    Make dual tensors with `make_dual`, compute with them, and unpack the results with
    `unpack_dual`, all inside the block, which drops the tangents at its end. Gradients computed
    inside by `autograd.grad` have tangents too, and tangents have gradients where something
    requires grad. `no_grad` does not stop tangents, `inference_mode` does.

    Levels do not nest; use `flambeau.func.jvp` for that. A compiled function that is called inside
    runs eagerly, with a warning; a compiled function may contain the block.

    Raises:
        RuntimeError: A level is open already.
        NotImplementedError: Inside: an operator, or a custom Function, cannot be differentiated
            forward; or ``out=`` is used with dual tensors.

    >>> import flambeau
    >>> from flambeau.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(flambeau.tensor(2.0), flambeau.tensor(1.0))
    ...     forward_ad.unpack_dual(x.exp().log()).tangent
    tensor(1.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Any:
    """A view of a tensor that has a tangent.

    Args:
        tensor: The values, floating point or complex.
        tangent: The direction, of the same shape; converted to the dtype of ``tensor``. Both share
            memory: an in-place write to one writes to the other.
        level: The level that is open, which is 0.

    Raises:
        RuntimeError: No level is open, or ``level`` is not the open one; the shapes differ; one of
            the two is a dual tensor itself; or the tangent is complex and the tensor is not.
        ValueError: One of the two is of an integer or boolean dtype.
    """
    if modes.level is None or (level is not None and level < 0):
        raise RuntimeError(
            "make_dual(): trying to create a dual Tensor for forward AD but no level exists; make "
            "sure to enter_dual_level() first"
        )
    _check_level("make_dual", level)
    for name, each in (("primal", tensor), ("tangent", tangent)):
        if not (each.is_floating_point() or each.is_complex()):
            raise ValueError(
                f"make_dual(): expected {name} to be floating point or complex, got {each.dtype}"
            )
    if tangent.shape != tensor.shape:
        raise RuntimeError(
            "make_dual(): trying to set a forward gradient that has a different size than that of "
            f"the tensor, {list(tangent.shape)} instead of {list(tensor.shape)}"
        )
    if tangent.is_complex() and not tensor.is_complex():
        raise RuntimeError(
            f"make_dual(): a tangent of {tangent.dtype} for a tensor of {tensor.dtype}; take its "
            "real part"
        )
    for name, each in (("a tensor", tensor), ("a tangent", tangent)):
        if tangent_of(each) is not None:
            raise RuntimeError(
                f"make_dual(): {name} that already has a forward gradient at the same level 0 is "
                "not supported; unpack_dual() it"
            )
    with suspended():
        result = _view_of(tensor)
        if tangent.dtype is not tensor.dtype:
            tangent = tangent.to(tensor.dtype)
    if modes.dual is not None:
        modes.dual.attach(result, tangent)
    return result


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """A dual tensor's values, as a view without a tangent, and its tangent unchanged.

    Args:
        tensor: Any tensor; without a tangent, the second result is ``None``.
        level: The level that is open, which is 0.

    Raises:
        RuntimeError: ``level`` is not the open one.
    """
    if modes.level is None or (level is not None and level < 0):
        return UnpackedDualTensor(tensor, None)
    _check_level("unpack_dual", level)
    with suspended():
        primal = _view_of(tensor)
    modes.level.attach(primal, None)
    tangent = None if modes.dual is None or modes.inference else tangent_of(tensor)
    return UnpackedDualTensor(primal, tangent)


def _check_level(name: str, level: int | None) -> None:
    if level not in (None, 0):
        raise RuntimeError(f"{name}(): invalid level {level}; the open one is 0")


def _view_of(tensor: Tensor) -> Any:
    return make_view(tensor, Reshape(tuple(tensor.shape)), "view")


class _set_fwd_grad_enabled(ContextDecorator):
    """Switch the propagation of tangents on or off, at once or for a ``with`` block.

    Args:
        mode: Whether operators propagate tangents; without an open level they never do.
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._before = modes.dual
        modes.dual = modes.level if self.mode else None

    def clone(self) -> _set_fwd_grad_enabled:
        """A new manager for the same mode."""
        return self.__class__(self.mode)

    def __enter__(self) -> None:
        modes.dual = modes.level if self.mode else None

    def __exit__(self, *exception: object) -> None:
        modes.dual = self._before


def _is_fwd_grad_enabled() -> bool:
    """Whether operators propagate tangents."""
    return modes.level is None or modes.dual is not None
