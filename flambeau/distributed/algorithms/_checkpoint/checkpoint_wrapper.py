"""Modules whose activations are recomputed in backward, by a wrapper around each."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.nn.module import Module
from flambeau.utils.checkpoint import checkpoint

__all__ = [
    "CheckpointImpl", "CheckpointWrapper", "apply_activation_checkpointing", "checkpoint_wrapper",
]  # fmt: skip

#: The name of the wrapped module in the names of parameters.
PREFIX = "_checkpoint_wrapped_module"


class CheckpointImpl(enum.Enum):
    """PyTorch's two implementations of recomputation, which are the same here."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class CheckpointWrapper(Module):
    """Calls a module by `flambeau.utils.checkpoint.checkpoint`.

    Its parameters have their names in the wrapped module, in state dicts as well.

    Args:
        mod: The module.
        checkpoint_impl: Ignored.
        checkpoint_fn: Called instead of `checkpoint`, with the module and its arguments.
        **checkpoint_fn_kwargs: More arguments for ``checkpoint_fn``.
    """

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._run = functools.partial(
            checkpoint_fn or functools.partial(checkpoint, use_reentrant=False),
            **checkpoint_fn_kwargs,
        )

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(PREFIX), name)

    def __getitem__(self, key: Any) -> Any:
        module: Any = self._checkpoint_wrapped_module
        return module[key]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the module; its activations are recomputed in backward."""
        return self._run(self._checkpoint_wrapped_module, *args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """The parameters with their names in the wrapped module."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(f"{PREFIX}.", ""), parameter

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state dict of the wrapped module."""
        return self._checkpoint_wrapped_module.state_dict(*args, **kwargs)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        for key in [each for each in state_dict if each.startswith(prefix)]:
            rest = key.removeprefix(prefix)
            if not rest.startswith(f"{PREFIX}."):
                state_dict[f"{prefix}{PREFIX}.{rest}"] = state_dict.pop(key)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> CheckpointWrapper:
    """``module``, with its activations recomputed in backward; see `CheckpointWrapper`."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda module: True,
    auto_wrap_policy: Callable[[Module, bool, int], bool] | None = None,
) -> None:
    """Wrap each module inside ``model`` that a function selects.

    Args:
        model: The model, which is changed.
        checkpoint_wrapper_fn: Creates the wrapper.
        check_fn: Returns whether to wrap a module.
        auto_wrap_policy: Decides instead of ``check_fn``; see `flambeau.distributed.fsdp.wrap`.
    """

    def is_named(module: Module) -> bool:
        if auto_wrap_policy is None:
            return check_fn(module)
        count = sum(each.numel() for each in module.parameters())
        return auto_wrap_policy(module, False, count)

    for name, child in [*model.named_children()]:
        apply_activation_checkpointing(child, checkpoint_wrapper_fn, is_named)
        if is_named(child):
            setattr(model, name, checkpoint_wrapper_fn(child))
