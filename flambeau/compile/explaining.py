"""Explanations, as text, of why a compiled function has its programs.

A program takes a list of terms for granted, each with a name, the value during the trace and the
value now. The list shows what a program depends on, and which changes caused a recompilation.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from flambeau.compile.contents import spec_of
from flambeau.compile.freezing import freeze
from flambeau.compile.guard import TRAINING, ModuleSnapshot, face_of, is_of_hooks
from flambeau.compile.ownership import is_module, is_own
from flambeau.compile.places import Sizes
from flambeau.compile.value_text import Plain, text_of, text_of_content, text_of_tensor
from flambeau.compile.where import Gradient, Itself, Starts, Whole
from flambeau.core import naming
from flambeau.core.cell import Cell
from flambeau.core.identity import MISSING, Same
from flambeau.core.tensor import Tensor
from flambeau.core.view import view_key

# Show at most this many differences for a new program, and this many terms for each program.
_DIFFERENCES = 8
_TERMS = 40

#: The names of the modes in `function._modes`, in its order.
MODES = (
    "the trace", "recording of gradients", "inference mode", "the default dtype",
    "the default device", "autocast", "multithreaded backward",
)  # fmt: skip


# Their usual values; ``...`` for a mode that is never mentioned.
_USUAL_MODES = (None, True, False, ..., ..., None, True)


class Term(NamedTuple):
    """One fact that a program takes for granted.

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

    def difference(self) -> str:
        """A line that says how the term has changed."""
        before, now = text_of(self.before), text_of(self.now)
        if isinstance(self.before, Same) and self.is_machinery:
            return f"{self.name} has changed"
        if before == now:
            return f"{self.name} is {now}, and not the same one as before"
        return f"{self.name} was {before}, and is {now}"


class Situation(NamedTuple):
    """The calls that a program was traced for, besides the conditions of its guard.

    Attributes:
        arguments: A name for each leaf of the arguments, with its signature.
        around: The structure of the arguments.
        modes: The thread's modes.
    """

    arguments: tuple[tuple[str, Any], ...]
    around: Any
    modes: tuple[Any, ...]

    @staticmethod
    def of(function: Callable[..., Any], key: Any) -> Situation:
        """The situation of a call with the key ``(structure, signature, modes)``."""
        around, specs, modes = key
        names = _names_of_leaves(function, around)
        names += ["a gradient of an argument"] * (len(specs) - len(names))
        return Situation(tuple(zip(names, specs, strict=True)), around, modes)

    def lines(self) -> Iterator[str]:
        """The arguments, and the modes with unusual values."""
        for name, spec in self.arguments:
            yield f"{name} is {_text_of_spec(spec)}"
        for name, value, usual in zip(MODES, self.modes, _USUAL_MODES, strict=True):
            if value != usual and usual is not ...:
                yield f"{name} is {_text_of_mode(value)}"

    def distance(self, other: Situation) -> tuple[bool, int]:
        """The distance to ``other``: another structure counts more than other leaves."""
        return self.around != other.around, len([*self.differences(other)])

    def differences(self, before: Situation) -> Iterator[str]:
        """The differences from the situation ``before``."""
        if self.around != before.around:
            yield f"the arguments were {_call(before.arguments)}, and are {_call(self.arguments)}"
        else:
            for (name, spec), (_, old) in zip(self.arguments, before.arguments, strict=False):
                if spec != old:
                    yield _difference_of_specs(name, old, spec)
            if len(self.arguments) != len(before.arguments):
                yield "other arguments have gradients than before"
        for name, old, value in zip(MODES, before.modes, self.modes, strict=True):
            if old != value:
                yield f"{name} was {_text_of_mode(old)}, and is {_text_of_mode(value)}"


def _text_of_mode(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _call(arguments: tuple[tuple[str, Any], ...]) -> str:
    return "(" + ", ".join(f"{name}: {_text_of_spec(spec)}" for name, spec in arguments) + ")"


# The fields of a tensor's signature; see `arguments.signature`.
_FIELDS = ("the shape", "the dtype", "requires_grad", "the hooks or history", "the placement")


def _is_of_tensor(spec: Any) -> bool:
    return isinstance(spec, tuple) and len(spec) == 7


def _text_of_spec(spec: Any) -> str:
    if _is_of_tensor(spec):
        shape, dtype, requires_grad = spec[:3]
        return f"a Tensor of {dtype}{list(shape)}" + (" with gradient" if requires_grad else "")
    return text_of_content(spec) if isinstance(spec, tuple) else text_of(spec)


def _difference_of_specs(name: str, before: Any, now: Any) -> str:
    if not (_is_of_tensor(before) and _is_of_tensor(now)):
        return f"{name} was {_text_of_spec(before)}, and is {_text_of_spec(now)}"
    for field, old, new in zip(_FIELDS, before, now, strict=False):
        if old != new:
            if field == "the hooks or history":
                return f"{name} has other hooks, or is on the tape differently"
            old, new = (list(each) if isinstance(each, tuple) else each for each in (old, new))
            return f"{field} of {name} was {old}, and is {new}"
    return f"{name} or its gradient is, or is no longer, the same tensor as another argument"


def _names_of_leaves(function: Callable[..., Any], around: Any) -> list[str]:
    """The user's name for each leaf of the arguments."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    plain = [
        each.name
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]

    def position(i: int) -> str:
        return plain[i] if i < len(plain) else f"argument {i}"

    if isinstance(around, int):
        return [*map(position, range(around))]
    count, keywords, structures = around
    tops = [*map(position, range(count)), *keywords]
    return [name for top, each in zip(tops, structures, strict=True) for name in _paths(top, each)]


def _paths(name: str, around: Any) -> Iterator[str]:
    if around is None:
        yield name
        return
    kind, members = around
    for i, each in enumerate(members):
        key = kind.keys[i] if i < len(kind.keys) else i
        yield from _paths(f"{name}[{key!r}]", each)


def terms(program: Any, leaves: Any = None) -> Iterator[Term]:
    """The terms that a program takes for granted besides its `Situation`.

    Args:
        program: The program.
        leaves: The leaves of a call's arguments; ``None`` to leave out the terms about arguments.
    """
    guard, names = program.guard, Names(program.guard)
    for module in guard.modules:
        yield from _terms_of_module(module, names)
    for place, before in guard.outside.watched.items():
        if isinstance(place, Sizes):
            for name, old, new in place.changes():
                yield Term(name, _present(old), _present(new))
            continue
        now = guard.outside.found_at(place)
        yield Term(names.of_place(place), before, now, _is_machinery(place, before))
    yield from _terms_of_tensors(guard, names)
    for part, (owner, snapshot, value) in zip(guard.parts, guard.watched, strict=True):
        now = snapshot()
        if type(owner) is dict and (entries := _changed_entries(value, now)):
            yield from entries
            continue
        name = names.of_part(owner, part)
        yield Term(name, Same(value), Same(value if now == value else now), True)
    checks = program.checks
    for slot, spec in checks.specs:
        yield Term(names.of_slot(slot), _plain_spec(spec), _plain_spec(spec_of(slot.get())))
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
        for place, value in guard.outside.values.items():
            if is_module(value) and not is_own_code(place.root):
                self._add(str(place), value)
        for each in guard.modules:
            self._add(each.cls.__name__, each.module)

    def _add(self, root: str, module: Any) -> None:
        for path, each in module.named_modules():
            name = f"{root}.{path}" if path else root
            if self.modules.setdefault(id(vars(each)), name) == name:
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
            return f"the state of {type(owner).__name__}"
        optimizer = type(structure.owner).__name__
        if isinstance(part, tuple):
            return f"{part[1]} of a group of {optimizer}"
        return f"the groups of {optimizer}" if part is None else f"{part} of {optimizer}"

    def of_place(self, place: Any) -> str:
        """The name of a place outside."""
        root = place.root
        if isinstance(root, FunctionType) and place.key is not None:
            return f"a default of {root.__name__}()"
        holder = self.modules.get(id(root))
        return str(place) if holder is None else f"{holder}.{place}"

    def of_slot(self, slot: Any) -> str:
        """The name of a slot."""
        if isinstance(slot, Itself):
            return self.of_tensor(slot.tensor)
        for kind, name in ((Gradient, "grad"), (Whole, "data"), (Starts, "starts")):
            if isinstance(slot, kind):
                return f"{self.of_slot(slot.of)}.{name}"
        return str(slot)


def _is_machinery(place: Any, frozen: Any) -> bool:
    """Whether users want to see a place only if it has changed: flambeau's code, or a builtin."""
    if place.root is vars(builtins) or is_own_code(place.root):
        return True
    if place.attributes and place.attributes[-1] in ("__code__", "__qualname__"):
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


def _terms_of_module(module: ModuleSnapshot, names: Names) -> Iterator[Term]:
    name, now, absent = names.of_module(module.module), module.now(), Plain("absent")
    yield Term(f"the class of {name}", Same(module.cls), Same(type(module.module)), True)
    for place in {**module.entries, **now}:
        if place not in module.ignored:
            before, after = module.entries.get(place, absent), now.get(place, absent)
            if is_of_hooks(module.module, place) and before != after:
                yield Term(f"{name}.{place[1]}", Same(before), Same(after), True)
                continue
            # Members of flambeau's own layers, and private registries.
            is_little = bool(place[0]) or place[1].startswith("_") or is_own(module.cls)
            yield Term(f"{name}.{place[1]}", before, after, is_little and place != TRAINING)


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
    for tensor, flag, cell, view, hooks in guard.tensors:
        name = names.of_tensor(tensor)
        if flag is not None:
            yield _flag(f"{name}.requires_grad", flag[0], tensor._requires_grad)
            yield _flag(f"{name}.is_leaf", flag[1], tensor._grad_fn is None, True)
        same = Plain("the same")
        for aspect, holds in (
            ("the elements", cell is None or tensor._cell is cell),
            ("the view", view_key(tensor._view) == view),
            ("the hooks", tensor._leaf_hooks() == hooks),
        ):
            yield Term(f"{aspect} of {name}", same, same if holds else Plain("others"), True)
    for tensor, face in guard.looked_at:
        now = face_of(tensor, face[0] is None)
        yield Term(names.of_tensor(tensor), Plain(face), Plain(now))
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
    if checks.joined.owners:
        shares = shares and checks.joined.holds(leaves)
        leaves, _ = checks.joined.look(leaves)
    name = "which arguments and tensors share elements"
    yield Term(name, same, same if shares else Plain("different"))
    for fact, answer in checks.facts if shares else ():
        asked = ", ".join(map(repr, fact.args))
        name = f"{fact.question.__name__}({asked}) of an argument"
        yield Term(name, answer, freeze(fact.get(leaves)))


def _plain_spec(spec: Any) -> Any:
    """The spec of a slot, as text if it is a tensor's or a container's."""
    if isinstance(spec, tuple) and len(spec) == 3:
        shape, dtype, requires_grad = spec
        if isinstance(shape, type):
            return Plain(f"a {shape.__name__}")
        text = f"a tensor of {str(dtype).rpartition('.')[2]}{list(shape)}"
        return Plain(text + (" with gradient" if requires_grad else ""))
    if isinstance(spec, tuple) and isinstance(spec[0], type) and is_dataclass(spec[0]):
        return Plain(f"an object of class {spec[0].__name__} with {text_of(spec[1])}")
    return spec


def differences(program: Any, leaves: Any) -> list[str]:
    """The reasons why a program does not fit a call that has its situation."""
    try:
        found = (e.difference() for e in terms(program, leaves) if e.before != e.now)
        # Guard and checks may tell the same.
        lines = [*dict.fromkeys(found)]
    except Exception as error:  # noqa: BLE001 (any method of a user's object may fail)
        return [f"an object that it uses cannot be compared: {type(error).__name__}: {error}"]
    if not lines:
        return ["containers that it changes stand elsewhere, or are now one and the same"]
    return _first(lines, _DIFFERENCES)


def assumptions(program: Any) -> list[str]:
    """The terms that a program takes for granted, except those about arguments, as lines."""
    lines: dict[str, None] = {}
    with contextlib.suppress(Exception):  # Any method of a user's object may fail.
        for each in terms(program):
            if not each.is_machinery:
                lines[f"{each.name} is {text_of(each.before)}"] = None
    return _first([*lines], _TERMS)


def _first(lines: list[str], count: int) -> list[str]:
    more = len(lines) - count
    return lines if more <= 0 else [*lines[:count], f"and {more} more"]


class Origin(NamedTuple):
    """The reason for which a program was compiled.

    Attributes:
        number: The program's number among those of its function, from 1.
        situation: The calls that it was traced for.
        compared_with: The number of the program that fitted last, or 0.
        reasons: The reasons why that program did not fit this call.
    """

    number: int
    situation: Situation
    compared_with: int = 0
    reasons: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """The origin as indented text."""
        if self.compared_with:
            yield f"  made because program {self.compared_with} did not fit:"
            yield from (f"    {each}" for each in self.reasons)
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
    for program in programs:
        lines += ["", f"program {program.origin.number}", *program.origin.lines()]
        taken = assumptions(program)
        lines += ["  that take for granted"] if taken else []
        lines += [f"    {each}" for each in taken]
    for each in eager:
        lines += ["", f"run eagerly: {each}"]
    return "\n".join(lines)
