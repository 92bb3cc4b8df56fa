"""Where operators are found by their names: ``flambeau.ops.namespace.name``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.library.operator import Operator
from flambeau.library.schema import Schema

_operators: dict[str, Operator] = {}
# Registrations for operators that are not defined yet.
_waiting: dict[str, list[Callable[[Operator], Any]]] = {}


def add(schema: Schema) -> Operator:
    """Define an operator, in the place of one of the same name.

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
    """Forget an operator."""
    _operators.pop(name, None)


def find(op: Any) -> Operator:
    """The operator that a name, or the operator itself, stands for.

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
    """Call ``register`` with an operator, now or as soon as it is defined."""
    if isinstance(op, Operator) or op in _operators:
        register(find(op))
    else:
        _waiting.setdefault(str(op), []).append(register)


class Namespace:
    """The operators of one namespace, as attributes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        found = _operators.get(f"{self.name}::{name}")
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        return found

    def __dir__(self) -> list[str]:
        lead = f"{self.name}::"
        return [name.removeprefix(lead) for name in _operators if name.startswith(lead)]


def namespace(name: str) -> Any:
    """The namespace of a name; None if it has no operators."""
    if name == "aten":
        from flambeau.library.aten import Aten

        return Aten()
    known = {each.partition("::")[0] for each in _operators}
    return Namespace(name) if name in known else None
