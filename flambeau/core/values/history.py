"""A tensor's place on the tape: `requires_grad`, `grad_fn`, `.grad` and hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

from flambeau.core.support import world
from flambeau.core.support.dtype import dtype
from flambeau.core.support.handle import HookDict, RemovableHandle
from flambeau.core.support.modes import modes
from flambeau.core.support.tracebacks import trim
from flambeau.core.support.warning import warn
from flambeau.core.types import Cell, Key, Size, View
from flambeau.core.values.attributes import SAME_DTYPE
from flambeau.core.values.trace import TracedValueError


class History:
    """The part of Tensor's interface that concerns gradients."""

    # In slots, see `flambeau.core.values.attributes`.
    _requires_grad: bool
    _grad_fn: Any
    _output_nr: int
    _grad: Any
    _grad_dtype: Any
    _rebased: int
    _hooks: HookDict | None
    _post_accumulate_hooks: HookDict | None
    _accumulator: Any
    #: Whether a compiled program relies on properties of this tensor.
    _watched: bool

    if TYPE_CHECKING:
        # Supplied by the rest of the Tensor.
        _cell: Cell
        _view: View | None
        _inference: bool
        _replay_view: ClassVar[Callable[..., None]]

        @property
        def shape(self) -> Size: ...
        @property
        def dtype(self) -> Any: ...
        @property
        def device(self) -> Any: ...
        def is_floating_point(self) -> bool: ...
        def is_complex(self) -> bool: ...

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor."""
        if world.tracing:
            look_at(self)
        if self._view is not None:
            self._follow_base()
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"requires_grad must be True or False, got {value!r:.80}")
        if modes.trace is not None:
            # Before the reads below, which are not the user's.
            modes.trace.set_flag(self)
        if value and not (self.dtype.is_floating_point or self.dtype.is_complex):
            raise RuntimeError(
                "only tensors of floating point and complex dtype can require gradients, "
                f"this one is {self.dtype}"
            )
        if value and self._inference and not modes.inference:
            raise RuntimeError(
                "a tensor made in inference_mode cannot require gradients outside it; clone() it"
            )
        if value != self.requires_grad:
            if self._grad_fn is not None:
                raise RuntimeError(
                    "requires_grad can be changed on leaf tensors only; this one is the result of "
                    f"{self._grad_fn.name()}: use detach() to take it off the tape"
                )
            self._requires_grad = value
            world.bump()

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` and return this tensor."""
        if not isinstance(requires_grad, bool):
            raise TypeError(
                f"requires_grad_(): requires_grad must be True or False, got {requires_grad!r:.80}"
            )
        self.requires_grad = requires_grad
        return self

    @property
    def grad_fn(self) -> Any:
        """The node that made this tensor; ``None`` for a leaf."""
        if world.tracing:
            look_at(self)
        if self._view is not None:
            self._follow_base()
        return self._grad_fn

    def _follow_base(self) -> None:
        """Recompute this view's history if an in-place write has moved its base's."""
        view = self._view
        if view is None or view.base is None:
            return
        base = view.base
        if base._view is not None:
            base = view.history_base(reading=True)
        if base is not None and view.rebased != base._rebased:
            view.rebased = base._rebased
            self._replay_view(view)

    def _history_base(self) -> Any:
        """The tensor whose history this one follows: its base, or itself."""
        view = self._view
        return self if view is None or view.base is None else view.history_base()

    def _leaf_hooks(self) -> Key:
        """The hooks on this leaf, in a comparable form."""
        if not self._hooks and not self._post_accumulate_hooks:
            return ()
        own, after = self._hooks or {}, self._post_accumulate_hooks or {}
        return tuple(own.items()), tuple(after.items())

    @property
    def output_nr(self) -> int:
        """The index of this tensor among the outputs of its `grad_fn`."""
        return self._output_nr

    @property
    def is_leaf(self) -> bool:
        """Whether this tensor was made by the user rather than by a recorded operator."""
        return self.grad_fn is None

    @property
    def grad(self) -> Any:
        """The gradient that `backward` has accumulated for this tensor, or ``None``."""
        trace = modes.trace
        found = self._grad if trace is None else trace.get_grad(self)
        if found is None and self._grad_fn is not None and not self.retains_grad:
            warn(
                f"the .grad of a tensor that is not a leaf (the result of {self._grad_fn.name()}) "
                "is not kept by backward(): call retain_grad() on it first",
                UserWarning,
            )
        return found

    @grad.setter
    def grad(self, value: object) -> None:
        if value is not None:
            try:
                self._check_grad(value)
            except Exception as error:
                trim(error)
                raise
        trace = modes.trace
        if trace is None:
            self._grad = value
            world.bump_gradients()
        else:
            trace.set_grad(self, value)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _check_grad(self, value: object) -> None:
        if not isinstance(value, History):
            raise TypeError(f"grad must be a Tensor or None, got {type(value).__name__}")
        if value is self:
            raise RuntimeError("a tensor cannot be its own grad")
        if value.shape != self.shape:
            raise RuntimeError(
                f"grad of shape {list(value.shape)} assigned to a tensor of shape "
                f"{list(self.shape)}"
            )
        wanted = self.dtype if self._grad_dtype is SAME_DTYPE else self._grad_dtype
        if wanted is not None and value.dtype is not wanted:
            raise RuntimeError(
                f"grad of {value.dtype} assigned to a tensor of {self.dtype} that takes {wanted}; "
                "convert it, or set grad_dtype"
            )
        if value.device != self.device:
            raise RuntimeError(f"grad on {value.device} assigned to a tensor on {self.device}")

    @property
    def grad_dtype(self) -> Any:
        """The dtype of this leaf's `grad`, to which `backward` converts gradients.

        The tensor's own dtype by default. ``None`` allows every dtype and converts nothing.

        Raises:
            RuntimeError: This tensor is not a leaf; or, on assignment, it has a `grad` of another
                dtype, or the value is not a dtype.

        >>> import flambeau
        >>> x = flambeau.ones(2, dtype=flambeau.bfloat16, requires_grad=True)
        >>> x.grad_dtype = flambeau.float32
        >>> (x * 3).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        """
        self._require_leaf("asked for")
        return self.dtype if self._grad_dtype is SAME_DTYPE else self._grad_dtype

    @grad_dtype.setter
    def grad_dtype(self, value: object) -> None:
        self._require_leaf("set")
        if value is not None and not isinstance(value, dtype):
            raise RuntimeError(f"grad_dtype must be a dtype or None, got {type(value).__name__}")
        grad = self.grad
        if value is not None and grad is not None and grad.dtype is not value:
            raise RuntimeError(
                f"grad_dtype cannot become {value} while there is a grad of {grad.dtype}; set grad "
                "to None first"
            )
        if modes.trace is not None:
            raise RuntimeError("grad_dtype cannot be set inside a compiled function; set it before")
        self._grad_dtype = value
        world.bump()

    def _require_leaf(self, subject: str) -> None:
        if not self.is_leaf:
            raise RuntimeError(
                f"grad_dtype can be {subject} on leaf tensors only; this one is the result of "
                f"{self._grad_fn.name()}"
            )

    @property
    def _version(self) -> int:
        """The number of in-place writes to the underlying Cell.

        Raises:
            RuntimeError: The tensor was made in `inference_mode`.
        """
        if self._inference:
            raise RuntimeError(
                "a tensor made in inference_mode has no version; clone() it outside to have one"
            )
        if modes.trace is not None:
            modes.trace.refuse_version(self)
        return self._cell.version

    def _is_view(self) -> bool:
        if is_view(self):
            return True
        # The stand-in of an argument is not a view, even if the argument is one.
        return modes.trace is not None and modes.trace.ask(self, is_view)

    @property
    def _base(self) -> Any:
        if self._view is not None and is_view(self):
            return self._view.base
        if self._is_view():
            raise TracedValueError(
                "the _base of an argument is not an argument of the compiled function; pass the "
                "base as an argument too"
            )
        return None

    @property
    def retains_grad(self) -> bool:
        """Whether a non-leaf keeps its gradient after `backward`."""
        if world.tracing:
            look_at(self)
        return self._grad_fn is not None and self._grad_fn.retains(self)

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call ``hook(grad)`` when this tensor's gradient is known; a returned tensor replaces it.

        Raises:
            RuntimeError: This tensor does not require grad.
        """
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that does not require grad")
        if self.grad_fn is not None:
            hooks = self._grad_fn.tensor_hooks_of(self._output_nr)
        else:
            if self._hooks is None:
                self._hooks = HookDict()
            hooks = self._hooks
            world.bump()
        return self._register("register_hook", hooks, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> RemovableHandle:
        """Call ``hook(tensor)`` each time `backward` has accumulated into this leaf's ``.grad``.

        Raises:
            RuntimeError: This tensor is not a leaf, or does not require grad.
        """
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that does not require grad")
        if self.grad_fn is not None:
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors"
            )
        if self._post_accumulate_hooks is None:
            self._post_accumulate_hooks = HookDict()
        world.bump()
        hooks = self._post_accumulate_hooks
        return self._register("register_post_accumulate_grad_hook", hooks, hook)

    def _register(
        self, method: str, hooks: HookDict, hook: Callable[[Any], Any]
    ) -> RemovableHandle:
        if modes.trace is not None:
            modes.trace.add_hook(self, method, hooks)
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in ``.grad`` after `backward`.

        Raises:
            RuntimeError: This tensor does not require grad.
        """
        if not self.requires_grad:
            raise RuntimeError("cannot retain the grad of a tensor that does not require grad")
        if self.grad_fn is not None:
            self._grad_fn.retain(self)


def look_at(tensor: History) -> None:
    """Add a guard on the properties of ``tensor`` to this thread's trace, if any."""
    if modes.trace is not None:
        modes.trace.look_at(tensor)


def is_view(tensor: History) -> bool:
    """Whether ``tensor`` has the history of another one, of which it is a view."""
    view = tensor._view
    return view is not None and view.base is not None and not view.of_itself


def is_part(tensor: History) -> bool:
    """Whether ``tensor`` sees the elements of a Cell through a view; asks the trace, if any."""
    trace = modes.trace
    return _has_view(tensor) or (trace is not None and trace.ask(tensor, _has_view))


def _has_view(tensor: History) -> bool:
    return tensor._view is not None
