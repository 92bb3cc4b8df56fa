"""Checks of the numbers passed to optimizers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.nn.parameter import is_lazy

_MEANING = {
    "lr": "learning rate", "eps": "epsilon", "momentum": "momentum", "weight_decay": "weight decay",
    "lr_decay": "learning rate decay", "initial_accumulator_value": "initial accumulator value",
}  # fmt: skip


def real(name: str, value: Any) -> float:
    """``value`` as a Python number.

    Raises:
        TypeError: It is not a number.
    """
    if isinstance(value, str | bytes):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}: {value!r}")
    try:
        return float(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(f"{name} must be a number, got {kind}: {value!r:.80}") from None


def check_pair(name: str, values: Any) -> None:
    """Fail unless ``values`` is a pair."""
    if len(values) != 2:
        raise ValueError(f"{name} must be two numbers, got {len(values)}")


def one_element(**numbers: Any) -> None:
    """Fail if a number is a tensor of several elements."""
    for name, value in numbers.items():
        if isinstance(value, Tensor) and value.numel() != 1:
            raise ValueError(
                f"a Tensor {name} must have one element, got shape {list(value.shape)}"
            )


def at_least_zero(**numbers: Any) -> None:
    """Fail if a number is negative or NaN."""
    for name, value in numbers.items():
        # A comparison with NaN is false, so NaN is refused too.
        if not real(name, value) >= 0.0:
            meaning = _MEANING.get(name, name)
            raise ValueError(f"invalid {meaning}: {name} must not be negative, got {float(value)}")


def below_one(name: str, value: Any) -> None:
    """Fail unless 0 ≤ ``value`` < 1."""
    if not 0.0 <= real(name, value) < 1.0:
        raise ValueError(f"invalid {name}: it must be at least 0 and below 1, got {float(value)}")


def check_betas(betas: Any) -> None:
    """Fail unless ``betas`` are two numbers in [0, 1)."""
    check_pair("betas", betas)
    for i, beta in enumerate(betas):
        below_one(f"beta parameter at index {i}", beta)


def check_adam_betas(betas: Any, foreach: bool | None, capturable: bool) -> None:
    """Fail unless ``betas`` are two floats in [0, 1), or two tensors of one element each."""
    check_betas(betas)
    kinds = [isinstance(beta, Tensor) for beta in betas]
    floats = all(isinstance(beta, float) for beta in betas)
    if not (all(kinds) or floats):
        raise ValueError("betas must be either two floats or two Tensors")
    for i, beta in enumerate(betas):
        check_tensor_lr(beta, foreach, capturable, f"betas[{i}]")


def check_tensor_lr(lr: Any, foreach: bool | None, capturable: bool, name: str = "lr") -> None:
    """Fail if PyTorch refuses a learning rate that is a tensor."""
    one_element(**{name: lr})
    if isinstance(lr, Tensor) and foreach and not capturable:
        raise ValueError(f"{name} as a Tensor is not supported with foreach=True, capturable=False")


def check_initialized(name: str, params: Iterable[Any]) -> None:
    """Fail if a parameter has no shape yet and the optimizer needs it from the start."""
    if any(map(is_lazy, params)):
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {name}, which needs its shape: call "
            "the lazy module once, with a batch, before the optimizer is made"
        )


def check_implementation(foreach: bool | None, fused: bool | None, differentiable: bool) -> None:
    """Fail if PyTorch refuses a combination of implementations."""
    if fused and differentiable:
        raise RuntimeError("fused=True does not support differentiable=True")
    if fused and foreach:
        raise RuntimeError("fused and foreach cannot both be True")
