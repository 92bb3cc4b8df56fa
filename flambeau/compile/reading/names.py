"""The names in bytecode: globals, attributes of modules, and other attributes.

Reads of globals cannot be observed while code runs, so their names are taken from the bytecode
before. Neighbouring instructions tell enough, since reads of attributes of objects are observed
when they happen (`interception`).
"""

from __future__ import annotations

import dis
import functools
import itertools
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME")
_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_CONSTANTS = [("LOAD_CONST", each) for each in (None, True, False, ...)]
# Instructions between a name and its attribute that leave the value as it is.
_BETWEEN = ("CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL")


class Names(NamedTuple):
    """The names in one code object.

    Attributes:
        globals: The names that the code reads or assigns among its globals.
        chains: A global or an imported module, and the attributes that follow directly.
        imports: The modules that the code imports, without the dots of relative imports.
        stores: The globals that the code assigns, with the lines.
        bare: The globals and imports whose value is used without one of its attributes.
        attributes: All names and strings that may be the name of an attribute.
        computes_globals: Whether the code may read computed names from ``globals()``.
        tells_stand_ins: Whether it may tell a stand-in from a number: it names ``type``, or uses
            ``is`` with two operands that are not ``None``, ``True`` or ``False``.
    """

    globals: tuple[str, ...]
    chains: tuple[tuple[str, tuple[str, ...]], ...]
    imports: tuple[str, ...]
    stores: tuple[tuple[str, int | None], ...]
    bare: frozenset[str]
    attributes: frozenset[str]
    computes_globals: bool
    tells_stand_ins: bool


@functools.lru_cache(maxsize=4096)
def names_of(code: CodeType) -> Names:
    """The names in ``code``, without the functions defined inside it."""
    globals_: dict[str, None] = {}
    imports: dict[str, None] = {}
    chains: dict[tuple[str, tuple[str, ...]], None] = {}
    stores: list[tuple[str, int | None]] = []
    bare: set[str] = set()
    root, steps, module = "", (), ""
    for instruction in dis.get_instructions(code):
        operation, name = instruction.opname, instruction.argval
        if operation in _BETWEEN:
            continue
        if operation == "IMPORT_FROM":
            # The module stays on the stack for the next name.
            chains[module, (name,)] = None
            if "." in module:
                bare.add(module)
            root, steps = "", ()
            continue
        if root and operation in _ATTRIBUTE:
            steps = (*steps, name)
            chains[root, steps] = None
            continue
        if root and not steps and not operation.startswith("POP_"):
            bare.add(root)
        root, steps = "", ()
        if operation in _GLOBAL:
            globals_[name] = None
            root = name if operation.startswith("LOAD_") else ""
            if operation == "STORE_GLOBAL" and instruction.positions is not None:
                stores.append((name, instruction.positions.lineno))
        elif operation == "IMPORT_NAME":
            imports[name] = None
            root = module = name
    return Names(
        tuple(globals_), tuple(chains), tuple(imports), tuple(stores), frozenset(bare),
        frozenset(_all_names(code)), "globals" in globals_ and _computes_globals(code),
        "type" in globals_ or _compares_identities(code),
    )  # fmt: skip


def _compares_identities(code: CodeType) -> bool:
    """Whether ``is`` has two operands that are not ``None``, ``True`` or ``False``."""
    steps = [each for each in dis.get_instructions(code) if each.opname not in _BETWEEN]
    return any(
        each.opname == "IS_OP" and (before.opname, before.argval) not in _CONSTANTS
        for before, each in itertools.pairwise(steps)
    )


def _computes_globals(code: CodeType) -> bool:
    """Whether ``globals()`` is used without a literal name, as in ``globals()["rate"]``."""
    steps = [each for each in dis.get_instructions(code) if each.opname not in _BETWEEN]
    return any(
        each.opname in _GLOBAL and each.argval == "globals" and not _is_named(steps, i)
        for i, each in enumerate(steps)
    )


def _is_named(steps: list[dis.Instruction], i: int) -> bool:
    """Whether the call of ``globals`` at instruction ``i`` is used with a literal name."""
    before = steps[i - 1] if i else None
    called, *after = steps[i + 1 : i + 5]
    if not called.opname.startswith("CALL") or len(after) < 2:
        return False
    if after[0].opname == "CONTAINS_OP":
        return before is not None and isinstance(before.argval, str)
    if after[0].opname in _ATTRIBUTE and after[0].argval == "get":
        # After the name follows the call, or a default.
        is_end = len(after) > 2 and after[2].opname.startswith(("CALL", "LOAD_CONST"))
        return after[1].opname == "LOAD_CONST" and is_end
    is_item = "_SUBSCR" in after[1].opname or after[1].argrepr == "[]"
    return after[0].opname == "LOAD_CONST" and is_item


def _all_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in _texts(code.co_consts):
        yield from constant.split(".")


def _texts(constants: tuple[object, ...]) -> Iterator[str]:
    for each in constants:
        if isinstance(each, str):
            yield each
        elif isinstance(each, tuple | frozenset):
            yield from _texts(tuple(each))
