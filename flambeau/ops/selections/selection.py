"""A Selection: the result of ``x[mask]`` in a compiled program, with unknown length.

XLA's shapes are fixed, so the elements stay in their *lanes*, together with the mask of selected
lanes. Operators compute all lanes; results outside the lanes (a sum, a loss, a write) are computed
from the selected ones. Two rules make every value and every gradient equal to eager mode:

- values that *enter* lanes pass through a ``where``, so unselected lanes send no gradient back, not
  even the NaN of zero times infinity;
- values that *leave* lanes pass through a ``where`` too, which puts a neutral element (0 for a sum)
  into the unselected lanes and sends zeros back to them.

In between, operators that treat each lane separately need nothing. `flambeau.ops.selections.rules`
lists how each operator treats lanes; an operator that is not listed is refused.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from jax.core import Tracer

from flambeau.core.support.higher import higher
from flambeau.core.support.jax_core import computes_the_same
from flambeau.core.support.modes import modes
from flambeau.core.values.attributes import WithoutFields
from flambeau.core.values.tensor import Size, Tensor
from flambeau.core.values.trace import AskedCountError
from flambeau.ops.elementwise.selection import where
from flambeau.ops.factories.ranges import arange

__all__: list[str] = []

_KEEP_THE_SHAPE = (
    "flambeau.where(mask, x, 0), which keeps the shape, with sums over the mask; for a loss, "
    "reduction='none' and then (loss * mask).sum() / mask.sum()"
)


class Selection(WithoutFields, Tensor):
    """Some lanes of a tensor, in order; see the module docstring.

    Attributes:
        lanes: A plain tensor with every lane.
        mask: The mask of selected lanes, a vector of bools.
        hidden: The dimension of ``lanes`` along which the lanes lie, with unknown length.
        line: The user's line that created it.
        coordinate: For the result of `nonzero`: the array of its mask, and the dimension of the
            mask that the indices belong to.
    """

    lanes: Tensor
    mask: Any
    hidden: int
    line: str
    coordinate: tuple[Any, int] | None

    # A trace is notified of attributes set on tensors from outside; no Selection is from outside.
    if not TYPE_CHECKING:
        __setattr__ = object.__setattr__

    @staticmethod
    def of(lanes: Tensor, mask: Tensor, hidden: int, line: str) -> Selection:
        """The lanes of ``lanes`` where ``mask`` is true.

        Raises:
            TracedValueError: ``lanes`` is a Selection itself.
        """
        if isinstance(lanes, Selection):
            lanes.refuse("the elements of a selection are looked for")
        new = object.__new__(Selection)
        new.lanes, new.mask, new.hidden, new.line = lanes, mask, hidden, line
        new.coordinate = None
        return new

    def like(self, lanes: Tensor, hidden: int | None = None) -> Selection:
        """The same lanes of another tensor."""
        hidden = self.hidden if hidden is None else hidden
        return Selection.of(lanes, self.mask, hidden, self.line)

    @property
    def depth(self) -> int:
        """The hidden dimension counted from the last, as for broadcasting: 1 is the last."""
        return self.lanes.ndim - self.hidden

    def is_as_long_as(self, other: Selection) -> bool:
        """Whether both were selected by the same mask, as far as the program shows."""
        return computes_the_same(self.mask._read(), other.mask._read())

    def count(self) -> Tensor:
        """The number of selected lanes, as a 0-d tensor."""
        return self.mask.sum()

    def broadcastable_mask(self) -> Tensor:
        """The mask in a shape that broadcasts over the lanes."""
        return broadcastable(self.mask, self.depth)

    def filled(self, neutral: Any) -> Tensor:
        """The lanes with unselected ones replaced by ``neutral``."""
        return where(self.broadcastable_mask(), self.lanes, neutral)

    @classmethod
    def __torch_function__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Compute ``func`` on lanes by its rule."""
        return higher("flambeau.ops.selections.rules.run")(func, args, kwargs or {})

    # Known facts

    @property
    def shape(self) -> Size:
        """The size of every dimension; the hidden one's can only be passed on."""
        sizes: list[Any] = list(self.lanes.shape)
        sizes[self.hidden] = HiddenLength(self)
        return Size(sizes)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of dimension ``dim``."""
        return self.shape if dim is None else self.shape[dim]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.lanes.ndim

    def dim(self) -> int:
        """The number of dimensions."""
        return self.lanes.ndim

    ndimension = dim

    def numel(self) -> int:
        """Raise an error: the number of elements is unknown."""
        self.refuse_length()

    nelement = numel

    def __len__(self) -> int:
        if not self.hidden:
            self.refuse_length()
        return self.lanes.shape[0]

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.lanes.dtype

    @property
    def device(self) -> Any:
        """The device of the elements."""
        return self.lanes.device

    @property
    def is_meta(self) -> bool:
        """Always false: the meta device has no masks to select with."""
        return False

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor."""
        return self.lanes.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.refuse("a leaf of the tape cannot have a hidden length")

    @property
    def grad_fn(self) -> Any:
        """The node that made the lanes."""
        return self.lanes.grad_fn

    @property
    def data(self) -> Any:
        """The same elements, outside the tape."""
        return self.like(self.lanes.detach())

    @data.setter
    def data(self, other: Tensor) -> None:
        self.refuse("data is set")

    def contiguous(self, memory_format: Any = None) -> Any:
        """This tensor."""
        return self

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        sizes = ["?" if i == self.hidden else str(n) for i, n in enumerate(self.lanes.shape)]
        return f"tensor(..., size=({', '.join(sizes)}), dtype={self.dtype})"

    # Unknown properties

    @property
    def _cell(self) -> Any:  # type: ignore[override]
        # Code that reads the Cell expects a tensor with all of its elements.
        self.refuse(
            "a selection is returned, kept or given to an operator that needs to know its shape",
            "return and compute with flambeau.where(mask, x, 0), which keeps the shape, and the "
            "mask, or with what the selection is reduced to",
        )

    _view = _cell  # type: ignore[assignment]

    def refuse_length(self) -> NoReturn:
        """Fail if the length is requested."""
        self.refuse(
            "the number of its elements is asked for in Python",
            "count with mask.sum(), which is a tensor",
        )

    def refuse(self, fact: str, instead: str | None = None) -> NoReturn:
        """Fail, naming the line that created the selection.

        Args:
            fact: The impossible operation.
            instead: The advice; by default, to keep the shape.

        Raises:
            TracedValueError: Always.
        """
        error = AskedCountError(
            f"{fact}. A mask picks as many elements as it has True values, and that is not known "
            f"while a program is being compiled; the elements were selected at {self.line}. "
            f"Instead, {instead or f'use {_KEEP_THE_SHAPE}'}; or move this line out of the "
            "compiled function"
        )
        error.line = self.line
        raise error


class HiddenLength:
    """The length of a Selection in `shape`: equal to itself, but no number."""

    def __init__(self, of: Selection) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        if not (isinstance(other, HiddenLength) and self.of.is_as_long_as(other.of)):
            self.of.refuse(
                f"the length of a selection is compared with {other!r}",
                "select everything that is to be of one length by one mask",
            )
        return True

    def _refuse(self, *others: Any) -> NoReturn:
        self.of.refuse_length()

    if not TYPE_CHECKING:
        __hash__ = __index__ = __int__ = __float__ = __bool__ = __str__ = __format__ = _refuse
        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse
        __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = _refuse
        __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __repr__(self) -> str:
        return "?"


def broadcastable(mask: Tensor, depth: int) -> Tensor:
    """A vector of bools in a shape that broadcasts over dimension ``-depth``."""
    return mask if depth == 1 else mask.reshape(-1, *(1,) * (depth - 1))


def is_selected_by(index: Any) -> bool:
    """Whether reading by an index array gives a `Selection`: a mask known only to a trace."""
    return modes.trace is not None and isinstance(index, Tracer) and index.dtype == np.bool_


def select(source: Tensor, dim: int, mask: Any) -> Selection:
    """The part of ``source`` where ``mask`` is true.

    Args:
        source: Any tensor.
        dim: The first of the dimensions that the mask covers.
        mask: A traced array of bools.
    """
    shape = tuple(source.shape)
    flat = Tensor._wrap(mask).reshape(-1)
    rest = shape[dim + mask.ndim :]
    lanes = source.reshape(*shape[:dim], mask.size, *rest)
    return entered(lanes, flat, dim, users_line())


def entered(lanes: Tensor, mask: Tensor, hidden: int, line: str) -> Selection:
    """A Selection of lanes of shared tensors: only selected lanes send gradients back."""
    harmless = 1 if lanes.is_floating_point() or lanes.is_complex() else 0
    fill = False if lanes.dtype.name == "bool" else harmless
    inside = where(broadcastable(mask, lanes.ndim - hidden), lanes, fill)
    return Selection.of(inside, mask, hidden, line)


def coordinates(mask: Any) -> tuple[Selection, ...]:
    """The indices where a traced mask is true: one vector for each dimension."""
    shape = mask.shape
    flat, line = Tensor._wrap(mask).reshape(-1), users_line()
    lane = arange(mask.size)
    found = []
    for dim, size in enumerate(shape):
        behind = int(np.prod(shape[dim + 1 :], dtype=np.int64))
        new = Selection.of((lane // max(behind, 1)) % max(size, 1), flat, 0, line)
        new.coordinate = (mask, dim)
        found.append(new)
    return tuple(found)


def users_line() -> str:
    """The innermost line on the stack that is neither flambeau's nor JAX's."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in ("flambeau", "jax"):
            break
        frame = frame.f_back
    code = frame.f_code
    text = linecache.getline(code.co_filename, frame.f_lineno).strip()
    return f"{code.co_filename}, line {frame.f_lineno}, in {code.co_name}{text and f': {text}'}"
