"""The registry of operators, by name: ``flambeau.ops.namespace.name``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.library.operator import Operator
from flambeau.library.schema import Schema

_operators: dict[str, Operator] = {}
# Registrations for operators that are defined later.
_waiting: dict[str, list[Callable[[Operator], Any]]] = {}


def add(schema: Schema) -> Operator:
    """Define an operator, replacing one of the same name.

    Raises:
        ValueError: The name has no namespace.
    """
    namespace, _, name = schema.name.partition("::")
    if not namespace or not name:
        raise ValueError(
            f"an operator's name is namespace::name, such as 'mylib::add'; got {schema.name!r}"
        )
    operator = _operators[schema.name] = Operator(schema)
    for register in _waiting.pop(schema.name, ()):
        register(operator)
    return operator


def remove(name: str) -> None:
    """Remove an operator."""
    _operators.pop(name, None)


def find(op: Any) -> Operator:
    """The operator for a name; operators are returned unchanged.

    Raises:
        RuntimeError: There is no such operator.
    """
    if isinstance(op, Operator):
        return op
    found = _operators.get(str(op).removesuffix(".default"))
    if found is None:
        raise RuntimeError(f"operator {op} does not exist")
    return found


def when_defined(op: Any, register: Callable[[Operator], Any]) -> None:
    """Call ``register`` with an operator, now or when it is defined."""
    if isinstance(op, Operator) or op in _operators:
        register(find(op))
    else:
        _waiting.setdefault(str(op), []).append(register)


class Namespace:
    """A namespace with its operators as attributes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        whole = f"{self.name}::{name}"
        overloads = {
            each.removeprefix(f"{whole}."): operator
            for each, operator in _operators.items()
            if each.startswith(f"{whole}.")
        }
        if overloads:
            default = {"default": _operators[whole]} if whole in _operators else {}
            return Packet(whole, default | overloads)
        if whole not in _operators:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        return _operators[whole]

    def __dir__(self) -> list[str]:
        lead = f"{self.name}::"
        known = [name.removeprefix(lead) for name in _operators if name.startswith(lead)]
        return sorted({name.partition(".")[0] for name in known})


class Packet:
    """An operator with its overloads, such as ``ops.mine.double.out``, as attributes.

    Args:
        name: ``namespace::name``.
        overloads: The operators by overload name.
    """

    def __init__(self, name: str, overloads: dict[str, Operator]) -> None:
        self._qualname = name
        self._overloads = overloads
        self.__name__ = name.partition("::")[2]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the first overload that accepts the arguments.

        Raises:
            RuntimeError: No overload accepts the arguments.
        """
        reasons = []
        for operator in self._overloads.values():
            try:
                operator._schema.bind(args, kwargs)
            except RuntimeError as error:
                reasons.append(str(error))
            else:
                return operator(*args, **kwargs)
        raise RuntimeError(
            f"{self._qualname}() has no overload for these arguments:\n" + "\n".join(reasons)
        )

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__.get("_overloads", {}).get(name)
        if found is None:
            raise AttributeError(
                f"the operator '{self.__dict__.get('_qualname')}' has no overload '{name}'"
            )
        return found

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return list(self._overloads)


def namespace(name: str) -> Any:
    """The namespace of a name, or None if it has no operators."""
    if name == "aten":
        from flambeau.library.aten import Aten

        return Aten()
    known = {each.partition("::")[0] for each in _operators}
    return Namespace(name) if name in known else None
