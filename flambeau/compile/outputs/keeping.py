"""The values that a function stores and returns, as lines of Python that create them at each call.

Names in the lines stand for values that are not created: tensors, which are results of the program,
and objects from outside. Containers, and objects that consist of their attributes, are created at
each call. Any other object that the function creates would be one and the same at each call, so the
function is no program.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, NoReturn

import numpy as np

from flambeau.compile.errors import CompileError, NotYetMadeError
from flambeau.compile.guarding import structure
from flambeau.compile.guarding.numbers import TracedNumbers
from flambeau.compile.ownership import attributes_of, in_class, is_own, state_of
from flambeau.compile.reading.chance import Refusing
from flambeau.compile.reading.reaching import reaches_trace
from flambeau.compile.source import Page
from flambeau.core.devices.device import device
from flambeau.core.operators.number import Number
from flambeau.core.support.dtype import dtype
from flambeau.core.support.identity import MISSING
from flambeau.core.values.pytree import OWN_PARTS, is_tuple
from flambeau.core.values.tensor import Tensor

_PLAIN = {int, float, bool, complex, str, bytes, type(None)}
# Objects of these classes never change.
_CONSTANT = (ModuleType, Enum, range, np.dtype, np.generic, dtype, device)
_BRACKETS = {list: "[]", tuple: "()", dict: "{}"}


class Keeping:
    """The values that a program stores and returns at each call.

    In the lines, ``t0``, ``t1``... are results of the program, and ``leaves`` the leaves of the
    arguments.

    Args:
        keep: Makes a tensor a result of the program; returns its number.
        is_outside: Whether an object existed before the trace.
        knows_all: Whether it knows all such objects.
        leaves: The leaves of the arguments, as the trace saw them.
        numbers: The numbers of the trace.
        page: The page with all other objects that the lines name.

    Attributes:
        looking: Expressions that are evaluated before anything is overwritten, by their names.
        making: The lines that create containers and objects.
        setting: The lines that set slots.
        returned: The expression for the result of the function.
    """

    def __init__(
        self,
        keep: Callable[[Tensor], int],
        is_outside: Callable[[Any], bool],
        knows_all: bool,
        leaves: Iterable[Any],
        numbers: TracedNumbers,
        page: Page,
    ) -> None:
        self._keep, self._is_outside, self._page = keep, is_outside, page
        self._numbers, self._knows_all = numbers, knows_all
        self._arguments = {id(each): i for i, each in enumerate(leaves)}
        self.looking: dict[str, str] = {}
        self.making: list[str] = []
        self.setting: list[str] = []
        self.returned: str = "None"
        # The names of objects by their ids, and the objects, held so that the ids stay theirs.
        self._names: dict[int, str] = {}
        self._held: list[Any] = []
        # The ids of the containers that are being written.
        self._open: set[int] = set()

    def store(self, slot: Any, value: Any, before: Any) -> None:
        """Set ``slot`` to ``value`` at each call; the trace found ``before`` there.

        Raises:
            CompileError: It is an object that calls cannot create; a `NotYetMadeError` where
                nothing was before, since a first call may create it for later ones.
        """
        kind = NotYetMadeError if before is None or before is MISSING else CompileError
        self.setting.append(slot.setting(self._page, self._write(value, slot, kind)))

    def give(self, value: Any) -> None:
        """Return ``value`` at each call; errors as for `store`."""
        self.returned = self._write(value, "its result", CompileError)

    def _write(self, value: Any, where: Any, kind: type[CompileError]) -> str:
        self._where, self._kind = where, kind
        try:
            return self._name(value)
        except RecursionError:
            raise CompileError(
                f"the compiled function leaves containers in {where} that are inside each other "
                "too deeply; leave a flat list of their members"
            ) from None

    def _name(self, obj: Any) -> str:
        if isinstance(obj, Refusing):
            obj = obj.raw
        if isinstance(obj, Number) and id(obj) not in self._arguments:
            name = f"number{obj._place}"
            self.looking[name] = self._numbers.keep(obj).expression(self._page)
            return name
        if type(obj) in _PLAIN:
            is_short = obj is None or obj is True or obj is False
            return repr(obj) if is_short else self._page.name(obj)
        name = self._names.get(id(obj))
        if name is None:
            if id(obj) in self._open:
                self._refuse(obj, "which contains itself")
            self._open.add(id(obj))
            name = self._names[id(obj)] = self._new_name(obj)
            self._open.discard(id(obj))
            self._held.append(obj)
        return name

    def _new_name(self, obj: Any) -> str:
        cls = type(obj)
        if isinstance(obj, Tensor) and cls not in OWN_PARTS:
            return f"t{self._keep(obj)}"
        if id(obj) in self._arguments:
            return f"leaves[{self._arguments[id(obj)]}]"
        # The tensors in a tuple from outside may be others at each call.
        if self._is_outside(obj) and not (is_tuple(obj) and reaches_tensor(obj)):
            return self._page.name(obj)
        if isinstance(obj, _CONSTANT) or _is_of_module(obj):
            return self._page.name(obj)
        if cls in _BRACKETS:
            return self._variable(self._literal(obj))
        if cls is set:
            return self._variable(f"{{*({''.join(f'{self._name(each)}, ' for each in obj)})}}")
        if cls is bytearray or (cls is np.ndarray and obj.dtype != object):
            return self._variable(
                f"{self._page.name(copy.copy)}({self._page.name(copy.copy(obj))})"
            )
        is_made = self._knows_all or structure.is_dataclass(cls)
        if is_made and structure.consists_of_attributes(obj):
            items = attributes_of(obj).items()
            fields = ", ".join(f"{key!r}: {self._name(each)}" for key, each in items)
            return self._variable(
                f"{self._page.name(new_object)}({self._page.name(cls)}, {{{fields}}})"
            )
        parts = structure.take_apart(obj)
        if parts is None:
            self._refuse(obj, "which a program cannot create")
        kind, members = parts
        names = ", ".join(map(self._name, members))
        return self._variable(
            f"{self._page.name(structure.put_together)}({self._page.name(kind)}, [{names}])"
        )

    def _variable(self, expression: str) -> str:
        name = f"o{len(self.making)}"
        self.making.append(f"{name} = {expression}")
        return name

    def _literal(self, obj: Any) -> str:
        first, last = _BRACKETS[type(obj)]
        if isinstance(obj, dict):
            members = [f"{self._name(key)}: {self._name(each)}, " for key, each in obj.items()]
        else:
            members = [f"{self._name(each)}, " for each in obj]
        return f"{first}{''.join(members)}{last}"

    def _refuse(self, obj: Any, why: str) -> NoReturn:
        names = [n for n, each in attributes_of(obj).items() if reaches_trace(each)]
        attribute = f" as its attribute {names[0]!r}" if names and not is_own(type(obj)) else ""
        if names or reaches_trace(obj):
            why = f"which would keep a tensor without a value{attribute}"
        if hasattr(obj, "close") and hasattr(obj, "cr_frame"):
            # Python warns of coroutines that nobody awaits.
            obj.close()
        raise self._kind(
            f"the compiled function leaves an object of class {type(obj).__name__} in "
            f"{self._where}, {why}. Leave tensors there, or lists, dictionaries, tuples and "
            "objects of them; or register the class with jax.tree_util.register_pytree_node"
        )


def reaches_tensor(value: Any) -> bool:
    """Whether a tuple holds a tensor, directly or in tuples."""
    return any(isinstance(e, Tensor) or (is_tuple(e) and reaches_tensor(e)) for e in value)


def new_object(cls: type, attributes: dict[str, Any]) -> Any:
    """An object with these attributes; no code of its class runs."""
    obj = object.__new__(cls)
    for name, each in attributes.items():
        member = in_class(cls, name)
        if isinstance(member, MemberDescriptorType):
            member.__set__(obj, each)
        else:
            state_of(obj)[name] = each
    return obj


def _is_of_module(value: Any) -> bool:
    """Whether ``value`` is a function or a class of a module, which is always the same one."""
    if isinstance(value, BuiltinFunctionType):
        return value.__self__ is None or isinstance(value.__self__, ModuleType)
    return isinstance(value, type | FunctionType) and "<locals>" not in value.__qualname__
