"""What users set on tensors, and who asks for all of it."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from flambeau.core.modes import modes
from flambeau.core.tensor_class import is_own_frame

__all__: list[str] = []


class _Holder:
    """Gives tensors their dictionary."""


_dictionary = vars(_Holder)["__dict__"]


class Attributes(_Holder):
    """The part of Tensor that lets a trace know when somebody asks for all attributes."""

    def _get_dictionary(self) -> dict[str, Any]:
        if modes.trace is not None and not is_own_frame(sys._getframe(1)):
            modes.trace.show_attributes(self)
        return _dictionary.__get__(self)

    def _set_dictionary(self, value: dict[str, Any]) -> None:
        _dictionary.__set__(self, value)

    __dict__: Any = property(_get_dictionary, _set_dictionary)

    # The names of what is not the user's.
    _own_attributes: ClassVar[frozenset[str]] = frozenset()

    def _user_attributes(self) -> dict[str, Any]:
        """What the user has set on this tensor."""
        own = self._own_attributes
        return {name: value for name, value in vars(self).items() if name not in own}

    def _shown_attributes(self) -> dict[str, Any]:
        """The same for copies, which a compiled function may ask for."""
        if modes.trace is not None:
            modes.trace.show_attributes(self)
        return self._user_attributes()
