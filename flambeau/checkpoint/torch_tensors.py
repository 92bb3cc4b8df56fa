"""The tensors of PyTorch's files: created from a storage of bytes, sizes and strides."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from flambeau.checkpoint.elements import array_from, checked_shape, strides_of, tensor_from
from flambeau.checkpoint.errors import RefusedContentError
from flambeau.checkpoint.limits import HANDLE, TENSOR, Budget
from flambeau.checkpoint.pickled import NamedFunction, set_attributes, shown
from flambeau.checkpoint.sparse_tensors import component_names, put_together
from flambeau.core.devices.device import META, device
from flambeau.core.operators.viewing import make_view
from flambeau.core.support.dtype import FLOATING, dtype
from flambeau.core.values.convert import place
from flambeau.core.values.steps import Expand
from flambeau.core.values.tensor import Tensor
from flambeau.nn.parameter import Buffer, Parameter

__all__ = ["Deferred", "Shapes", "Storage", "Tensors"]


class Storage(NamedTuple):
    """A one-dimensional storage outside the pickle.

    Attributes:
        read: Returns some of its bytes, from a position on.
        size: Its size in bytes.
        of: The dtype of its elements; ``None`` if it is bytes.
        key: Its name.
        where: The device that its tensors are put on.
    """

    read: Callable[[int, int], bytes]
    size: int
    of: dtype | None
    key: str
    where: device


class _Form(NamedTuple):
    """The relation of a tensor to the elements of its storage.

    Attributes:
        of: Their dtype.
        offset: The first element of the tensor.
        size: Its shape.
        stride: Its strides in elements.
        flags: Operations on its elements: ``"conj"``, ``"neg"``.
    """

    of: dtype
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    flags: tuple[str, ...]

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.size)

    @property
    def span(self) -> int:
        """The number of elements from the first to the last, inclusive; 0 if there are none."""
        if not self.elements:
            return 0
        return 1 + sum((n - 1) * step for n, step in zip(self.size, self.stride, strict=True))

    @property
    def unexpanded(self) -> _Form:
        """The form without repetitions along dimensions of stride 0."""
        size = tuple(1 if n and not s else n for n, s in zip(self.size, self.stride, strict=True))
        steps = zip(size, self.stride, strides_of(size), strict=True)
        stride = tuple(whole if n <= 1 else step for n, step, whole in steps)
        return self._replace(size=size, stride=stride)


class Tensors:
    """Creates the tensors that a pickle describes; equal descriptions share one tensor.

    Args:
        budget: Counts their memory.
        order: The byte order of the storages: ``"little"`` or ``"big"``.
    """

    def __init__(self, budget: Budget, order: str = sys.byteorder) -> None:
        self.budget = budget
        self._swapped = order != sys.byteorder
        self._tensors: dict[tuple[str, _Form], Tensor] = {}
        self._last: tuple[str, bytes] | None = None
        #: The names of the storages that tensors were created from.
        self.used: set[str] = set()
        #: Replacements of the functions of ``torch._utils`` and ``torch._tensor``.
        self.answers: dict[str, Callable[..., Any]] = {
            "_rebuild_tensor": self.rebuild,
            "_rebuild_tensor_v2": self.rebuild,
            "_rebuild_tensor_v3": self.rebuild_with_dtype,
            "_rebuild_meta_tensor_no_storage": self.rebuild_meta,
            "_rebuild_parameter": self.rebuild_parameter,
            "_rebuild_parameter_with_state": self.rebuild_parameter,
            "_rebuild_from_type_v2": self.rebuild_from_type,
            "_rebuild_sparse_tensor": self.rebuild_sparse,
        }

    def rebuild(
        self,
        storage: Storage,
        offset: int,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        requires_grad: bool = False,
        hooks: Any = None,
        metadata: dict[str, Any] | None = None,
    ) -> Tensor:
        """A tensor with these sizes and strides, from a storage's element ``offset`` on."""
        if storage.of is None:
            raise RefusedContentError(f"array {storage.key!r:.80} is bytes without a dtype")
        form = _form(storage.of, offset, size, stride, {} if metadata is None else metadata)
        self.used.add(storage.key)
        return self._leaf(self._tensor(storage, form), requires_grad)

    def rebuild_with_dtype(
        self,
        storage: Storage,
        offset: int,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        requires_grad: bool,
        hooks: Any,
        of: dtype,
        metadata: dict[str, Any] | None = None,
    ) -> Tensor:
        """A tensor of a dtype, from a storage of bytes."""
        typed = storage._replace(of=_checked_dtype(of))
        return self.rebuild(typed, offset, size, stride, requires_grad, hooks, metadata)

    def rebuild_meta(
        self, of: dtype, size: tuple[int, ...], stride: Any = None, requires_grad: bool = False
    ) -> Tensor:
        """A tensor on the meta device, which has no elements."""
        self.budget.take(TENSOR)
        shape = checked_shape(size, _checked_dtype(of).itemsize)
        found = np.broadcast_to(np.zeros((), of.numpy), shape)
        return self._leaf(Tensor._wrap(place(found, META)), requires_grad)

    def rebuild_sparse(self, kind: Any, parts: Any) -> Tensor:
        """A sparse tensor of a layout, from its components."""
        self.budget.take(HANDLE)
        return put_together(kind, parts)

    def rebuild_parameter(
        self, data: Tensor, requires_grad: bool, hooks: Any, state: Any = None
    ) -> Tensor:
        """A parameter on the elements of a tensor."""
        self.budget.take(HANDLE)
        _check_gradient(data, requires_grad)
        return self._with_state(Parameter(data, requires_grad), state)

    def rebuild_from_type(
        self, function: Callable[..., Any], kind: Any, args: tuple[Any, ...], state: Any
    ) -> Tensor:
        """A tensor that another of these functions creates, with attributes."""
        if type(function) is not NamedFunction or type(args) is not tuple:
            raise TypeError("a function or arguments of the wrong type")
        found = function(*args)
        if not isinstance(found, Tensor):
            raise TypeError(f"a {type(found).__name__} is not a tensor")
        if isinstance(state, dict) and state.get("_is_buffer") is True:
            found = Buffer(found, persistent=state.get("persistent") is not False)
        return self._with_state(found, state)

    def _with_state(self, tensor: Tensor, state: Any) -> Tensor:
        """The tensor with the attributes that its owner set on it."""
        if isinstance(state, dict):
            own = {name: each for name, each in state.items() if not name.startswith("_")}
            set_attributes(tensor, own, self.budget)
        return tensor

    def _leaf(self, tensor: Tensor, requires_grad: bool) -> Tensor:
        """The tensor itself if it needs no gradient; otherwise a leaf on its elements."""
        _check_gradient(tensor, requires_grad)
        if not requires_grad:
            return tensor
        self.budget.take(HANDLE)
        return tensor.detach().requires_grad_()

    def _tensor(self, storage: Storage, form: _Form) -> Tensor:
        key = storage.key, form
        if key not in self._tensors:
            self.budget.take(TENSOR)
            base = form.unexpanded
            if base.size != form.size:
                self._tensors[key] = make_view(
                    self._tensor(storage, base), Expand(form.size), "expand"
                )
            else:
                self._tensors[key] = self._new(storage, base)
        return self._tensors[key]

    def _new(self, storage: Storage, form: _Form) -> Tensor:
        return tensor_from(_flagged(self._elements(storage, form), form), storage.where)

    def _check(self, storage: Storage, form: _Form) -> None:
        """Check that the storage holds the elements of a form."""
        of, offset, size, stride, _ = form
        length, rest = divmod(storage.size, of.itemsize)
        if rest:
            raise RefusedContentError(
                f"array {storage.key!r:.80} of {storage.size} bytes does not hold whole elements "
                f"of {of.name}"
            )
        if form.span and offset + form.span > length:
            raise RefusedContentError(
                f"a tensor of sizes {size!s:.200} and strides {stride!s:.200} from element "
                f"{offset!s:.80} reaches beyond array {storage.key!r:.80} of {length} elements"
            )

    def _elements(self, storage: Storage, form: _Form) -> np.ndarray:
        self._check(storage, form)
        of, offset, size, stride, _ = form
        self.budget.take(form.elements * of.itemsize, f"a tensor of sizes {size!s:.200}")
        if form.span == form.elements and stride == strides_of(size):
            data = storage.read(offset * of.itemsize, form.elements * of.itemsize)
            return self._in_order(array_from(data, of.numpy)).reshape(size)
        if not form.elements:
            return np.empty(size, of.numpy)
        flat = array_from(self._whole(storage), of.numpy)
        steps = [step * flat.itemsize for step in stride]
        view = np.ndarray(size, flat.dtype, flat, offset * flat.itemsize, steps)
        return self._in_order(np.ascontiguousarray(view))

    def _in_order(self, array: np.ndarray) -> np.ndarray:
        return array.byteswap() if self._swapped else array

    def _whole(self, storage: Storage) -> bytes:
        # Views of one storage usually follow each other; keeping more than one storage would take
        # the memory of the whole file.
        if self._last is None or self._last[0] != storage.key:
            self.budget.take(storage.size, f"array {storage.key!r:.80}")
            self._last = storage.key, storage.read(0, storage.size)
        return self._last[1]


class Shapes(Tensors):
    """Creates tensors without elements, of the right shapes."""

    def _new(self, storage: Storage, form: _Form) -> Tensor:
        return self.rebuild_meta(form.of, form.size)


class Deferred(Shapes):
    """Creates tensors without elements, and readers of the elements.

    Args:
        readers: Gets the tensor and its reader for the id of each new tensor's Cell. A reader takes
            a box of contiguous elements, a slice for each dimension.
        budget: Counts the memory of the tensors, and of all elements that are read.
        order: The byte order of the storages.
    """

    def __init__(self, readers: dict[int, tuple[Tensor, Any]], budget: Budget, order: str) -> None:
        super().__init__(budget, order)
        self._readers = readers

    def _new(self, storage: Storage, form: _Form) -> Tensor:
        self._check(storage, form)
        found = super()._new(storage, form)
        self._readers[id(found._cell)] = found, partial(self._box, storage, form)
        return found

    def rebuild_sparse(self, kind: Any, parts: Any) -> Any:
        """The layout and the components of a sparse tensor, by name."""
        self.budget.take(HANDLE)
        return {"layout": kind, **dict(zip(component_names(kind), parts, strict=False))}

    def _box(self, storage: Storage, form: _Form, box: tuple[slice, ...]) -> np.ndarray:
        if form.span != form.elements or form.stride != strides_of(form.size):
            return _flagged(self._elements(storage, form)[box], form)
        bounds = [each.indices(n) for each, n in zip(box, form.size, strict=True)]
        sizes = [end - begin for begin, end, _ in bounds]
        begins = zip(bounds, form.stride, strict=True)
        first = form.offset + sum(begin * step for (begin, *_), step in begins)
        count = math.prod(sizes) * form.of.itemsize
        self.budget.take(count, f"a part of array {storage.key!r:.80}")
        found = array_from(storage.read(first * form.of.itemsize, count), form.of.numpy)
        return _flagged(self._in_order(found).reshape(sizes), form)


_FLAGS = {"conj": np.conj, "neg": np.negative}


def _flagged(elements: np.ndarray, form: _Form) -> np.ndarray:
    for flag in form.flags:
        elements = _FLAGS[flag](elements)
    return elements


def _form(of: dtype, offset: int, size: Any, stride: Any, metadata: dict[str, Any]) -> _Form:
    size = checked_shape(size, of.itemsize)
    stride = checked_shape(stride, 0)
    checked_shape((offset,), 0)
    if len(size) != len(stride):
        raise RefusedContentError(
            f"a tensor cannot have sizes {size!s:.200} and strides {stride!s:.200}"
        )
    flags = tuple(flag for flag in _FLAGS if metadata.get(flag) is True)
    return _Form(of, offset, size, stride, flags)


def _checked_dtype(of: Any) -> dtype:
    if not isinstance(of, dtype):
        raise TypeError(f"a {type(of).__name__} is not a dtype")
    return of


def _check_gradient(tensor: Tensor, requires_grad: Any) -> None:
    if requires_grad is not False and (
        requires_grad is not True or tensor.dtype.category < FLOATING
    ):
        raise RefusedContentError(
            f"a tensor of dtype {tensor.dtype.name} cannot have requires_grad="
            f"{shown(requires_grad)}"
        )
