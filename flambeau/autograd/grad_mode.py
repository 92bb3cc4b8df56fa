"""Switching the recording of gradients on and off."""

from flambeau.core.support.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_multithreading_enabled,  # noqa: F401 (not beside no_grad)
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,  # noqa: F401 (the same)
)

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]
