"""The reasons why a state dict cannot be loaded, as one message that names every offender."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from flambeau.nn.parameter import is_lazy

# Comparing names costs about a millisecond per hundred candidates.
_MOST_HINTS = 20


def load_error(
    module: Any,
    state_dict: Iterable[str],
    missing: Sequence[str],
    unexpected: Sequence[str],
    problems: Sequence[str],
) -> str:
    """The message of a failed load.

    Args:
        module: The model.
        state_dict: All keys that were given.
        missing: Keys that the model has and the state dict has not.
        unexpected: Keys that the state dict has and the model has not.
        problems: The problems with the values of keys that both have.
    """
    given, known = list(state_dict), [name for name, _ in _saved_members(module)]
    lines = [f"Error(s) in loading state_dict for {type(module).__name__}; nothing was changed:"]
    if missing:
        lines.append(f"Missing key(s) in state_dict ({len(missing)}):")
        lines += _with_hints(missing, [unexpected, given], "the state dict has")
    if unexpected:
        lines.append(f"Unexpected key(s) in state_dict ({len(unexpected)}):")
        lines += _with_hints(unexpected, [missing, known], "the model has")
    lines += problems
    return "\n\t".join(lines)


def _saved_members(module: Any) -> Iterable[tuple[str, Any]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _with_hints(keys: Sequence[str], pools: Sequence[Sequence[str]], owner: str) -> list[str]:
    lines = []
    for number, key in enumerate(keys):
        near = _nearest(key, pools) if number < _MOST_HINTS else None
        lines.append(f'  "{key}"' + (f' ({owner} "{near}")' if near else ""))
    return lines


def _nearest(key: str, pools: Sequence[Sequence[str]]) -> str | None:
    """The name most like ``key`` in the first pool that has one like it."""
    for pool in pools:
        close = difflib.get_close_matches(key, pool, n=1)
        if close:
            return close[0]
    return None


def size_mismatch(key: str, given: Any, expected: Any) -> str:
    """The problem of a value with another shape."""
    return (
        f"size mismatch for {key}: the state dict has {tuple(given.shape)}, "
        f"the model has {tuple(expected.shape)}"
    )


def not_a_tensor(key: str, given: Any) -> str:
    """The problem of a value that is no tensor."""
    return f"{key}: the state dict has a {type(given).__name__}, the model needs a Tensor"


def uninitialized(key: str, given: Any) -> str:
    """The problem of a value or a member that has no shape yet."""
    if is_lazy(given):
        return (
            f"{key}: the state dict has an uninitialized tensor, which has no shape yet, the model "
            "an initialized one; call the module that the state was taken from once before"
        )
    return (
        f"{key}: the model has an uninitialized tensor, which has no shape yet; a subclass of "
        "LazyModuleMixin takes the shape of the state dict, other modules materialize() it first"
    )


def kind_mismatch(key: str, given: Any, expected: Any) -> str:
    """The problem of complex values for a real tensor."""
    return (
        f"dtype mismatch for {key}: the state dict has {given.dtype}, the model has "
        f"{expected.dtype}, which would lose the imaginary parts; assign=True takes the dtype of "
        "the state dict"
    )


def failed_write(key: str, given: Any, expected: Any, error: Exception) -> str:
    """The problem of a value that could not be written."""
    return (
        f"{key}: loading a tensor of shape {tuple(given.shape)} and {given.dtype} into one of "
        f"shape {tuple(expected.shape)} and {expected.dtype} raised {error!r}"
    )
