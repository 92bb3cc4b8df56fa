"""Saving the state of a tree of modules as a flat dictionary, and loading it atomically."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import nullcontext
from itertools import chain
from typing import Any, NamedTuple

from flambeau.core.support.handle import RemovableHandle
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.nn import load_report
from flambeau.nn.common_types import Args, Kwargs, StateDict
from flambeau.nn.hooks import BoundHook, add_hook
from flambeau.nn.loading import OwnNames, load_members, tied
from flambeau.nn.snapshot import all_or_nothing
from flambeau.nn.traversal import Traversal

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    """The keys that the model and the state dict do not share."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )

    __str__ = __repr__


class Persistence(Traversal):
    """The part of `Module` that saves and loads its state."""

    #: Saved with the state. A class whose state format changes increments it, and reads the saved
    #: number from ``local_metadata`` in its `_load_from_state_dict`.
    _version: int = 1

    #: Kept for compatibility; without effect.
    dump_patches: bool = False

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> StateDict:
        """The parameters, persistent buffers and extra state of the tree, by dotted path.

        Args:
            destination: A dictionary to add to; by default a new one, with an attribute
                ``_metadata`` that holds the version of each module.
            prefix: Put before every key.
            keep_vars: Return the tensors themselves instead of detached handles on their elements.

        Returns:
            The dictionary.

        >>> import flambeau
        >>> from flambeau import nn
        >>> model = nn.Sequential(nn.Module())
        >>> model[0].register_buffer("steps", flambeau.zeros(1))
        >>> list(model.state_dict())
        ['0.steps']
        """
        if args:
            warn(
                "positional arguments of state_dict() are deprecated; name them",
                FutureWarning,
            )
            destination, prefix, keep_vars = _with_positional(args, destination, prefix, keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        if self._state_dict_pre_hooks:
            # Copied, here and below, since a hook may remove itself.
            for hook in tuple(self._state_dict_pre_hooks.values()):
                hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        if self._state_dict_hooks:
            return _run_state_dict_hooks(self, destination, prefix, local_metadata)
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Store this module's own state in ``destination``; subclasses may override it."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        unsaved = self._non_persistent_buffers_set
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in unsaved:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not Persistence.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """The state of this module besides tensors; override it together with `set_extra_state`.

        Raises:
            RuntimeError: The class does not override it.
        """
        raise RuntimeError(
            f"{type(self).__name__} has no extra state; override get_extra_state() to save some"
        )

    def set_extra_state(self, state: Any) -> None:
        """Load the state that `get_extra_state` returned.

        Raises:
            RuntimeError: The class does not override it.
        """
        raise RuntimeError(
            f"{type(self).__name__} has no extra state; override set_extra_state() to load some"
        )

    @trimmed
    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Load a state that `state_dict` returned. On any error nothing is changed.

        Args:
            state_dict: Tensors by dotted path; the keys of a compiled module may also have
                PyTorch's prefix ``_orig_mod.``.
            strict: Require exactly the keys of the model.
            assign: Replace the model's tensors by the given tensors, with their dtype and device,
                instead of copying the elements. Tied weights stay tied.

        Returns:
            ``missing_keys`` and ``unexpected_keys``.

        Raises:
            TypeError: ``state_dict`` is not a mapping.
            RuntimeError: Keys are missing or unexpected, or values have another shape, are complex
                where the model is real, or are no tensors. The message lists them all. Every
                parameter, buffer and other tensor in an attribute of the tree is unchanged.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"load_state_dict() takes a dictionary, but got a {type(state_dict).__name__}"
            )
        names = OwnNames(self, state_dict)
        load = _Load(names.of_metadata(getattr(state_dict, "_metadata", None)), assign)
        with all_or_nothing(self), tied(self) if assign else nullcontext():
            load.visit(self, load.copy(names.of_state(state_dict)), "")
            keys = _IncompatibleKeys(load.missing_keys, load.unexpected_keys)
            if load.error_msgs or (strict and any(keys)):
                missing, unexpected = keys if strict else ([], [])
                raise RuntimeError(
                    load_report.load_error(self, state_dict, missing, unexpected, load.error_msgs)
                )
        return keys

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Kwargs,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own state; subclasses may override it to read older formats.

        Args:
            state_dict: The state to load into this module and its submodules.
            prefix: The prefix of its keys.
            local_metadata: The saved ``version`` of this module, and
                ``assign_to_params_buffers`` if tensors are to be assigned.
            strict: Whether to note keys in the next two lists.
            missing_keys, unexpected_keys, error_msgs: Lists to which mismatches are added.
        """
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hook(
                state_dict, prefix, local_metadata, strict,
                missing_keys, unexpected_keys, error_msgs,
            )  # fmt: skip
        members = saved_members(self)
        if members:
            assign = local_metadata.get("assign_to_params_buffers", False)
            missing, problems = load_members(self, members, state_dict, prefix, assign)
            error_msgs += problems
            missing_keys += missing if strict else []
        _load_extra_state(self, state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            unexpected_keys += _unexpected_keys(self, members, state_dict, prefix)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after saving.

        Its result, unless ``None``, replaces the dictionary.
        """
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                f"{hook!r} is already registered with register_state_dict_post_hook, "
                "which gives it another meaning"
            )
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after saving.

        It may change the dictionary in place, and must return ``None``.
        """
        # A bound method is marked on its function.
        marked: Any = getattr(hook, "__func__", hook)
        marked._from_public_api = True
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before saving."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)`` before this module is loaded.

        It may change the dictionary, which is not the caller's, and the three lists.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        """`register_load_state_dict_pre_hook`, by default without the first argument."""
        bound = BoundHook(hook, self if with_module else None)
        return add_hook(self._load_state_dict_pre_hooks, bound)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` once this module and its submodules are loaded.

        It may change the two lists in place, and must return ``None``.
        """
        return add_hook(self._load_state_dict_post_hooks, hook)


# Functions rather than methods, so that subclasses may use these names themselves.


def _run_state_dict_hooks(
    module: Persistence, destination: StateDict, prefix: str, local_metadata: Kwargs
) -> StateDict:
    """The dictionary, as changed by the hooks after saving."""
    for hook in tuple(module._state_dict_hooks.values()):
        result = hook(module, destination, prefix, local_metadata)
        if result is None:
            continue
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "a state_dict post-hook changes the dictionary it is given and must return "
                f"None, but {hook!r} returned a {type(result).__name__}"
            )
        destination = result
    return destination


def saved_members(module: Persistence) -> dict[str, Tensor]:
    """The parameters and persistent buffers of ``module`` alone."""
    unsaved = module._non_persistent_buffers_set
    buffers = ((name, each) for name, each in module._buffers.items() if name not in unsaved)
    members = chain(module._parameters.items(), buffers)
    return {name: each for name, each in members if each is not None}


def _load_extra_state(
    module: Persistence,
    state_dict: Mapping[str, object],
    prefix: str,
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
) -> None:
    key = prefix + _EXTRA_STATE_KEY_SUFFIX
    if type(module).set_extra_state is not Persistence.set_extra_state:
        if key in state_dict:
            module.set_extra_state(state_dict[key])
        elif strict:
            missing_keys.append(key)
    elif strict and key in state_dict:
        unexpected_keys.append(key)


def _unexpected_keys(
    module: Persistence, members: Container[str], state_dict: Iterable[str], prefix: str
) -> list[str]:
    """Keys that name neither one of ``members`` nor a member of a submodule."""
    extra_state_key = prefix + _EXTRA_STATE_KEY_SUFFIX
    unexpected = []
    for key in state_dict:
        if key.startswith(prefix) and key != extra_state_key:
            name, dot, _ = key[len(prefix) :].partition(".")
            if name not in (module._modules if dot else members):
                unexpected.append(key)
    return unexpected


class _Load:
    """One load of a tree: the problems so far, and the traversal."""

    def __init__(self, metadata: Mapping[str, Kwargs] | None, assign: bool) -> None:
        self.metadata = metadata
        self.assign = assign
        self.missing_keys: list[str] = []
        self.unexpected_keys: list[str] = []
        self.error_msgs: list[str] = []

    def copy(self, state_dict: Mapping[str, object]) -> StateDict:
        """A copy of the caller's dictionary, which hooks may change."""
        copied: Any = OrderedDict(state_dict)
        if self.metadata is not None:
            copied._metadata = self.metadata
        return copied

    def visit(self, module: Persistence, state_dict: StateDict, prefix: str) -> None:
        """Load ``module`` and its submodules from the keys that begin with ``prefix``."""
        local_metadata = dict((self.metadata or {}).get(prefix[:-1], {}))
        if self.assign:
            local_metadata["assign_to_params_buffers"] = True
        module._load_from_state_dict(
            state_dict, prefix, local_metadata, True,
            self.missing_keys, self.unexpected_keys, self.error_msgs,
        )  # fmt: skip
        # Only now, since hooks may have renamed keys.
        parts = _by_first_name(state_dict, prefix) if module._modules else {}
        for name, child in module._modules.items():
            if child is not None:
                self.visit(child, parts.get(name, {}), f"{prefix}{name}.")
        if module._load_state_dict_post_hooks:
            self._run_post_hooks(module)

    def _run_post_hooks(self, module: Persistence) -> None:
        keys = _IncompatibleKeys(self.missing_keys, self.unexpected_keys)
        for hook in tuple(module._load_state_dict_post_hooks.values()):
            if hook(module, keys) is not None:
                raise AssertionError(
                    f"the hook {hook!r} after loading a state dict must return None; "
                    "it may change the two lists of keys in place"
                )


def _by_first_name(state_dict: StateDict, prefix: str) -> dict[str, StateDict]:
    """The entries of each submodule, found in one pass."""
    parts: dict[str, StateDict] = {}
    start = len(prefix)
    for key, value in state_dict.items():
        if key.startswith(prefix):
            name, dot, _ = key[start:].partition(".")
            if dot:
                parts.setdefault(name, {})[key] = value
    return parts


def _with_positional(args: Args, *named: Any) -> list[Any]:
    """The arguments of `state_dict`; keyword arguments win unless they are defaults."""
    defaults = (None, "", False)
    positional = (*args, *defaults[len(args) :])
    return [
        given if name == default else name
        for given, name, default in zip(positional, named, defaults, strict=False)
    ]
