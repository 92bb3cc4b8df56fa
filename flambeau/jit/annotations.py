"""Types of TorchScript's annotations, which have no effect here."""

from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035

__all__ = [
    "Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "BroadcastingList4",
    "BroadcastingList5", "BroadcastingList6", "Dict", "Final", "List", "Optional", "Tuple", "Union",
]  # fmt: skip


class BroadcastingList:
    """A number, or a list of numbers, in an annotation such as ``BroadcastingList2[int]``."""

    def __class_getitem__(cls, item: Any) -> Any:
        return item | list[item] if isinstance(item, type) else Any


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingList
