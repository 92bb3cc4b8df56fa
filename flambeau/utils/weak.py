"""Dictionaries with weak keys that are compared by identity."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

__all__ = ["WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to others of the same object, and to nothing else.

    >>> import flambeau
    >>> from flambeau.utils.weak import WeakIdRef
    >>> x = flambeau.ones(2)
    >>> WeakIdRef(x) == WeakIdRef(x), WeakIdRef(x) == WeakIdRef(flambeau.ones(2))
    (True, False)
    """

    __slots__ = ("_id",)

    _id: int

    def __new__(cls, key: Any, callback: Any = None) -> WeakIdRef:
        self = super().__new__(cls, key, callback)
        self._id = id(key)
        return self

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        key = self()
        if key is not None and isinstance(other, weakref.ref):
            return key is other()
        return self is other


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary that drops an entry once nothing else refers to its key.

    Keys are compared by identity, so tensors can be keys.

    Args:
        dict: The first entries.
        ref_type: The class of the references to keys.

    >>> import flambeau
    >>> from flambeau.utils.weak import WeakIdKeyDictionary
    >>> x = flambeau.ones(2)
    >>> known = WeakIdKeyDictionary({x: "ones"})
    >>> known[x], flambeau.ones(2) in known
    ('ones', False)
    >>> del x
    >>> len(known)
    0
    """

    def __init__(
        self, dict: Mapping[Any, Any] | None = None, ref_type: type[weakref.ref] = WeakIdRef
    ) -> None:
        self.ref_type = ref_type
        self.data: Any = {}
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        own = weakref.ref(self)

        def dropped(reference: Any) -> None:
            found = own()
            if found is not None:
                found.data.pop(reference, None)

        self.data[self.ref_type(key, dropped)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary
