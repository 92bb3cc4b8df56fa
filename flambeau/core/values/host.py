"""A tensor's elements for Python and other libraries: NumPy, JAX, DLPack, numbers, text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, cast

import jax
import numpy as np
from jax.core import Tracer

from flambeau.core.devices import spanning
from flambeau.core.fusion.stream import boundary
from flambeau.core.programs.deferred import computed
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.modes import modes
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.types import Cell, Contents, DTypeLike, Function, Size, View
from flambeau.core.values.cell import is_abstract
from flambeau.core.values.memory import address_of, lent, pointer
from flambeau.core.values.strides import is_in_order, offset_of
from flambeau.core.values.tracers import check_alive

# A program compares the values that it relies on at each call: at most this many elements of one
# tensor.
MOST_ASKED = 4096


class HostAccess:
    """The part of Tensor's interface that gives access to its elements."""

    if TYPE_CHECKING:
        # Supplied by the rest of the Tensor.
        _cell: Cell
        _view: View | None

        @property
        def shape(self) -> Size: ...
        @property
        def dtype(self) -> Any: ...
        @property
        def device(self) -> Any: ...
        @property
        def requires_grad(self) -> bool: ...
        @property
        def is_meta(self) -> bool: ...
        @property
        def ndim(self) -> int: ...
        def _read(self) -> Contents: ...
        def numel(self) -> int: ...

    @trimmed
    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The elements as a NumPy array that shares them: a write to one shows in the other.

        The elements are copied when they are first shared. While the array is alive, each read of
        the tensor compares them, and each write copies them; `numpy().copy()` avoids that. The
        array is a read-only snapshot if the elements are divided over devices, or if the tensor is
        a view that has no strides (``x.t().view(-1)``).

        Args:
            force: Detach first, and copy from another device, where PyTorch would refuse.

        Raises:
            RuntimeError: The tensor requires grad, without ``force`` and `no_grad`.
            TypeError: The tensor is on another device than the CPU and ``force`` is not set.
        """
        if not force:
            self._check_numpy()
        if modes.trace is None:
            boundary()
            shared = lent(self._cell, self._view)
            if shared is not None:
                return shared
        array = self._host_array()
        return array if self.device.type == "cpu" else array.copy()

    def _check_numpy(self) -> None:
        if modes.grad_enabled and self.requires_grad:
            raise RuntimeError(
                "cannot convert a tensor that requires grad to NumPy; "
                "use tensor.detach().numpy() or tensor.numpy(force=True)"
            )
        if self.is_meta:
            raise TypeError(
                f"a tensor of shape {list(self.shape)} on the meta device has no elements to "
                "convert to NumPy; use materialize() or to_empty() first"
            )
        if self.device.type != "cpu":
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy; use tensor.cpu() first"
            )

    def _host_array(self, is_question: bool = False) -> np.ndarray:
        """The elements as a NumPy array.

        Args:
            is_question: Whether `modes.asking` was asked for them.
        """
        array = self.jax()
        if modes.trace is not None:
            array = modes.trace.as_input(self._cell, array)
        if isinstance(array, Tracer):
            if modes.trace is not None:
                modes.trace.refuse_value(is_question)
            check_alive(array)
        return spanning.elements(array)

    def is_shared(self) -> bool:
        """Always false: see `share_memory_`."""
        return False

    def share_memory_(self) -> NoReturn:
        """Raise an error: the arrays beneath tensors are immutable and cannot be shared.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "tensors cannot be shared between processes: they hold arrays that never "
            "change. Send a state dict to the other process, or train over several devices with "
            "JAX's sharding"
        )

    def record_stream(self, stream: object) -> None:
        """Do nothing: JAX keeps an array for as long as a program reads it."""

    def data_ptr(self) -> int:
        """The address of the elements at present; 0 if there are none, as on the meta device.

        A view of contiguous elements has the address of its first one; any other view has an
        address of its own. Tensors that share no elements never have the same address.
        """
        if modes.trace is not None:
            modes.trace.refuse_value()
        cell, view = self._cell, self._view
        array = cell.array
        if isinstance(array, Tracer) or view is None:
            return address_of(cell)
        if is_in_order(view, array.shape, array.dtype) and not is_abstract(array):
            return address_of(cell) + offset_of(view, array.shape, array.dtype)
        return pointer(self._read())

    def jax(self) -> jax.Array:
        """The elements as a `jax.Array`, without a copy."""
        boundary()
        array = computed(self._read())
        if is_abstract(array):
            raise NotImplementedError("a tensor on the meta device has no elements to read")
        return array

    __jax_array__ = jax

    @trimmed
    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if copy:
            self._check_numpy()
            return np.array(self._host_array(), dtype)
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(self, **options: object) -> Any:
        if self.requires_grad:
            raise RuntimeError("cannot export a tensor that requires grad; use detach() first")
        return self.jax().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, ...]:
        array: Any = self.jax()
        return array.__dlpack_device__()

    def _scalar(self, kind: Function | None = None) -> Any:
        """The only element, as a NumPy scalar; of type ``kind`` if one is given."""
        boundary()
        array = computed(self._read())
        if modes.trace is not None:
            array = modes.trace.as_input(self._cell, array)
        if modes.asking is not None:
            return modes.asking.value(array, lambda: self._known_scalar(array, kind))
        return self._known_scalar(array, kind)

    def _known_scalar(self, array: jax.Array, kind: Function | None) -> Any:
        found = self._found_scalar(array)
        return found if kind is None else kind(found)

    def _found_scalar(self, array: jax.Array) -> Any:
        if array.size != 1:
            raise RuntimeError(
                f"a Tensor with {array.size} elements cannot be converted to Scalar; use tolist()"
            )
        if isinstance(array, Tracer):
            return _known_value(array)
        if is_abstract(array):
            raise RuntimeError(
                "a tensor on the meta device has no elements; item() cannot read one"
            )
        return spanning.elements(array).reshape(())[()]

    @trimmed
    def item(self) -> Any:
        """The only element as a Python number.

        Raises:
            RuntimeError: There is more than one element, or none.
        """
        return self._scalar().item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers, or one number for a 0-d tensor."""
        if modes.asking is None or self.numel() > MOST_ASKED:
            return self._host_array().tolist()
        array = self.jax()
        if modes.trace is not None:
            array = modes.trace.as_input(self._cell, array)
        return modes.asking.value(array, lambda: self._host_array(is_question=True)).tolist()

    @trimmed
    def __bool__(self) -> bool:
        if self.numel() != 1:
            count = "more than one value" if self.numel() else "no values"
            raise RuntimeError(
                f"Boolean value of Tensor with {count} is ambiguous: this one has shape "
                f"{list(self.shape)}; use any() or all()"
            )
        return bool(self._scalar(np.bool_))

    def __int__(self) -> int:
        return int(self._real("int"))

    def __float__(self) -> float:
        return float(self._real("float"))

    def __complex__(self) -> complex:
        return complex(self._only("complex"))

    def _real(self, kind: str) -> Any:
        found = self._only(kind)
        if isinstance(found, complex):
            if found.imag:
                raise RuntimeError(
                    f"{kind}(): {found} has an imaginary part, which would be lost; use .real"
                )
            return found.real
        return found

    def _only(self, kind: str) -> Any:
        """The only element as a Python number, for Python's constructors."""
        if self.numel() != 1:
            raise ValueError(
                f"{kind}() takes a tensor of one element, got shape {list(self.shape)}; "
                "tolist() gives several"
            )
        return self.item()

    def __index__(self) -> int:
        if self.dtype.category > dtypes.INTEGER or self.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._scalar())

    def __format__(self, spec: str) -> str:
        if self.ndim == 0 and not self.is_meta:
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    # By identity, although `==` compares elements: Python's own hash is several times faster than
    # any method, and walks through modules and optimizers hash each parameter.
    if TYPE_CHECKING:

        def __hash__(self) -> int: ...

    else:
        __hash__ = object.__hash__

    def __iter__(self) -> Iterator[Any]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(cast(Any, self).unbind(0))

    def __contains__(self, element: Any) -> bool:
        return bool((self == element).any())

    def __reversed__(self) -> Any:
        return self if self.ndim == 0 else cast(Any, self).flip(0)


def _known_value(tracer: Tracer) -> Any:
    """The value of a scalar under a transformation, if it is known.

    Raises:
        RuntimeError: The transformation does not know it, as under vmap and compile.
    """
    if modes.trace is not None:
        modes.trace.refuse_value(is_question=True)
    check_alive(tracer)
    try:
        return np.asarray(tracer.reshape(()).item(), tracer.dtype)[()]
    except jax.errors.ConcretizationTypeError:
        raise RuntimeError(
            "the value of a tensor is not known inside vmap or jit: item(), int(), float(), "
            "`if tensor:` and `while tensor:` cannot be used there. Use flambeau.where for a "
            "choice, or compute with the tensor itself"
        ) from None
