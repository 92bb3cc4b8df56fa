"""Names of PyTorch's nested tensors, of which there are none: sequences are padded."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau._absent import Absent as _Absent

__all__ = [
    "as_nested_tensor", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)


def nested_tensor(
    tensor_list: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> NoReturn:  # fmt: skip
    """Refuse to make a nested tensor.

    Raises:
        NotImplementedError: Always.
    """
    _refuse("nested_tensor")


def as_nested_tensor(
    ts: Any, dtype: Any = None, device: Any = None, layout: Any = None
) -> NoReturn:
    """Refuse to make a nested tensor.

    Raises:
        NotImplementedError: Always.
    """
    _refuse("as_nested_tensor")


def nested_tensor_from_jagged(
    values: Any, offsets: Any = None, lengths: Any = None, jagged_dim: int | None = None,
    min_seqlen: int | None = None, max_seqlen: int | None = None,
) -> NoReturn:  # fmt: skip
    """Refuse to make a nested tensor.

    Raises:
        NotImplementedError: Always.
    """
    _refuse("nested_tensor_from_jagged")


def narrow(tensor: Any, dim: int, start: Any, length: Any, layout: Any = None) -> NoReturn:
    """Refuse to make a nested tensor.

    Raises:
        NotImplementedError: Always.
    """
    _refuse("narrow")


def to_padded_tensor(input: Any, padding: float, output_size: Any = None) -> NoReturn:
    """Refuse: nothing is a nested tensor.

    Raises:
        NotImplementedError: Always.
    """
    _refuse("to_padded_tensor")


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"nested.{name}(): there are no nested tensors; pad sequences of several lengths with "
        "flambeau.nn.utils.rnn.pad_sequence, and mask what was added"
    )
