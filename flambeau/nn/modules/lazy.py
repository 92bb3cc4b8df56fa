"""Modules that infer the sizes of their parameters from their first input."""

from __future__ import annotations

from itertools import chain
from typing import Any, NoReturn

from flambeau.core.programs.finishing import finish
from flambeau.core.support.modes import no_grad
from flambeau.core.values.trace import current, outside
from flambeau.nn.common_types import Args, Kwargs, StateDict
from flambeau.nn.module import Module
from flambeau.nn.parameter import UninitializedTensorMixin, is_lazy
from flambeau.nn.state_dict import saved_members

__all__ = ["LazyModuleMixin"]


def _initialize(module: LazyModuleMixin, args: Args, kwargs: Kwargs) -> None:
    """Materialize all uninitialized members of ``module``, or none if there is an error."""
    members = chain(module._parameters.values(), module._buffers.values())
    before = [
        (each, type(each), each.data)
        for each in members
        if isinstance(each, UninitializedTensorMixin)
    ]
    try:
        module.initialize_parameters(*args, **kwargs)
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"initialize_parameters() of {type(module).__name__} has left parameters or "
                "buffers uninitialized; it must materialize() them all"
            )
    except BaseException:
        for member, cls, data in before:
            member.__class__, member.data = cls, data
        raise


def _become_ordinary(module: Module) -> None:
    """Remove everything lazy from the module; repeatable after an interrupt."""
    for name in ("_initialize_hook", "_load_hook"):
        hook = vars(module).get(name)
        if hook is not None:
            hook.remove()
            delattr(module, name)
    # The new class has no such attribute.
    ordinary = getattr(module, "cls_to_become", None)
    if ordinary is not None:
        module.__class__ = ordinary


class LazyModuleMixin(Module):
    """A module with uninitialized parameters, which get their shapes in its first call.

    A subclass names this class first among its bases, creates `UninitializedParameter` and
    `UninitializedBuffer` members, and defines `initialize_parameters`, which materializes them. The
    first call runs it, removes the lazy hooks, and changes the module's class to `cls_to_become`.
    Parameters stay the same objects, so an optimizer may be created before or after.

    A state dict may be loaded before the first call: it gives the parameters their shapes.

    >>> import flambeau
    >>> from flambeau import nn
    >>> layer = nn.LazyLinear(3)
    >>> layer
    LazyLinear(in_features=0, out_features=3, bias=True)
    >>> output = layer(flambeau.zeros(2, 5))
    >>> layer
    Linear(in_features=5, out_features=3, bias=True)
    """

    #: The class of the module after its first call; ``None`` keeps it.
    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize all parameters and buffers; called with the arguments of the first call."""
        raise NotImplementedError(
            f"{type(self).__name__} does not define initialize_parameters(), which a lazy module "
            "must"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module has no shape yet."""
        return any(map(is_lazy, chain(self._parameters.values(), self._buffers.values())))

    def _infer_parameters(
        self, module: LazyModuleMixin, args: Args, kwargs: Kwargs | None = None
    ) -> None:
        # These changes outlive a program that may be being compiled, so they are made outside the
        # trace.
        with outside():
            _initialize(module, args, kwargs or {})
            finish(lambda _: _become_ordinary(module))
        trace = current()
        if trace is not None:
            trace.enter(module, renewed=True)

    def _save_to_state_dict(self, destination: StateDict, prefix: str, keep_vars: bool) -> None:
        for name, member in saved_members(self).items():
            destination[prefix + name] = member if keep_vars or is_lazy(member) else member.detach()

    def _lazy_load_hook(
        self,
        state_dict: StateDict,
        prefix: str,
        local_metadata: Kwargs,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Give uninitialized parameters and buffers the shapes in the state dict."""
        with no_grad():
            for name, member in chain(self._parameters.items(), self._buffers.items()):
                given = state_dict.get(prefix + name)
                if isinstance(member, UninitializedTensorMixin) and not (
                    given is None or is_lazy(given)
                ):
                    member.materialize(given.shape)

    def _replicate_for_data_parallel(self) -> NoReturn:
        raise RuntimeError(
            "a module with uninitialized parameters cannot be replicated for DataParallel; call it "
            "once with an input first"
        )
