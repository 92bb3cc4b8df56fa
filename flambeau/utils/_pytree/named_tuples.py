"""Named tuples: Python's own, and those of code written in C."""

from __future__ import annotations

from typing import Any

__all__ = [
    "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance", "is_structseq",
    "is_structseq_class", "is_structseq_instance",
]  # fmt: skip


def is_namedtuple_class(cls: type) -> bool:
    """Whether ``cls`` is a class of named tuples."""
    if not (isinstance(cls, type) and issubclass(cls, tuple)):
        return False
    fields = getattr(cls, "_fields", None)
    return (
        type(fields) is tuple
        and all(type(each) is str for each in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Whether ``obj`` is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object | type) -> bool:
    """Whether ``obj`` is a named tuple, or a class of named tuples."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: type) -> bool:
    """Whether ``cls`` is a class such as `time.struct_time`: named tuples of code written in C."""
    counts = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(getattr(cls, name, None), int) for name in counts)
    )


def is_structseq_instance(obj: object) -> bool:
    """Whether ``obj`` is an instance of a class like `time.struct_time`."""
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    """Whether ``obj`` is a class like `time.struct_time`, or an instance of one."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))
