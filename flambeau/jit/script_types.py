"""TorchScript's types, for annotations and ``isinstance``; nothing here is an instance of one."""

from __future__ import annotations

__all__ = [
    "AnyType", "BoolType", "ClassType", "ComplexType", "DeviceObjType", "DictType", "EnumType",
    "FloatType", "FutureType", "IntType", "InterfaceType", "ListType", "NoneType", "NumberType",
    "OptionalType", "StringType", "TensorType", "TupleType", "Type", "UnionType",
]  # fmt: skip


class Type:
    """The base of TorchScript's types."""

    def __init_subclass__(cls) -> None:
        cls.__doc__ = f"TorchScript's {cls.__name__}; nothing here is an instance."


class AnyType(Type): ...


class BoolType(Type): ...


class ClassType(Type): ...


class ComplexType(Type): ...


class DeviceObjType(Type): ...


class DictType(Type): ...


class EnumType(Type): ...


class FloatType(Type): ...


class FutureType(Type): ...


class IntType(Type): ...


class InterfaceType(Type): ...


class ListType(Type): ...


class NoneType(Type): ...


class NumberType(Type): ...


class OptionalType(Type): ...


class StringType(Type): ...


class TensorType(Type): ...


class TupleType(Type): ...


class UnionType(Type): ...
