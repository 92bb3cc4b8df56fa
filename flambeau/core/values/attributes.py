"""The fields of a tensor, and the attributes that users set on it."""

from __future__ import annotations

import sys
from typing import Any, TypeVar

from flambeau.core.support.modes import modes
from flambeau.core.types import Cell, Kwargs, Tensor
from flambeau.core.values.tensor_class import is_own_frame

_Kind = TypeVar("_Kind", bound=Tensor)

__all__: list[str] = []

#: The `grad_dtype` of tensors for which none was set.
SAME_DTYPE: Any = object()

#: The fields of a tensor except its Cell, for a leaf that requires no gradient and is not a view.
_DEFAULTS: Kwargs = {
    "_view": None,
    "_requires_grad": False,
    "_grad_fn": None,
    "_output_nr": 0,
    "_grad": None,
    "_grad_dtype": SAME_DTYPE,
    "_rebased": 0,
    "_hooks": None,
    "_post_accumulate_hooks": None,
    "_accumulator": None,
    "_watched": False,
    "_inference": False,
    "_tangent": None,
}

#: The names of a tensor's own fields.
OWN_FIELDS = frozenset(("_cell", *_DEFAULTS))


class _Fields:
    """Keeps the fields in slots, so that the dictionary holds only the user's attributes."""

    __slots__ = ("__dict__", "__weakref__", "_cell", *_DEFAULTS)


_dictionary = vars(_Fields)["__dict__"]


def handle_on(cell: Cell, cls: type[_Kind]) -> _Kind:
    """A tensor of class ``cls`` on ``cell``: a leaf that requires no gradient, and no view."""
    tensor = object.__new__(cls)
    tensor._cell = cell
    # One by one, since a loop over the defaults takes five times as long.
    tensor._view = None
    tensor._requires_grad = False
    tensor._grad_fn = None
    tensor._output_nr = 0
    tensor._grad = None
    tensor._grad_dtype = SAME_DTYPE
    tensor._rebased = 0
    tensor._hooks = None
    tensor._post_accumulate_hooks = None
    tensor._accumulator = None
    tensor._watched = False
    tensor._inference = False
    tensor._tangent = None
    return tensor


class WithoutFields:
    """Keeps the defaults on the class, for kinds of tensors that are not a handle on one Cell."""

    vars().update(_DEFAULTS)


def dictionary_of(tensor: object) -> Kwargs:
    """The attributes that the user has set on ``tensor``, read without telling a trace."""
    return _dictionary.__get__(tensor)


class Attributes(_Fields):
    """The part of Tensor that tells a trace when code reads all attributes."""

    def _get_dictionary(self) -> Kwargs:
        if modes.trace is not None and not is_own_frame(sys._getframe(1)):
            modes.trace.show_attributes(self)
        return _dictionary.__get__(self)

    def _set_dictionary(self, value: Kwargs) -> None:
        if modes.trace is not None:
            modes.trace.touch_attributes(self)
        _dictionary.__set__(self, value)

    __dict__: Any = property(_get_dictionary, _set_dictionary)

    def _copy_fields(self, other: Tensor) -> None:
        """Take all fields of ``other``, except attributes that users have set."""
        for name in OWN_FIELDS:
            setattr(self, name, getattr(other, name))

    def _user_attributes(self) -> Kwargs:
        """A copy of the attributes that the user has set on this tensor."""
        return dict(_dictionary.__get__(self))

    def _shown_attributes(self) -> Kwargs:
        """The user's attributes for a copy of the tensor; a compiled function may ask for them."""
        if modes.trace is not None:
            modes.trace.show_attributes(self)
        return self._user_attributes()
