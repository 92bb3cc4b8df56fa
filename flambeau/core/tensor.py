"""The Tensor: a handle on a Cell, with PyTorch's face.

Here is what a tensor *is*: its Cell or view, its place on the tape, its conversions to and from
other libraries. Operators attach themselves as methods when they are declared.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

import jax
import numpy as np

from flambeau.core import device as devices
from flambeau.core import dtype as dtypes
from flambeau.core import format, world
from flambeau.core.cell import Cell, is_abstract
from flambeau.core.handle import HookDict, RemovableHandle
from flambeau.core.modes import modes
from flambeau.core.view import View


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple that prints as PyTorch's and counts elements."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        count = 1
        for size in self:
            count *= size
        return count

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Size:  # type: ignore[override]
        return Size(tuple(self) + tuple(other))

    def __mul__(self, other: SupportsIndex) -> Size:
        return Size(tuple(self) * other)

    def __repr__(self) -> str:
        return f"flambeau.Size({list(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)


class TensorMeta(type):
    """The metaclass of Tensor, so that subclasses may decide what counts as an instance."""


def _disabled_torch_function_impl(
    func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """A ``__torch_function__`` that overrides nothing."""
    return func(*args, **(kwargs or {}))


class Tensor(metaclass=TensorMeta):
    """An n-dimensional array with PyTorch's interface.

    A tensor is a handle: its elements are in a `Cell`, perhaps reached through a `View`. Construct
    tensors with `flambeau.tensor`, `flambeau.zeros` and the like; ``Tensor(2, 3)`` and
    ``Tensor([1, 2])`` give PyTorch's legacy meaning, default-dtype tensors of that shape or data.
    """

    _cell: Cell
    # Defaults live on the class, so that making a tensor sets only what differs.
    _view: View | None = None
    _requires_grad: bool = False
    _grad_fn: Any = None
    _output_nr: int = 0
    _grad: Tensor | None = None
    _rebased: int = 0
    _hooks: HookDict | None = None
    _post_accumulate_hooks: HookDict | None = None
    _accumulator: Any = None
    _inference: bool = False
    __array_priority__ = 1000

    if TYPE_CHECKING:
        # Operators attach themselves as methods at declaration.
        def __getattr__(self, name: str) -> Any: ...

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        from flambeau.core.convert import legacy_array

        self = object.__new__(cls)
        self._cell = Cell(legacy_array(args, kwargs))
        return self

    # Making tensors

    @staticmethod
    def _wrap(array: Any) -> Tensor:
        """A new tensor that holds ``array`` in a Cell of its own."""
        self = object.__new__(Tensor)
        self._cell = Cell(array)
        return self

    def _alias(self, cls: type[Tensor]) -> Any:
        """A new handle of class ``cls`` on the same elements, outside the tape."""
        alias = object.__new__(cls)
        alias._cell = self._cell
        view = self._view
        if view is not None:
            alias._view = View(
                view.steps, view.names, view.starts, view.shape, view.numpy_dtype, None
            )
        return alias

    @staticmethod
    def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
        """A ``cls`` on the same elements as ``data``, as a leaf."""
        made = data._alias(cls)
        made.requires_grad = require_grad
        return made

    def as_subclass(self, cls: type[Tensor]) -> Any:
        """This tensor as an instance of ``cls``, on the same elements and with the same history."""
        made = self._alias(cls)
        made._view = self._view
        made._requires_grad, made._grad_fn, made._output_nr = (
            self.requires_grad, self._grad_fn, self._output_nr,
        )  # fmt: skip
        if made._requires_grad and made._grad_fn is None:
            from flambeau.core.dispatch import alias_of_leaf

            alias_of_leaf(self, made)
        return made

    # The value

    def _read(self) -> Any:
        """The array of this tensor's elements, as of now."""
        cell, view, trace = self._cell, self._view, modes.trace
        if trace is not None:
            array = trace.read(cell)
            return array if view is None else view.read(array)
        if view is None:
            return cell.array
        if view.version != cell.version or view.array is None:
            if not view.steps:
                return cell.array
            view.array = view.read(cell.array)
            view.version = cell.version
        return view.array

    def _store(self, array: Any) -> None:
        """Replace this tensor's elements by an ``array`` of the same shape and dtype."""
        cell, view, trace = self._cell, self._view, modes.trace
        part = array
        if view is not None:
            base = cell.array if trace is None else trace.read(cell)
            array = view.write(base, part)
        if trace is not None:
            trace.write(cell, array)
            cell.version += 1
            return
        if isinstance(array, jax.core.Tracer) and not isinstance(cell.array, jax.core.Tracer):
            raise RuntimeError(
                "cannot write a transformed value in place to a tensor from outside the "
                "transformation (grad, vmap, jit); return the value instead"
            )
        cell.write(array)
        if view is not None:
            view.array, view.version = part, cell.version

    @property
    def data(self) -> Any:
        """The same elements, outside the tape; assigning makes this tensor share the other's."""
        return self._alias(type(self)) if type(self) is Tensor else self._alias(Tensor)

    @data.setter
    def data(self, other: Tensor) -> None:
        if not isinstance(other, Tensor):
            raise TypeError(f"data must be set to a Tensor, got {type(other).__name__}")
        if self._requires_grad and not (other.is_floating_point() or other.is_complex()):
            raise RuntimeError(
                f"data set to a {other.dtype} tensor, but this tensor requires grad: "
                "only floating point and complex tensors can"
            )
        self._cell, self._view = other._cell, other._alias(Tensor)._view
        self.__dict__.pop("_accumulator", None)
        world.bump()

    def detach(self) -> Any:
        """The same elements as a tensor that is not part of the tape."""
        return self._alias(type(self))

    def detach_(self) -> Any:
        """Take this tensor itself off the tape."""
        if self._view is not None and self._view.base is not None:
            raise RuntimeError("cannot detach a view in place; use detach() instead")
        self._grad_fn, self._output_nr, self._requires_grad = None, 0, False
        return self

    # Shape, type, place

    @property
    def shape(self) -> Size:
        """The size of every dimension."""
        view = self._view
        return Size(self._cell.array.shape if view is None else view.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of dimension ``dim``."""
        if dim is None:
            return self.shape
        ndim = self.ndim
        if not -max(ndim, 1) <= dim < max(ndim, 1) or ndim == 0:
            raise IndexError(f"dimension {dim} is out of range for a tensor with {ndim} dimensions")
        return self.shape[dim]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        view = self._view
        return len(self._cell.array.shape if view is None else view.shape)

    def dim(self) -> int:
        """The number of dimensions."""
        return self.ndim

    ndimension = dim

    def numel(self) -> int:
        """The number of elements."""
        return self.shape.numel()

    nelement = numel

    @property
    def dtype(self) -> dtypes.dtype:
        """The type of the elements."""
        view = self._view
        return dtypes.from_numpy_dtype(
            self._cell.array.dtype if view is None else view.numpy_dtype
        )

    @property
    def device(self) -> devices.device:
        """Where the elements are."""
        array = self._cell.array
        if isinstance(array, jax.core.Tracer):
            trace = modes.trace
            return devices.get_default_device() if trace is None else trace.place()
        if is_abstract(array):
            return devices.META
        return devices.from_jax_device(min(array.devices(), key=lambda each: each.id))

    @property
    def is_meta(self) -> bool:
        """Whether this tensor has a shape and dtype, but no elements."""
        return is_abstract(self._cell.array)

    @property
    def is_cpu(self) -> bool:
        """Whether the elements are in the CPU's memory."""
        return self.device.type == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are in a GPU's memory."""
        return self.device.type == "cuda"

    def get_device(self) -> int:
        """The index of the GPU that holds the elements, -1 for the CPU."""
        device = self.device
        return -1 if device.type == "cpu" else device.index or 0

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    element_size = itemsize.fget

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel() * self.itemsize

    def is_floating_point(self) -> bool:
        """Whether the dtype is a real floating point type."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype has negative values."""
        return self.dtype.is_signed

    def is_inference(self) -> bool:
        """Whether this tensor was made in `inference_mode`."""
        return self._inference

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Always true: XLA chooses layouts, and no caller can see them."""
        return True

    def stride(self, dim: int | None = None) -> Any:
        """The strides of a contiguous tensor of this shape, in elements."""
        strides, step = [], 1
        for size in reversed(self.shape):
            strides.append(step)
            step *= max(size, 1)
        strides.reverse()
        return tuple(strides) if dim is None else strides[dim]

    def storage_offset(self) -> int:
        """Always 0: a view has no offset that a caller can see."""
        return 0

    def data_ptr(self) -> int:
        """The address of the elements, as of now."""
        return self._read().unsafe_buffer_pointer()

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return shape[0]

    # The tape

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor."""
        if self._view is not None:
            self._follow_base()
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        value = bool(value)
        if value and not (self.is_floating_point() or self.is_complex()):
            raise RuntimeError(
                "only tensors of floating point and complex dtype can require gradients, "
                f"this one is {self.dtype}"
            )
        if value != self.requires_grad:
            if self._grad_fn is not None:
                raise RuntimeError(
                    "requires_grad can be changed on leaf tensors only; this one is the result of "
                    f"{self._grad_fn.name()}: use detach() to take it off the tape"
                )
            self._requires_grad = value
            world.bump()

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set `requires_grad` and return this tensor."""
        self.requires_grad = requires_grad
        return self

    @property
    def grad_fn(self) -> Any:
        """The node that made this tensor; ``None`` for a leaf."""
        if self._view is not None:
            self._follow_base()
        return self._grad_fn

    def _follow_base(self) -> None:
        """Move this view's history after its base's, if an in-place write moved that."""
        view = self._view
        if view is None or view.base is None:
            return
        moved = view.base._rebased
        if view.base._view is not None:
            moved = view.history_base()._rebased
        if view.rebased != moved:
            from flambeau.core.dispatch import replay_view

            view.rebased = moved
            replay_view(self, view)

    def _history_base(self) -> Tensor:
        """The tensor whose history this one's follows: its base, or itself."""
        view = self._view
        return self if view is None or view.base is None else view.history_base()

    @property
    def output_nr(self) -> int:
        """Which output of its `grad_fn` this tensor is."""
        return self._output_nr

    @property
    def is_leaf(self) -> bool:
        """Whether this tensor was made by the user rather than by a recorded operator."""
        return self.grad_fn is None

    @property
    def grad(self) -> Tensor | None:
        """What `backward` has accumulated for this tensor, or ``None``."""
        trace = modes.trace
        return self._grad if trace is None else trace.get_grad(self)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_grad(value)
        trace = modes.trace
        if trace is None:
            self._grad = value
        else:
            trace.set_grad(self, value)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _check_grad(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"grad must be a Tensor or None, got {type(value).__name__}")
        if value is self:
            raise RuntimeError("a tensor cannot be its own grad")
        if value.shape != self.shape:
            raise RuntimeError(
                f"grad of shape {list(value.shape)} assigned to a tensor of shape "
                f"{list(self.shape)}"
            )
        if value.dtype is not self.dtype:
            raise RuntimeError(f"grad of {value.dtype} assigned to a tensor of {self.dtype}")
        if value.device != self.device:
            raise RuntimeError(f"grad on {value.device} assigned to a tensor on {self.device}")

    @property
    def _version(self) -> int:
        """How many in-place writes the underlying Cell has seen."""
        return self._cell.version

    def _is_view(self) -> bool:
        return self._view is not None and self._view.base is not None

    @property
    def _base(self) -> Tensor | None:
        return None if self._view is None else self._view.base

    @property
    def retains_grad(self) -> bool:
        """Whether a non-leaf keeps its gradient after `backward`."""
        return self._grad_fn is not None and self._grad_fn.retains(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
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
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle

    def register_post_accumulate_grad_hook(
        self, hook: Callable[[Tensor], None]
    ) -> RemovableHandle:
        """Call ``hook(tensor)`` each time `backward` has accumulated into this leaf's ``.grad``.

        Raises:
            RuntimeError: This tensor is no leaf, or does not require grad.
        """
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that does not require grad")
        if self.grad_fn is not None:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        if self._post_accumulate_hooks is None:
            self._post_accumulate_hooks = HookDict()
        handle = RemovableHandle(self._post_accumulate_hooks)
        self._post_accumulate_hooks[handle.id] = hook
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

    # To and from other libraries

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The elements as a NumPy array, read-only and without a copy where JAX allows it.

        A snapshot: later in-place writes to the tensor do not show in it.

        Args:
            force: Detach first, where PyTorch would refuse.

        Raises:
            RuntimeError: The tensor requires grad and ``force`` is not set.
            TypeError: The tensor is on another device than the CPU and ``force`` is not set.
        """
        if not force:
            if self.requires_grad:
                raise RuntimeError(
                    "cannot convert a tensor that requires grad to NumPy; "
                    "use tensor.detach().numpy() or tensor.numpy(force=True)"
                )
            if self.device.type != "cpu" and not self.is_meta:
                raise TypeError(
                    f"cannot convert a tensor on {self.device} to NumPy; use tensor.cpu() first"
                )
        return np.asarray(self.jax())

    def jax(self) -> jax.Array:
        """The elements as a `jax.Array`, without a copy."""
        array = self._read()
        if is_abstract(array):
            raise NotImplementedError("a tensor on the meta device has no elements to read")
        return array

    __jax_array__ = jax

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        if self.requires_grad:
            raise RuntimeError("cannot export a tensor that requires grad; use detach() first")
        return self.jax().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, ...]:
        return self.jax().__dlpack_device__()

    def _scalar(self) -> Any:
        """The only element, as a NumPy scalar."""
        trace = modes.trace
        array = self._read()
        if array.size != 1:
            raise RuntimeError(
                f"a tensor with {array.size} elements cannot be converted to a Python scalar"
            )
        if trace is not None and isinstance(array, jax.core.Tracer):
            trace.refuse_value()
        if is_abstract(array):
            raise RuntimeError("a tensor on the meta device has no elements; item() cannot read one")
        return np.asarray(array).reshape(())[()]

    def item(self) -> Any:
        """The only element as a Python number.

        Raises:
            RuntimeError: There is more than one element, or none.
        """
        return self._scalar().item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers, or one number for a 0-d tensor."""
        return np.asarray(self.jax()).tolist()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise RuntimeError(
                f"the truth of a tensor with {self.numel()} elements is ambiguous; "
                "use any() or all()"
            )
        return bool(self._scalar())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.dtype.category > dtypes.INTEGER or self.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._scalar())

    def __format__(self, spec: str) -> str:
        if self.ndim == 0 and not self.is_meta:
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return format.tensor_repr(
            None if self.is_meta else self._shown_value(),
            shape=tuple(self.shape),
            dtype=str(self.dtype),
            default_dtype=str(dtypes.get_default_dtype()),
            device=None if self.device.type == "cpu" else str(self.device),
            grad_fn=None if self.grad_fn is None else self.grad_fn.name(),
            requires_grad=self.requires_grad,
            class_prefix="tensor" if type(self) in PLAIN_TYPES else type(self).__name__,
        )

    def _shown_value(self) -> Any:
        array = self._read()
        if isinstance(array, jax.core.Tracer):
            return None
        return array if isinstance(array, jax.Array) else np.asarray(array)

    def __hash__(self) -> int:
        return id(self)

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, element: Any) -> bool:
        return bool((self == element).any())

    def __reversed__(self) -> Tensor:
        return self if self.ndim == 0 else self.flip(0)

    # Copies

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "only leaf tensors can be deep-copied; use detach() or clone() on this one, "
                f"the result of {self.grad_fn.name()}"
            )
        made = object.__new__(type(self))
        # Arrays are immutable, so two Cells can share one until either is written.
        made._cell = Cell(self._read())
        made._requires_grad = self._requires_grad
        memo[id(self)] = made
        if self._grad is not None:
            made._grad = copy.deepcopy(self._grad, memo)
        made.__dict__.update(copy.deepcopy(self._user_attributes(), memo))
        return made

    def _user_attributes(self) -> dict[str, Any]:
        """What the user has set on this tensor."""
        return {
            name: value for name, value in self.__dict__.items() if name not in _OWN_ATTRIBUTES
        }

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        if not self.is_leaf:
            raise RuntimeError("only leaf tensors can be pickled; use detach() first")
        return rebuild_tensor, (
            type(self), *self._pickled_value(), self._requires_grad, self._user_attributes(),
        )  # fmt: skip

    def _pickled_value(self) -> tuple[Any, str]:
        """The elements as NumPy (shape and dtype on meta), and the name of the device."""
        array = self._read()
        if is_abstract(array):
            return (array.shape, self.dtype.name), "meta"
        return np.asarray(array), str(self.device)

    # Subclasses and their operators

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run ``func`` and give its results the subclass ``cls``."""
        from flambeau.core.overrides import DisableTorchFunctionSubclass, as_results_of

        with DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return as_results_of(cls, result)


_OWN_ATTRIBUTES = frozenset(name for name in Tensor.__annotations__ if name.startswith("_"))

# Classes whose operators nobody overrides: the dispatcher's fast path knows them by identity.
PLAIN_TYPES: set[type] = {Tensor}


def register_plain_type(cls: type[Tensor]) -> None:
    """Let the dispatcher treat ``cls`` exactly as a `Tensor`."""
    PLAIN_TYPES.add(cls)


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Attach ``function`` to Tensor under its own name."""
    setattr(Tensor, function.__name__, function)
    return function


def rebuild_tensor(
    cls: type[Tensor], value: Any, device: str, requires_grad: bool, attributes: dict[str, Any]
) -> Tensor:
    """A tensor from its pickled state."""
    from flambeau.core.convert import place
    from flambeau.core.cell import abstract

    made = object.__new__(cls)
    if device == "meta":
        shape, name = value
        made._cell = Cell(abstract(shape, getattr(dtypes, name).numpy))
    else:
        made._cell = Cell(place(value, devices.device(device)))
    made._requires_grad = requires_grad
    made.__dict__.update(attributes)
    return made
