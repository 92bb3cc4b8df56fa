"""Explanations, as text, of why a compiled function has its programs.

A program takes a list of terms for granted, each with a name, the value during the trace and the
value now. The list shows what a program depends on, and which changes caused a recompilation.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from flambeau.compile.guarding.changes import Change
from flambeau.compile.guarding.contents import spec_of
from flambeau.compile.guarding.freezing import freeze
from flambeau.compile.guarding.guard import FACE, face_of
from flambeau.compile.guarding.places import Sizes
from flambeau.compile.guarding.situation import Situation
from flambeau.compile.guarding.value_text import Plain, text_of, text_of_tensor
from flambeau.compile.guarding.where import Gradient, Itself
from flambeau.compile.ownership import is_module, is_own
from flambeau.core.support import naming
from flambeau.core.support.identity import MISSING, Same
from flambeau.core.values.cell import Cell
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.view import view_key

# Show at most this many differences for a new program, and this many of its terms.
_DIFFERENCES = 8
_TERMS = 40

# Show at most this many names of objects of which one of these attributes is the same.
_NAMES = 3
_GROUPED = ("requires_grad", "training", "grad")

# Show at most this many programs, the first and the last ones.
_PROGRAMS = 8


class Term(NamedTuple):
    """One assumption of a program.

    Attributes:
        name: The name that users know.
        before: The frozen value during the trace, as `text_of` reads it.
        now: The frozen value now.
        is_machinery: Whether users want to see the term only if it has changed.
    """

    name: str
    before: Any
    now: Any
    is_machinery: bool = False

    def change(self) -> Change:
        """The change of the term."""
        before, now = text_of(self.before), text_of(self.now)
        if isinstance(self.before, Same) and self.is_machinery:
            return Change.told(self.name, f"{self.name} has changed")
        if before == now:
            return Change.told(self.name, f"{self.name} is {now}, and not the same one as before")
        return Change.of(self.name, before, now)


def terms(program: Any, leaves: Any = None) -> Iterator[Term]:
    """The assumptions of a program besides its `Situation`.

    Args:
        program: The program.
        leaves: The leaves of a call's arguments; ``None`` to leave out the terms about arguments.
    """
    guard, names = program.guard, Names(program.guard)
    for place, before in ({**guard.outside.entries, **guard.outside.watched}).items():
        if isinstance(place, Sizes):
            for name, old, new in place.changes():
                yield Term(name, _present(old), _present(new))
            continue
        now = guard.outside.found_at(place)
        is_little = _is_machinery(place, before) or names.is_little(place)
        yield Term(names.of_place(place), before, now, is_little)
    yield from _terms_of_tensors(guard, names)
    for part, (owner, snapshot, value) in zip(guard.parts, guard.watched, strict=True):
        now = snapshot()
        if type(owner) is dict and (entries := _changed_entries(value, now)):
            yield from entries
            continue
        if isinstance(part, str) and hasattr(owner, "structure") and not isinstance(value, Same):
            yield Term(f"{part!r} in an optimizer's state", value, now, True)
            continue
        name = names.of_part(owner, part)
        yield Term(name, Same(value), Same(value if now == value else now), True)
    checks = program.checks
    for slot, spec in checks.specs:
        yield Term(names.of_slot(slot), _plain_spec(spec), _plain_spec(spec_of(slot.get())))
    if checks.numbers is not None:
        for text, before, now, is_class in checks.numbers.terms(leaves):
            yield Term(text, Plain(before), Plain(now), is_class)
    for slot, value in checks.objects:
        yield Term(names.of_slot(slot), Same(value), Same(slot.get()))
    for slot, owner in checks.shared:
        is_same = Plain(slot.get() is owner.get())
        yield Term(f"{names.of_slot(slot)} is {names.of_slot(owner)}", Plain(True), is_same, True)
    if leaves is not None:
        yield from _terms_of_arguments(program, leaves)


def _present(value: Any) -> Any:
    return Plain("absent") if value is MISSING else freeze(value)


class Names:
    """Names for modules and tensors: the path from a global, or the class.

    Args:
        guard: The guard of the program.
    """

    def __init__(self, guard: Any) -> None:
        self.modules: dict[int, str] = {}
        self.tensors: dict[int, str] = {}
        # The ids of dictionaries with members, or with attributes of flambeau's own layers.
        self._little: set[int] = set()
        for place, value in guard.outside.values.items():
            if is_module(value) and not is_own_code(place.root):
                self._add(str(place), value)
        for each in guard.modules:
            self._add(type(each).__name__, each)

    def _add(self, root: str, module: Any) -> None:
        for path, each in module.named_modules():
            name = f"{root}.{path}" if path else root
            if self.modules.setdefault(id(vars(each)), name) == name:
                for table in (each._parameters, each._buffers, each._modules):
                    self.modules[id(table)] = name
                    self._little.add(id(table))
                if is_own(type(each)):
                    self._little.add(id(vars(each)))
                for own, tensor in (*each._parameters.items(), *each._buffers.items()):
                    self.tensors.setdefault(id(tensor), f"{name}.{own}")

    def of_module(self, module: Any) -> str:
        """The name of a module."""
        return self.modules.get(id(vars(module)), type(module).__name__)

    def of_tensor(self, tensor: Any) -> str:
        """The name of a tensor, or its class, dtype and shape."""
        return self.tensors.get(id(tensor)) or text_of_tensor(tensor)

    def of_part(self, owner: Any, part: Any) -> str:
        """The name of a part of an object whose state is watched."""
        if is_module(owner) and part is not None:
            return f"{self.of_module(owner)}.{part}"
        structure = getattr(owner, "structure", owner)
        if not hasattr(structure, "owner"):
            part = "options" if hasattr(owner, "param_groups") else "state"
            return f"the {part} of {type(owner).__name__}"
        optimizer = type(structure.owner).__name__
        if isinstance(part, tuple):
            return f"{part[1]} of a group of {optimizer}"
        is_name = isinstance(part, str)
        return f"{part} of {optimizer}" if is_name else f"the groups of {optimizer}"

    def of_place(self, place: Any) -> str:
        """The name of a place outside."""
        root = place.root
        if isinstance(root, FunctionType) and place.key is not None:
            return f"a default of {root.__name__}()"
        holder = self.modules.get(id(root))
        return str(place) if holder is None else f"{holder}.{place.key}"

    def is_little(self, place: Any) -> bool:
        """Whether users want to see an attribute of a module only if it has changed."""
        if place.key == "training" or id(place.root) not in self.modules:
            return False
        return id(place.root) in self._little or str(place.key).startswith("_")

    def of_slot(self, slot: Any) -> str:
        """The name of a slot."""
        if isinstance(slot, Itself):
            return self.of_tensor(slot.tensor)
        return f"{self.of_slot(slot.of)}.grad" if isinstance(slot, Gradient) else str(slot)


def _is_machinery(place: Any, frozen: Any) -> bool:
    """Whether users want to see a place only if it has changed: flambeau's code, or a builtin."""
    if place.root is vars(builtins) or is_own_code(place.root):
        return True
    if place.attributes and place.attributes[-1] in ("__code__", "__qualname__", "__bases__"):
        return True
    kind, content = frozen
    value = content.value if kind is None and isinstance(content, Same) else None
    return value is MISSING or is_own_code(value)


def is_own_code(value: Any) -> bool:
    """Whether ``value`` is a function, a class or the globals of flambeau's."""
    if isinstance(value, dict):
        name = value.get("__name__", "")
    else:
        name = naming.module_of(value) if callable(value) else ""
    return isinstance(name, str) and name.partition(".")[0] == "flambeau"


def _changed_entries(before: Any, now: Any) -> list[Term]:
    """The entries of an optimizer's state that have changed, of all parameters."""
    absent, found = Plain("absent"), []
    for (*_, old), (*_, new) in zip(before, now, strict=False):
        old, new = dict(old), dict(new)
        for key in {**old, **new}:
            if old.get(key, absent) != new.get(key, absent):
                name = f"{key!r} in an optimizer's state"
                found.append(Term(name, old.get(key, absent), new.get(key, absent), True))
    return found


def _terms_of_tensors(guard: Any, names: Names) -> Iterator[Term]:
    for tensor, flag, is_leaf, cell, view, hooks in guard.tensors:
        name = names.of_tensor(tensor)
        if flag is not None:
            yield _flag(f"{name}.requires_grad", flag, tensor._requires_grad)
        yield _flag(f"{name}.is_leaf", is_leaf, tensor._grad_fn is None, True)
        same = Plain("the same")
        for aspect, holds in (
            ("the elements", cell is None or tensor._cell is cell),
            ("the view", view_key(tensor._view) == view),
            ("the hooks", tensor._leaf_hooks() == hooks),
        ):
            yield Term(f"{aspect} of {name}", same, same if holds else Plain("others"), True)
    for tensor, face in guard.looked_at:
        name, now = names.of_tensor(tensor), face_of(tensor, face[0] is None)
        for field, old, new in zip(FACE, face, now, strict=True):
            yield Term(f"{name}.{field}", Plain(old), Plain(new), field != "shape")
    for tensor in guard.without_grad:
        yield _gradient(tensor, names, "None")
    for tensor, _ in guard.with_grad:
        yield _gradient(tensor, names, "a gradient")


def _flag(name: str, before: bool, now: bool, is_machinery: bool = False) -> Term:
    return Term(name, Plain(before), Plain(now), is_machinery or not before)


def _gradient(tensor: Any, names: Names, before: str) -> Term:
    now = "None" if tensor._grad is None else "a gradient"
    return Term(f"{names.of_tensor(tensor)}.grad", Plain(before), Plain(now))


def _terms_of_arguments(program: Any, leaves: Any) -> Iterator[Term]:
    same, checks = Plain("as in the trace"), program.checks
    shares = checks.sharing.holds(leaves)
    name = "which arguments and tensors share elements"
    yield Term(name, same, same if shares else Plain("different"))
    for fact, answer in checks.facts if shares else ():
        asked = ", ".join(map(repr, fact.args))
        name = f"{fact.question.__name__}({asked}) of an argument"
        yield Term(name, answer, freeze(fact.get(leaves)))


def _plain_spec(spec: Any) -> Any:
    """The spec of a slot, as text if it is a tensor's."""
    if isinstance(spec, tuple) and len(spec) == 3:
        shape, dtype, requires_grad = spec
        text = f"a tensor of {str(dtype).rpartition('.')[2]}{list(shape)}"
        return Plain(text + (" with gradient" if requires_grad else ""))
    return spec


def differences(program: Any, leaves: Any) -> list[Change]:
    """The reasons why a program does not fit a call that has its situation."""
    try:
        found = (e.change() for e in terms(program, leaves) if e.before != e.now)
        # Guard and checks may tell the same.
        return [*dict.fromkeys(found)]
    except Exception as error:  # noqa: BLE001 (any method of a user's object may fail)
        line = f"an object that it uses cannot be compared: {type(error).__name__}: {error}"
        return [Change.told("an object", line)]


def assumptions(program: Any) -> list[str]:
    """The assumptions of a program, except those about arguments, as lines."""
    lines: dict[str, None] = {}
    # The names of objects by an attribute of theirs and its text.
    grouped: dict[tuple[str, str], list[str]] = {}
    with contextlib.suppress(Exception):  # Any method of a user's object may fail.
        for each in terms(program):
            if each.is_machinery or _is_identity(each.before):
                continue
            owner, _, name = each.name.rpartition(".")
            text = text_of(each.before)
            if name in _GROUPED:
                grouped.setdefault((name, text), []).append(owner)
            else:
                lines[f"{each.name} is {text}"] = None
    for (name, text), owners in grouped.items():
        if len(owners) == 1:
            lines[f"{owners[0]}.{name} is {text}"] = None
        else:
            lines[f"{name} of {', '.join(_first(owners, _NAMES))} is {text}"] = None
    return _first([*lines], _TERMS)


def _is_identity(frozen: Any) -> bool:
    """Whether a frozen value is an object or a function, which rarely becomes another one."""
    kind, content = frozen if type(frozen) is tuple and len(frozen) == 2 else (None, None)
    return kind is None and isinstance(content, Same)


def _first(lines: list[str], count: int) -> list[str]:
    more = len(lines) - count
    return lines if more <= 0 else [*lines[:count], f"and {more} more"]


class Origin(NamedTuple):
    """The reason for which a program was compiled.

    Attributes:
        number: The program's number among those of its function, from 1.
        situation: The calls that it was traced for.
        compared_with: The number of the program that fitted last, or 0.
        changes: The reasons why that program did not fit this call.
    """

    number: int
    situation: Situation
    compared_with: int = 0
    changes: tuple[Change, ...] = ()

    @property
    def reasons(self) -> list[str]:
        """The changes as lines, the first ones."""
        return _first([each.line for each in self.changes], _DIFFERENCES)

    def lines(self) -> Iterator[str]:
        """The origin as indented text."""
        if self.compared_with:
            yield f"  made because program {self.compared_with} did not fit:"
            yield from (f"    {each}" for each in self.reasons)
            return
        yield "  for calls in which"
        yield from [f"    {each}" for each in self.situation.lines()] or ["    nothing is passed"]


def source_of(program: Any) -> str:
    """The Python code that a call runs besides the XLA program, with its names explained."""
    names = Names(program.guard)
    cells = {id(tensor._cell): names.of_tensor(tensor) for tensor, *_ in program.guard.tensors}

    def text(value: Any) -> str:
        if isinstance(value, Cell):
            return cells.get(id(value), "a tensor")
        if isinstance(value, Tensor):
            return names.of_tensor(value)
        if isinstance(value, MethodType):
            return f"{value.__name__} of {names.of_slot(value.__self__)}"
        if isinstance(value, dict):
            return f"the names of {value['__name__']}" if "__name__" in value else "a dictionary"
        return text_of(freeze(value))

    reads = [f"{text(each)}, whose memory the results take" for each in program.donated]
    reads += map(text, program.kept)
    reads += map(names.of_slot, program.reads)
    pages = (program.guard.outside.page, program.page)
    lines = [f"# arrays[{i}]: {each}" for i, each in enumerate(reads)]
    for page in pages:
        lines += ["", "\n\n".join(page.texts), ""]
        lines += [
            f"# {name}: {text(value)}"
            for name, value in page.objects.items()
            if getattr(value, "__name__", "").rpartition(".")[2] != name
        ]
    return "\n".join(lines)


def page(name: str, programs: list[Any], eager: Iterable[str]) -> str:
    """The text that `compiler.explain` prints.

    Args:
        name: The name of the function.
        programs: Its programs, the oldest first.
        eager: The reasons for which calls run eagerly.
    """
    lines = [f"{name}: {len(programs)} program{'' if len(programs) == 1 else 's'}"]
    left_out = range(_PROGRAMS // 2, len(programs) - _PROGRAMS // 2)
    for i, program in enumerate(programs):
        if i not in left_out:
            lines += ["", f"program {program.origin.number}", *program.origin.lines()]
        elif i == left_out[0]:
            lines += ["", f"and {len(left_out)} more"]
    taken = assumptions(programs[-1]) if programs else []
    if taken:
        lines += ["", f"program {programs[-1].origin.number} assumes"]
        lines += [f"    {each}" for each in taken]
    for each in eager:
        lines += ["", f"run eagerly: {each}"]
    return "\n".join(lines)
