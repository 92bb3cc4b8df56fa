"""The Tensor: a handle on a Cell, with PyTorch's interface.

A tensor consists of its Cell or view and its position on the tape. This file also has its
conversions to and from other libraries. Operators attach themselves as methods when they are
declared.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self, SupportsIndex, TypeVar

import numpy as np
from jax.core import Tracer

from flambeau.core.devices import device as devices
from flambeau.core.devices import meshes, spanning
from flambeau.core.devices.layout import strided
from flambeau.core.programs.deferred import Deferred, keep
from flambeau.core.support import debugger, format, naming, world
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.modes import modes
from flambeau.core.support.owners import owner_of
from flambeau.core.types import Args, Contents, Function, Kwargs, Tangent
from flambeau.core.values import pytree
from flambeau.core.values.attributes import Attributes, handle_on
from flambeau.core.values.cell import Cell, is_abstract
from flambeau.core.values.dual import tangent_of
from flambeau.core.values.history import History, look_at
from flambeau.core.values.host import HostAccess
from flambeau.core.values.inside import transformation, writer
from flambeau.core.values.strides import contiguous_strides, is_in_order, offset_of, strides_of
from flambeau.core.values.tensor_class import TensorMeta
from flambeau.core.values.tracers import constant
from flambeau.core.values.view import View

_Kind = TypeVar("_Kind", bound="Tensor")

if TYPE_CHECKING:
    # Operators attach themselves as methods when they are declared; `tools/stubs.py` lists them.
    from flambeau.core.values.tensor_methods import (  # pyright: ignore[reportMissingModuleSource]
        TensorMethods,
    )
else:
    TensorMethods = object


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple that prints as PyTorch's and counts elements."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements."""
        count = 1
        for size in self:
            count *= size
        return count

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Size:
        return Size(tuple(self) + tuple(other))

    def __mul__(self, other: SupportsIndex) -> Size:
        return Size(tuple(self) * other)

    def __repr__(self) -> str:
        return f"{naming.package}.Size({list(self)})"

    def __reduce__(self) -> Args:
        return Size, (tuple(self),)


def _disabled_torch_function_impl(
    func: Function, types: Iterable[type], args: Args = (), kwargs: Kwargs | None = None
) -> Any:
    """A ``__torch_function__`` that overrides nothing; an override may call it too."""
    modes.overrides_disabled += 1
    try:
        return func(*args, **(kwargs or {}))
    finally:
        modes.overrides_disabled -= 1


class Tensor(Attributes, History, HostAccess, TensorMethods, metaclass=TensorMeta):
    """An n-dimensional array with PyTorch's interface.

    A tensor is a handle: its elements are in a `Cell`, perhaps reached through a `View`. Construct
    tensors with `flambeau.tensor`, `flambeau.zeros` and the like; ``Tensor(2, 3)`` and
    ``Tensor([1, 2])`` give PyTorch's legacy meaning, default-dtype tensors of that shape or data.
    """

    # In slots, see `flambeau.core.values.attributes`.
    _cell: Cell
    _view: View | None
    _inference: bool
    # A `flambeau.core.values.dual.Tangent`, which is valid while its level is open.
    _tangent: Tangent | None
    __array_priority__ = 1000

    if TYPE_CHECKING:
        # Set by later modules: `convert`, `viewing`, `overrides`.
        _legacy_array: ClassVar[Function]
        _rebuild: ClassVar[Function]
        _replay_view: ClassVar[Callable[..., None]]
        _view_of_tangent: ClassVar[Function]
        _make_alias_of_leaf: ClassVar[Callable[..., None]]
        _ask_about_methods: ClassVar[Any]
        __torch_function__: ClassVar[Any]

    def __init_subclass__(cls, parts: pytree.OwnParts | None = None, **options: object) -> None:
        super().__init_subclass__(**options)
        if parts is None:
            pytree.register(cls)
        else:
            pytree.register_parts(cls, parts)
        if "__torch_function__" in vars(cls):
            cls._ask_about_methods()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], Tensor):
            return args[0].as_subclass(cls)
        return handle_on(Cell(cls._legacy_array(args, kwargs)), cls)

    # Making tensors

    @staticmethod
    def _wrap(array: Contents) -> Tensor:
        """A new tensor that holds ``array`` in a Cell of its own."""
        return handle_on(Cell(array), Tensor)

    def _alias(self, cls: type[_Kind]) -> _Kind:
        """A new handle of class ``cls`` on the same elements, outside the tape."""
        alias = handle_on(self._cell, cls)
        if self._view is not None:
            alias._view = self._view.without_base()
        if modes.trace is not None:
            modes.trace.derive(alias, self)
        return alias

    def _constant(self, cls: type[_Kind]) -> _Kind:
        """`_alias` that stops the gradients of JAX's transformations too."""
        if isinstance(self._cell.array, Tracer) and (
            modes.trace is None or transformation() is not None
        ):
            return handle_on(Cell(constant(self._read())), cls)
        return self._alias(cls)

    @staticmethod
    def _make_subclass(kind: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
        """A ``kind`` on the same elements as ``data``, as a leaf."""
        alias = data._alias(kind)
        alias.requires_grad = require_grad
        return alias

    def as_subclass(self, cls: type[_Kind]) -> _Kind:
        """This tensor as an instance of ``cls``, on the same elements and with the same history."""
        alias = self._alias(cls)
        alias._view, alias._tangent = self._view, self._tangent
        alias._requires_grad, alias._grad_fn, alias._output_nr = (
            self.requires_grad, self._grad_fn, self._output_nr,
        )  # fmt: skip
        if alias._requires_grad and alias._grad_fn is None:
            self._make_alias_of_leaf(alias)
        return alias

    # The value

    def _read(self) -> Contents:
        """The array of this tensor's elements at present."""
        cell, view, trace = self._cell, self._view, modes.trace
        if trace is not None:
            array = trace.read(cell)
            return array if view is None else view.read(array)
        if view is None:
            return cell.array
        if view.version != cell.version or view.array is None:
            if not view.steps:
                return cell.array
            array = view.array = view.read(cell.array)
            view.version = cell.version
            if type(array) is Deferred:
                keep(view, array)
        return view.array

    def _store(self, array: Contents) -> None:
        """Replace this tensor's elements by an ``array`` of the same shape and dtype.

        A view also takes a number, or an array that broadcasts.
        """
        cell, view, part = self._cell, self._view, array
        if view is not None:
            base = cell.array if modes.trace is None else modes.trace.read(cell)
            array = view.write(base, part)
        trace = writer(cell, array)
        if trace is not None:
            trace.note(self)
            trace.write(cell, array)
            cell.version += 1
            return
        if meshes.in_use:
            array = meshes.lying_as(array, cell.array)
        cell.write(array)
        if view is not None:
            view.remember(part, cell.version)

    def _store_later(self, make: Function) -> None:
        """`_store` the array that ``make()`` gives; deferred to the first read if possible."""
        alone = self._view is None and modes.inside is None
        if alone and not (meshes.in_use and meshes.mesh_of(self._cell.array)):
            self._cell.write_later(make)
        else:
            self._store(make())

    @property
    def data(self) -> Any:
        """The same elements, outside the tape; assignment makes this tensor share the other's."""
        return self._constant(Tensor)

    @data.setter
    def data(self, other: Tensor) -> None:
        if not isinstance(other, Tensor):
            raise TypeError(f"data must be set to a Tensor, got {type(other).__name__}")
        if self._requires_grad and not (other.dtype.is_floating_point or other.dtype.is_complex):
            raise RuntimeError(
                f"data set to a {other.dtype} tensor, but this tensor requires grad: "
                "only floating point and complex tensors can"
            )
        self._become(other._cell, other._alias(Tensor)._view)
        world.bump()

    def _become(self, cell: Cell, view: View | None) -> None:
        """Rebind this tensor to ``cell`` through ``view``."""
        if modes.trace is not None:
            modes.trace.exchange(self)
        self._cell, self._view = cell, view
        # The accumulating node was made for the old shape and dtype.
        self._accumulator = None
        if self._watched:
            world.bump()

    def detach(self) -> Any:
        """The same elements as a tensor that is not part of the tape."""
        return self._constant(Tensor if modes.overrides_disabled else type(self))

    def detach_(self) -> Self:
        """Take this tensor itself off the tape."""
        if self._is_view():
            raise RuntimeError("cannot detach a view in place; use detach() instead")
        if self._view is not None and self._view.of_itself:
            self._become(self._cell, self._view.without_base())
        if modes.trace is not None:
            modes.trace.note(self)
            if self._grad_fn is None:
                modes.trace.set_flag(self)
        if self._watched:
            world.bump()
        self._grad_fn, self._output_nr, self._requires_grad = None, 0, False
        self._tangent = None
        return self

    # Shape, type, place

    @property
    def shape(self) -> Size:
        """The size of every dimension."""
        if world.tracing:
            look_at(self)
        view = self._view
        return Size(self._cell.array.shape if view is None else view.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of dimension ``dim``."""
        if dim is None:
            return self.shape
        ndim = self.ndim
        if not -max(ndim, 1) <= dim < max(ndim, 1) or ndim == 0:
            limit = max(ndim, 1)
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but "
                f"got {dim}), since the tensor has {ndim} dimensions"
            )
        return self.shape[dim]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        if world.tracing:
            look_at(self)
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
        if world.tracing:
            look_at(self)
        view = self._view
        return dtypes.from_numpy_dtype(self._cell.array.dtype if view is None else view.numpy_dtype)

    @property
    def device(self) -> devices.device:
        """The device of the elements."""
        array = self._cell.array
        if isinstance(array, Tracer):
            trace = modes.trace
            return devices.get_default_device() if trace is None else trace.place_of(self._cell)
        if is_abstract(array):
            return devices.META
        return devices.of_sharding(array.sharding)

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
        """The index of the GPU that holds the elements; -1 on the CPU and on meta."""
        device = self.device
        return -1 if device.type in ("cpu", "meta") else device.index or 0

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def element_size(self) -> int:
        """Bytes per element."""
        return self.itemsize

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

    def is_contiguous(self, memory_format: object = None) -> bool:
        """Whether the elements are contiguous in the base of this view.

        Args:
            memory_format: Ignored, since there is only one format.
        """
        view, array = self._view, self._cell.array
        return view is None or is_in_order(view, array.shape, array.dtype)

    @property
    def layout(self) -> Any:
        """Always `flambeau.strided`: tensors are dense."""
        return strided

    def stride(self, dim: int | None = None) -> Any:
        """The strides in elements that PyTorch gives this view of a contiguous tensor."""
        view, array = self._view, self._cell.array
        if view is None:
            strides = contiguous_strides(tuple(self.shape))
        else:
            strides = strides_of(view.steps, tuple(array.shape), np.dtype(array.dtype))
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        """The index of this view's first element in the base."""
        view, array = self._view, self._cell.array
        if view is None:
            return 0
        return offset_of(view, array.shape, array.dtype) // self.itemsize

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return shape[0]

    def __repr__(self, *, tensor_contents: object = None) -> str:
        is_plain = type(self) in PLAIN_TYPES
        text = format.tensor_repr(
            None if self.is_meta else self._shown_value(),
            shape=tuple(self.shape),
            dtype=str(self.dtype),
            default_dtype=str(dtypes.get_default_dtype()),
            device=None if self.device.type == "cpu" else str(self.device),
            grad_fn=None if self.grad_fn is None else self.grad_fn.name().rpartition("::")[2],
            requires_grad=self.requires_grad,
            class_prefix="tensor" if is_plain else type(self).__name__,
            tangent=None if (tangent := tangent_of(self)) is None else repr(tangent),
        )
        return f"Parameter({text})" if not is_plain and self.__dict__.get("_is_param") else text

    def _shown_value(self) -> Contents:
        array = self._cell.array
        array = array if isinstance(array, Tracer) else self._read()
        if not isinstance(array, Tracer):
            return spanning.local(array)
        if modes.trace is not None and not debugger.at_its_prompt():
            modes.trace.refuse_value()
        return None

    # Copies

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                f"protocol at the moment; this one{owner_of(self)} is the result of "
                f"{self.grad_fn.name()}: use detach() or clone(), or delete it where it is kept"
            )
        # Arrays are immutable, so two Cells can share one until either is written.
        copied = handle_on(Cell(self._read()), type(self))
        copied._requires_grad = self._requires_grad
        copied._grad_dtype = self._grad_dtype
        memo[id(self)] = copied
        if self._grad is not None:
            copied._grad = copy.deepcopy(self._grad, memo)
        vars(copied).update(copy.deepcopy(self._shown_attributes(), memo))
        return copied

    def __copy__(self) -> Self:
        """A leaf of the tape on the same elements."""
        copied = self._constant(type(self))
        copied._requires_grad = self.requires_grad
        vars(copied).update(self._shown_attributes())
        return copied

    def __reduce_ex__(self, protocol: SupportsIndex) -> Args:
        # The history is dropped: the copy is a leaf.
        if naming.reduced is not None:
            return naming.reduced(self)
        return self._rebuild, (
            type(self), *self._pickled_value(), self.requires_grad, self._shown_attributes(),
        )  # fmt: skip

    def _pickled_value(self) -> tuple[object, str]:
        """The elements as NumPy (shape and dtype on meta), and the name of the device."""
        array = self._read()
        if is_abstract(array):
            return (array.shape, self.dtype.name), "meta"
        return np.asarray(array), str(self.device)


pytree.register(Tensor)

# Classes without overridden operators, which take the dispatcher's fast path.
PLAIN_TYPES: set[type] = {Tensor}


def register_plain_type(cls: type[Tensor]) -> None:
    """Make the dispatcher treat ``cls`` exactly like `Tensor`."""
    PLAIN_TYPES.add(cls)


def method(function: Function) -> Function:
    """Attach ``function`` to Tensor under its own name."""
    setattr(Tensor, function.__name__, function)
    return function
