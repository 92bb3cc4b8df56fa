"""The reasons why a state dict cannot be loaded, as one message that lists all problems."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from flambeau.core.values.tensor import Tensor
from flambeau.nn.parameter import is_lazy
from flambeau.nn.traversal import Traversal

# Comparing names costs about a millisecond per hundred candidates.
_MOST_HINTS = 20
# For the keys of a whole checkpoint.
_MOST_KEYS = 6
_USUAL_NAMES = ("model", "state_dict", "model_state_dict", "module", "net")


def load_error(
    module: Traversal,
    state_dict: Mapping[str, object],
    missing: Sequence[str],
    unexpected: Sequence[str],
    problems: Sequence[str],
) -> str:
    """The message of a failed load.

    Args:
        module: The model.
        state_dict: The given state.
        missing: Keys of the model that the state dict lacks.
        unexpected: Keys of the state dict that the model lacks.
        problems: The problems with the values of keys that both have.
    """
    given, known = list(state_dict), [name for name, _ in _saved_members(module)]
    lines = [f"Error(s) in loading state_dict for {type(module).__name__}; nothing was changed:"]
    reason = _whole_checkpoint(state_dict, known) if unexpected else None
    explained = (
        _renamed(missing, unexpected) if reason is None else (reason, missing, unexpected, "")
    )
    if explained is not None:
        reason, found, strange, prefix = explained
        # Counters of batches may be missing, and are then not among the missing keys.
        own = {*known}
        strange = {*strange, *(e for e in unexpected if prefix and e.removeprefix(prefix) in own)}
        lines.append(
            f"Missing key(s) in state_dict ({len(found)}) and Unexpected key(s) in state_dict "
            f"({len(strange)}): {reason}"
        )
        missing = [name for name in missing if name not in found]
        unexpected = [name for name in unexpected if name not in strange]
    if missing:
        lines.append(f"Missing key(s) in state_dict ({len(missing)}):")
        lines += _with_hints(missing, [unexpected, given], "the state dict has")
    if unexpected:
        lines.append(f"Unexpected key(s) in state_dict ({len(unexpected)}):")
        lines += _with_hints(unexpected, [missing, known], "the model has")
    lines += problems
    return "\n\t".join(lines)


def _whole_checkpoint(state_dict: Mapping[str, object], known: Sequence[str]) -> str | None:
    """The reason, if an entry is the intended state dict."""
    nested = {key: each for key, each in state_dict.items() if isinstance(each, Mapping)}
    if not nested:
        return None
    fits = {key: len({*each}.intersection(known)) for key, each in nested.items()}
    best = max(nested, key=lambda key: (fits[key], key in _USUAL_NAMES))
    if not fits[best] and best not in _USUAL_NAMES:
        return None
    keys = ", ".join(f"{key!r}" for key in [*state_dict][:_MOST_KEYS])
    return f"this is a whole checkpoint, with the keys {keys}; load its entry {best!r}"


def _renamed(
    missing: Sequence[str], unexpected: Sequence[str]
) -> tuple[str, set[str], set[str], str] | None:
    """The reason why most names differ, if there is one.

    Returns:
        The reason, the missing and the unexpected keys that it explains, and the prefix of the
        latter.
    """
    plain = {name.replace("_orig_mod.", ""): name for name in unexpected}
    found = plain.keys() & {*missing}
    if 2 * len(found) > len(missing) > 0:
        reason = (
            "the names of the state dict have '_orig_mod.', as PyTorch's compile() gives them; "
            "load it into the compiled module, or load "
            "{name.replace('_orig_mod.', ''): each for name, each in state_dict.items()}"
        )
        return reason, found, {plain[name] for name in found}, ""
    for longer, shorter, owner, other, change in (
        (unexpected, missing, "the state dict", "the model", "name.removeprefix({!r})"),
        (missing, unexpected, "the model", "the state dict", "{!r} + name"),
    ):
        prefix = _common_prefix(longer, shorter)
        if prefix:
            reason = (
                f"the names of {owner} begin with {prefix!r}, and those of {other} do not; load "
                f"{{{change.format(prefix)}: each for name, each in state_dict.items()}}"
            )
            names = {name for name in shorter if prefix + name in longer}
            with_prefix = {prefix + name for name in names}
            if longer is unexpected:
                return reason, names, with_prefix, prefix
            return reason, with_prefix, names, ""
    return None


def _common_prefix(longer: Sequence[str], shorter: Sequence[str]) -> str | None:
    """The prefix that most names of ``shorter`` have in ``longer``."""
    name = min(shorter, key=len, default="")
    names = {*longer}
    for each in longer if name else ():
        prefix = each.removesuffix(name)
        if prefix == each or not prefix.endswith("."):
            continue
        if 2 * sum(prefix + other in names for other in shorter) > len(shorter):
            return prefix
    return None


def _saved_members(module: Traversal) -> Iterable[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _with_hints(keys: Sequence[str], pools: Sequence[Sequence[str]], owner: str) -> list[str]:
    lines = []
    for number, key in enumerate(keys):
        near = _nearest(key, pools) if number < _MOST_HINTS else None
        lines.append(f'  "{key}"' + (f' ({owner} "{near}")' if near else ""))
    return lines


def _nearest(key: str, pools: Sequence[Sequence[str]]) -> str | None:
    """The most similar name to ``key`` in the first pool that has a similar one."""
    for pool in pools:
        close = difflib.get_close_matches(key, pool, n=1)
        if close:
            return close[0]
    return None


def size_mismatch(key: str, given: Tensor, expected: Tensor) -> str:
    """The problem of a value with another shape."""
    return (
        f"size mismatch for {key}: the state dict has {tuple(given.shape)}, "
        f"the model has {tuple(expected.shape)}"
    )


def not_a_tensor(key: str, given: object) -> str:
    """The problem of a value that is not a tensor."""
    return f"{key}: the state dict has a {type(given).__name__}, the model needs a Tensor"


def uninitialized(key: str, given: object) -> str:
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


def kind_mismatch(key: str, given: Tensor, expected: Tensor) -> str:
    """The problem of complex values for a real tensor."""
    return (
        f"dtype mismatch for {key}: the state dict has {given.dtype}, the model has "
        f"{expected.dtype}, which would lose the imaginary parts; assign=True takes the dtype of "
        "the state dict"
    )


def layout_mismatch(key: str, given: Tensor, expected: Tensor) -> str:
    """The problem of a sparse value for a dense tensor, or vice versa."""
    return (
        f"layout mismatch for {key}: the state dict has {given.layout}, the model has "
        f"{expected.layout}; to_dense() and to_sparse() convert, assign=True takes the layout of "
        "the state dict"
    )


def failed_write(key: str, given: Tensor, expected: Tensor, error: Exception) -> str:
    """The problem of a value that could not be written."""
    return (
        f"{key}: loading a tensor of shape {tuple(given.shape)} and {given.dtype} into one of "
        f"shape {tuple(expected.shape)} and {expected.dtype} raised {error!r}"
    )
