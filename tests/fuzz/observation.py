"""What a program does with a library, as plain data; and where two observations differ."""

from __future__ import annotations

import importlib.util
import math
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.fuzz.generation import quiet
from tests.fuzz.program import Program

FILE = "<program>"
# Relative errors that rounding explains, by dtype.
TOLERANCES = {"float16": 2e-2, "bfloat16": 1e-1, "float64": 1e-7}


@dataclass(frozen=True)
class Tensor:
    """A tensor as far as a caller can see."""

    dtype: str
    shape: tuple[int, ...]
    requires_grad: bool
    is_leaf: bool
    has_node: bool
    elements: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class Failure:
    """What a program raised, and where."""

    type: str
    message: str
    line: str


@dataclass
class Observation:
    """Everything seen: by name, in the order that it was looked at."""

    facts: dict[str, Any] = field(default_factory=dict)
    failure: Failure | None = None


@dataclass(frozen=True)
class Difference:
    """One fact on which two observations differ."""

    name: str
    what: str
    expected: Any
    found: Any
    expected_failure: Failure | None = None
    found_failure: Failure | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.what} {short(self.expected)} != {short(self.found)}"


def short(value: Any) -> str:
    return " ".join(str(value).split())[:160]


def observe(
    program: Program,
    lib: Any,
    compiled: Callable[[Any], Any] | None = None,
    noise: np.random.Generator | None = None,
    size: float = 0.0,
) -> Observation:
    """Run a program: its definitions, and each of its calls."""
    seen = Observation()
    lines = program.source(noise, size)
    code = compile(lines, FILE, "exec")
    namespace: dict[str, Any] = {"lib": lib}
    with quiet():
        try:
            exec(code, namespace)
            if compiled is not None:
                namespace["step"] = compiled(namespace["step"])
            for number, arguments in enumerate(namespace["calls"]):
                call(program, lib, namespace, number, arguments, seen)
        except Exception as error:  # noqa: BLE001
            seen.failure = failure_of(error, lines.splitlines())
    return seen


def call(
    program: Program,
    lib: Any,
    namespace: dict[str, Any],
    number: int,
    arguments: list[Any],
    seen: Observation,
) -> None:
    """One call, and everything that can be seen after it."""
    outside = {each.name: namespace[each.name] for each in program.inputs}
    for name, value in namespace.items():
        if isinstance(value, lib.nn.Module):
            members = (*value.named_parameters(), *value.named_buffers())
            outside.update({f"{name}.{each}": tensor for each, tensor in members})
            seen.facts[f"call {number}: {name}.training"] = value.training
    results = namespace["step"](*arguments)
    named = dict(zip(program.results, results, strict=True))
    named.update(zip((each.name for each in program.calls[0]), arguments, strict=True))
    named.update(outside)
    look(lib, f"call {number}", named, seen)
    if program.backward_outside:
        ways = [each for each in results if isinstance(each, lib.Tensor) and each.requires_grad]
        if ways:
            sum((each * each.conj()).real.sum() for each in ways).backward()
            look(lib, f"call {number}, after backward", named, seen)


def look(lib: Any, when: str, named: dict[str, Any], seen: Observation) -> None:
    numbers: dict[int, int] = {}
    for name, value in named.items():
        seen.facts[f"{when}: {name}"] = describe(lib, value)
        if isinstance(value, lib.Tensor):
            first = numbers.setdefault(id(value), len(numbers))
            seen.facts[f"{when}: {name} is tensor"] = first
            if value.is_leaf or value.retains_grad:
                seen.facts[f"{when}: {name}.grad"] = describe(lib, value.grad)


def describe(lib: Any, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [describe(lib, each) for each in value]
    if not isinstance(value, lib.Tensor):
        return value
    bare = value.detach()
    dtype = str(value.dtype).rpartition(".")[2]
    if dtype == "bfloat16":
        bare = bare.float()
    return Tensor(
        dtype,
        tuple(value.shape),
        value.requires_grad,
        value.is_leaf,
        value.grad_fn is not None,
        np.array(bare.resolve_conj().resolve_neg().numpy(force=True)),
    )


def failure_of(error: Exception, lines: list[str]) -> Failure:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == FILE]
    line = lines[(frames[-1].lineno or 1) - 1].strip() if frames else "backward outside"
    # PyTorch's `linalg.LinAlgError` is a class of the name `_LinAlgError`.
    return Failure(type(error).__name__.removeprefix("_"), str(error), line)


def largest(seen: Observation) -> float:
    """The largest finite magnitude of all that was seen: rounding errors are parts of it."""
    tensors = [each.elements for each in seen.facts.values() if isinstance(each, Tensor)]
    floating = [each for each in tensors if each.dtype.kind in "fc"]
    sizes = [np.max(np.abs(each), initial=0, where=np.isfinite(each)) for each in floating]
    return float(max([1.0, *sizes]))


def differences(
    expected: Observation,
    found: Observation,
    *,
    rough: bool = False,
    leeway: dict[str, float] | None = None,
) -> Iterator[Difference]:
    """Where two observations differ.

    Args:
        rough: Whether half precision takes part somewhere, so that all tolerances are its.
        leeway: By how much more each value may differ.
    """
    if expected.failure is None or found.failure is None:
        if expected.failure is not found.failure:
            yield Difference(
                "error",
                "raised",
                describe_failure(expected.failure),
                describe_failure(found.failure),
                expected.failure,
                found.failure,
            )
            return
    elif expected.failure.type != found.failure.type:
        yield Difference(
            "error",
            "type",
            describe_failure(expected.failure),
            describe_failure(found.failure),
            expected.failure,
            found.failure,
        )
    scale = largest(expected)
    for name, theirs in expected.facts.items():
        if name not in found.facts:
            if expected.failure is None:
                yield Difference(name, "is missing", theirs, None)
            continue
        extra = (leeway or {}).get(name, 0.0)
        yield from compare(name, theirs, found.facts[name], rough, scale, extra)


def describe_failure(failure: Failure | None) -> str:
    if failure is None:
        return "no error"
    return f"{failure.type} at `{failure.line}`: {failure.message}"


def compare(
    name: str, theirs: Any, ours: Any, rough: bool, scale: float, leeway: float
) -> Iterator[Difference]:
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for i, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from compare(f"{name}[{i}]", one, other, rough, scale, leeway)
        return
    if type(theirs) is not type(ours):
        is_zero = theirs is None and isinstance(ours, Tensor) and not ours.elements.any()
        yield Difference(name, "zeros for None" if is_zero else "type", theirs, ours)
        return
    if not isinstance(theirs, Tensor):
        if isinstance(theirs, float) and isinstance(ours, float):
            tolerance = (1e-1 if rough else 1e-4) * scale + leeway
            if math.isclose(theirs, ours, rel_tol=1e-4, abs_tol=tolerance):
                return
            if math.isnan(theirs) and math.isnan(ours):
                return
        if theirs != ours and not leeway:
            yield Difference(name, "value", theirs, ours)
        return
    facts = ("dtype", "shape", "requires_grad", "is_leaf", "has_node")
    if theirs.elements.dtype.kind not in "fc" and not ours.requires_grad:
        # PyTorch gives integers a history when they are written to; nothing follows from it.
        facts = facts[:2]
    for fact in facts:
        one, other = getattr(theirs, fact), getattr(ours, fact)
        # Rounding may decide how many elements are selected.
        if one != other and not (fact == "shape" and math.isinf(leeway)):
            yield Difference(name, fact, one, other)
    if theirs.dtype == ours.dtype and theirs.shape == ours.shape:
        error = distance(theirs, ours, rough, scale, leeway)
        if error:
            yield Difference(name, "elements", theirs.elements.tolist(), ours.elements.tolist())


def distance(theirs: Tensor, ours: Tensor, rough: bool, scale: float, leeway: float) -> bool:
    """Whether elements differ by more than rounding explains."""
    expected, found = theirs.elements, ours.elements
    if expected.dtype.kind not in "fc":
        return not np.array_equal(expected, found) and not leeway
    relative = 1e-1 if rough else TOLERANCES.get(theirs.dtype, 3e-4)
    absolute = relative * scale * (1e-1 if relative > 1e-5 else 1.0) + leeway
    return not np.allclose(found, expected, rtol=relative, atol=absolute, equal_nan=True)


def sensitivity(program: Program, lib: Any, expected: Observation, rough: bool) -> dict[str, float]:
    """By how much each value changes, at most, when inputs or results change as by rounding."""
    size = 2e-2 if rough else 2e-6
    moved: dict[str, float] = {}
    for seed in range(6):
        note_change(
            moved, expected, observe(program, lib, noise=np.random.default_rng(seed), size=size)
        )
    if importlib.util.find_spec("torch") is not None:
        import torch

        from tests.fuzz.rounding import Rounding

        exact = observe(program, torch)
        for seed in (None, *range(6)):
            with Rounding(seed):
                rounded = observe(program, torch)
            note_change(moved, exact, rounded)
    return moved


def note_change(moved: dict[str, float], expected: Observation, other: Observation) -> None:
    for name, value in expected.facts.items():
        moved[name] = max(moved.get(name, 0.0), change(value, other.facts.get(name)))
    if (other.failure is None) != (expected.failure is None):
        moved["error"] = math.inf


def change(value: Any, other: Any) -> float:
    """How far two values of the same kind are apart; infinitely far if they cannot be compared."""
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        return max((change(a, b) for a, b in zip(value, other, strict=True)), default=0.0)
    if type(value) is not type(other):
        return math.inf
    if not isinstance(value, Tensor):
        if isinstance(value, float):
            return 100 * abs(value - other)
        return 0.0 if value == other else math.inf
    if value.shape != other.shape or value.dtype != other.dtype:
        return math.inf
    if value.elements.dtype.kind not in "fc":
        return 0.0 if np.array_equal(value.elements, other.elements) else math.inf
    with np.errstate(all="ignore"):
        same = (value.elements == other.elements) | (
            np.isnan(value.elements) & np.isnan(other.elements)
        )
        apart = np.where(same, 0.0, np.abs(value.elements - other.elements))
    worst = float(np.max(apart, initial=0.0))
    return math.inf if math.isnan(worst) else 100 * worst


def maps() -> int:
    """How many memory maps this process has, of which Linux allows 65,530."""
    if not sys.platform.startswith("linux"):
        return 0
    with open("/proc/self/maps", "rb") as file:
        return sum(1 for _ in file)
