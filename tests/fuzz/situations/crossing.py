"""Situations of values in objects: owner x access x root x change x shape of the function."""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.fuzz.situations.accesses import ACCESSES, Access
from tests.fuzz.situations.owners import (
    ATTRIBUTES,
    CLASS,
    HASHES,
    OWNERS,
    STATE,
    WEAK,
    Owner,
)
from tests.fuzz.situations.roots import HASH_ROOTS, ROOTS, WEAK_ROOTS, Root
from tests.fuzz.situations.shapes import DIRECT, SHAPES, Shape
from tests.fuzz.situations.situation import Situation


@dataclass(frozen=True)
class Change:
    """A change of the value in an object, or of the object.

    Attributes:
        name: What it is.
        do: Statements; ``WRITE``, ``DELETE`` and ``REBIND`` stand for the owner's and the root's.
        back: Statements that undo it.
        first: The value before the change.
        other: The value after it.
        needs: What the owner must allow.
        by_kind: Whether the change is one of the value's type or sign only.
    """

    name: str
    do: str
    back: str
    first: str = "2.0"
    other: str = "3.0"
    needs: frozenset[str] = frozenset()
    by_kind: bool = False


VALUE = Change("another value", "WRITE", "UNWRITE")
DELETED = Change("deleted", "DELETE", "RESTORE")
REPLACED = Change("another object", "c = make(3.0)\nREBIND", "c = make(2.0)\nREBIND")
KINDS = (
    Change("int for float", "WRITE", "UNWRITE", other="2", by_kind=True),
    Change("True for 1", "WRITE", "UNWRITE", first="1", other="True", by_kind=True),
    Change("-0.0 for 0.0", "WRITE", "UNWRITE", first="0.0", other="-0.0", by_kind=True),
)
PATCHES = (
    Change(
        "__class__ exchanged",
        "_kind = type(c)\n"
        "class _Other(_kind):\n    __slots__ = ()\n    rate = property(lambda self: 3.0)\n\n"
        "c.__class__ = _Other",
        "c.__class__ = type(c).__base__",
        needs=frozenset({CLASS}),
    ),
    Change(
        "property put into the class",
        "type(c).rate = property(lambda self: 3.0)",
        "del type(c).rate",
        needs=frozenset({CLASS, STATE}),
    ),
    Change(
        "__getattribute__ put into the class",
        "def _look(self, name):\n"
        "    return 3.0 if name == 'rate' else object.__getattribute__(self, name)\n\n"
        "type(c).__getattribute__ = _look",
        "del type(c).__getattribute__",
        needs=frozenset({CLASS}),
    ),
    Change(
        "deleted, and __getattr__ put into the class",
        "DELETE\ntype(c).__getattr__ = lambda self, name: 3.0",
        "del type(c).__getattr__\nRESTORE",
        needs=frozenset({CLASS, STATE}),
    ),
    Change(
        "base class exchanged",
        "class _Plain:\n    pass\n\n"
        "class _Other(_Plain):\n    rate = property(lambda self: 3.0)\n\n"
        "kept = type(c).__bases__\n"
        "type(c).__bases__ = (_Other,)\n",
        "type(c).__bases__ = kept",
        needs=frozenset({"never"}),
    ),
)
CHANGES = (VALUE, DELETED, REPLACED, *KINDS, *PATCHES)

# Accesses that see the value in the object's own dictionary, whatever its class says.
_PAST_THE_CLASS = ("vars", "__dict__", "object.__getattribute__", "dataclasses", "loop over vars")
# Accesses that give another value than the object's own, whose type says nothing.
_CONVERTS = re.compile(r"float\(|sum\(|int\(|len\(|reduce|max\(|decorated|2\.0 if|total")

# Shapes that decide in Python by the value.
_IN_PYTHON = ("condition", "shape of a tensor", "argument of an operator", "key of sorted")


def fits(owner: Owner, access: Access, root: Root, change: Change, shape: Shape) -> bool:
    """Whether the parts can be combined, and the change matters then."""
    return (
        access.needs | change.needs <= owner.traits
        and not (access.lines and not shape.takes_lines)
        and _has_place(owner, root)
        and _reads(owner, access, shape)
        and _rebinds(owner, access, root, change, shape)
        and _matters(owner, access, change, shape)
    )


def _has_place(owner: Owner, root: Root) -> bool:
    """Whether such an object can stand there."""
    if root.name.startswith(("weak", "Weak")) and WEAK not in owner.traits:
        return False
    if root in HASH_ROOTS or root.name in ("WeakSet", "WeakKeyDictionary"):
        return HASHES in owner.traits and "tuple" not in owner.name
    # Arrays of NumPy are refused among the arguments.
    return not ("NumPy" in owner.name and "run(x, " in root.call)


def _reads(owner: Owner, access: Access, shape: Shape) -> bool:
    """Whether code of that shape can read the object in that way."""
    if access.name == "match of a sequence pattern" and "NumPy" in owner.name:
        return False
    if access.name == "__getattribute__ of its class" and "attr" in owner.source:
        return False
    return not (access.name == "tensor of it" and shape.name in _IN_PYTHON)


def _rebinds(owner: Owner, access: Access, root: Root, change: Change, shape: Shape) -> bool:
    """Whether another object can be put there, if the change asks for one."""
    if change is not REPLACED and not owner.write.startswith("c = "):
        return True
    if "defaults__" in root.rebind and shape.name.startswith("decorated"):
        return False
    return root.rebind != "" and "c.get" not in access.around


def _matters(owner: Owner, access: Access, change: Change, shape: Shape) -> bool:
    """Whether the change makes a difference for what is read."""
    if change.by_kind:
        converts = _CONVERTS.search(access.value + access.lines)
        return converts is None and shape.name not in _IN_PYTHON
    if access.name == "len" and change is not DELETED:
        return False
    if change is DELETED and not owner.delete:
        return False
    past = access.name.startswith(_PAST_THE_CLASS)
    return change not in PATCHES or (owner in ATTRIBUTES and not past and owner.delete != "")


def situation(
    owner: Owner, access: Access, root: Root, change: Change, shape: Shape = DIRECT
) -> Situation:
    """The situation of these parts."""
    value, lines = access.value, access.lines
    number = f"float(len(repr({value})))" if change.by_kind else value
    number, lines = (each.replace("OBJ", root.value) for each in (number, lines))
    function = shape.render(lines, number, root.params)
    world = "\n\n".join(
        part
        for part in (
            owner.source,
            f"c = make({change.first})",
            root.around,
            access.around,
            function,
        )
        if part
    )
    return Situation(
        name=" / ".join(
            part.name for part in (owner, access, root, change, *([shape] * (shape is not DIRECT)))
        ),
        world=world,
        change=_filled(change.do, owner, root, change),
        back=_filled(change.back, owner, root, change),
        local=root.local,
        target=root.target,
        call=root.call,
        # Looking up an absent key adds it to a defaultdict, and a first call fills a cache.
        settles=2 if "defaultdict" in owner.name or "cached" in owner.name + root.name else 1,
    )


def _filled(source: str, owner: Owner, root: Root, change: Change) -> str:
    write, restore = owner.write, owner.restore or owner.write
    if write.startswith("c = "):
        write, restore = f"{write}\nREBIND", f"{restore}\nREBIND"
    for word, statements in (
        ("RESTORE", restore.replace("VALUE", change.first)),
        ("UNWRITE", write.replace("VALUE", change.first)),
        ("WRITE", write.replace("VALUE", change.other)),
        ("DELETE", owner.delete + ("\nREBIND" if owner.delete.startswith("c = ") else "")),
        ("REBIND", root.rebind),
    ):
        source = source.replace(word, textwrap.dedent(statements))
    return source


GLOBAL = ROOTS[0]
_ALL_ROOTS = (*ROOTS, *WEAK_ROOTS, *HASH_ROOTS)


def systematic() -> Iterator[Situation]:
    """Each part with several of the others: enough that each pair of neighbours is met."""
    seen: set[str] = set()
    for parts in _parts():
        if fits(*parts):
            made = situation(*parts)
            if made.name not in seen:
                seen.add(made.name)
                yield made


def _parts() -> Iterator[tuple[Owner, Access, Root, Change, Shape]]:
    for i, access in enumerate(ACCESSES):
        owners = [each for each in OWNERS if access.needs <= each.traits]
        for owner in (owners[0], owners[i % len(owners)], owners[(7 * i + 3) % len(owners)]):
            for change in (VALUE, DELETED, REPLACED, KINDS[i % len(KINDS)]):
                yield owner, access, GLOBAL, change, DIRECT
    for i, owner in enumerate(OWNERS):
        accesses = [each for each in ACCESSES if each.needs <= owner.traits]
        for access in (accesses[0], accesses[i % len(accesses)], accesses[(5 * i) % len(accesses)]):
            for change in CHANGES:
                yield owner, access, GLOBAL, change, DIRECT
    for i, root in enumerate(_ALL_ROOTS):
        for j in range(4):
            owner = OWNERS[(11 * j) % len(OWNERS)] if j < 2 else OWNERS[(5 * i + j) % len(OWNERS)]
            accesses = [each for each in ACCESSES if each.needs <= owner.traits]
            access = accesses[0 if j < 2 else (3 * i + j) % len(accesses)]
            for change in (VALUE, REPLACED, *((DELETED,) if j == 2 else ())):
                yield owner, access, root, change, DIRECT
    for i, shape in enumerate(SHAPES):
        for j in range(3):
            owner = OWNERS[(13 * (i + j) * min(j, 1)) % len(OWNERS)]
            accesses = [each for each in ACCESSES if each.needs <= owner.traits and not each.lines]
            root = GLOBAL if j < 2 else ROOTS[i % len(ROOTS)]
            for change in (VALUE, REPLACED):
                yield owner, accesses[(j * i) % len(accesses)], root, change, shape


def crossed(seed: int) -> Iterator[Situation]:
    """Endlessly many random combinations of all parts; a seed gives the same ones each time."""
    draw = random.Random(seed)
    while True:
        access = draw.choice(ACCESSES)
        owner = draw.choice([each for each in OWNERS if access.needs <= each.traits])
        parts = owner, access, draw.choice(_ALL_ROOTS), draw.choice(CHANGES), draw.choice(SHAPES)
        if fits(*parts):
            yield replace(situation(*parts), matters=False)
