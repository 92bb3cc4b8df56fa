"""A search for programs that take a wrong answer for granted: ``python -m tests.fuzz.answers``.

A random function asks for values of tensors: it branches on them, makes numbers, shapes and lengths
of loops of them, and changes buffers, parameters, gradients and a list meanwhile. It is called with
random arguments, eagerly and compiled with ``fullgraph=False``, each in a world of its own, and
after each call everything must be equal, to rounding.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from random import Random
from typing import Any

import flambeau
from tests.fuzz.report import Disagreement, Report, main

#: Calls of each function.
CALLS = 16
SIZE = 3
#: What a question may be, of a tensor ``{x}``; each gives a bool.
BOOLS = (
    "({x}.sum() > {c})", "({x} > {c}).any()", "({x} < {c}).all()", "({x}[0] > {x}[1])",
    "bool({x}.max() > {c})", "{x}.sum().item() > {c}", "not ({x}.mean() < {c})",
    "flambeau.equal({x}, {x}.abs())", "float({x}[2]) == {c}", "{x}.argmax() == 1",
    "state['flag']", "({x}.sum() > 0) == ({y}.sum() > 0)", "flambeau.allclose({x}, {y})",
)  # fmt: skip
#: What gives a whole number between 0 and 3.
INTEGERS = (
    "int(({x} > {c}).sum())", "{x}.argmax().item()", "int({x}.argmin())",
    "int(({y} > {c}).sum())", "len({x}[{x} > {c}])", "{x}.nonzero().shape[0]",
    "flambeau.where({x} > {c})[0].numel()", "len({x}.masked_select({y} < {c}))",
)  # fmt: skip
#: What gives a number.
NUMBERS = ("{x}.sum().round().item()", "float({x}[0])", "{x}.max().sign().item()")
#: What a statement does, with a tensor ``x`` in the end.
STATEMENTS = (
    "x = x + {c}", "x = x * {y}", "x = x.sin()", "x = x - layer(x)", "x = x.flip(0)",
    "state['mean'].mul_(0.5).add_(x.detach())", "layer.bias.data.add_({c})",
    "state['count'].add_(1)", "x = x + state['mean']", "x = x + state['count']",
    "state['flag'].logical_not_()", "(x * layer.weight).sum().backward()",
    "x = x * {n}", "x = x + state['mean'] * {n}", "log.append(x.detach().sum())",
    "layer.weight.grad = None", "x = x[{i} % 3] + x", "x = flambeau.zeros({i} + 3)[:3] + x",
    "state['count'] = state['count'] + {i}", "x = flambeau.cat([x[:{i}], x[{i}:]])",
    "x = x.clone(); x[{i} % 3] = {c}", "x = x + {x}[{y} > {c}].sum()",
    "x = x + len(flambeau.unique({x}.round()))",
    "x = x.repeat_interleave(({y} > {c}).long() + 1)[:3]",
    "x = x.clone(); x[x > {c}] = {y}[:int((x > {c}).sum())]",
    "x = x + flambeau.zeros(len({x}[{x} > {c}]) + 3)[:3]",
)  # fmt: skip


def program_of(seed: int, index: int) -> str:
    """The source of a function ``step(x, y)``, which finds ``layer``, ``state`` and ``log``."""
    random = Random(f"{seed} {index}")
    lines = ["def step(x, y):", *_block(random, "    ", 3), "    return x"]
    return "\n".join(lines) + "\n"


def _block(random: Random, margin: str, depth: int) -> Iterator[str]:
    for _ in range(random.randint(1, 3)):
        kind = random.random() if depth else 0.0
        if kind < 0.45:
            yield margin + _filled(random, random.choice(STATEMENTS))
        elif kind < 0.75:
            yield f"{margin}if {_filled(random, random.choice(BOOLS))}:"
            yield from _block(random, margin + "    ", depth - 1)
            if random.random() < 0.5:
                yield f"{margin}else:"
                yield from _block(random, margin + "    ", depth - 1)
        elif kind < 0.9:
            yield f"{margin}for _ in range({_filled(random, random.choice(INTEGERS))}):"
            yield from _block(random, margin + "    ", depth - 1)
        else:
            condition = _filled(random, random.choice(BOOLS))
            # A loop inside of another one counts by itself.
            yield f"{margin}rounds_{depth} = 0"
            yield f"{margin}while rounds_{depth} < 2 and {condition}:"
            yield f"{margin}    rounds_{depth} += 1"
            yield from _block(random, margin + "    ", depth - 1)


def _filled(random: Random, template: str) -> str:
    template = template.replace("{n}", random.choice(NUMBERS))
    template = template.replace("{i}", random.choice(INTEGERS))
    constant = random.choice(("0", "1", "-1", "0.5"))
    other = random.choice(("y", "x", "state['mean']"))
    return template.format(x=random.choice(("x", "x", "y")), y=other, c=constant)


def arguments_of(seed: int, index: int) -> list[tuple[list[float], list[float]]]:
    """The arguments of each call: few different ones, some of them again and again."""
    random = Random(f"{seed} {index} arguments")
    few = [[float(random.randint(-2, 2)) for _ in range(SIZE)] for _ in range(3)]
    calls: list[tuple[list[float], list[float]]] = []
    while len(calls) < CALLS:
        pair = (random.choice(few), random.choice(few))
        calls += [pair] * random.choice((1, 2, 3, 4))
    return calls[:CALLS]


class World:
    """What a function finds, and the function.

    Args:
        source: See `program_of`.
        compiled: Whether its calls become programs where they can.
    """

    def __init__(self, source: str, compiled: bool) -> None:
        self.layer = flambeau.nn.Linear(SIZE, SIZE)
        with flambeau.no_grad():
            for each in self.layer.parameters():
                each.copy_(flambeau.arange(each.numel()).reshape(each.shape) / 8 - 0.5)
        self.state = {
            "mean": flambeau.zeros(SIZE), "count": flambeau.zeros(()),
            "flag": flambeau.tensor(False),
        }  # fmt: skip
        self.log: list[Any] = []
        found: dict[str, Any] = {
            "flambeau": flambeau, "layer": self.layer, "state": self.state, "log": self.log
        }  # fmt: skip
        exec(compile(source, "<a random function>", "exec"), found)
        step = found["step"]
        self.step = flambeau.compile(step, fullgraph=False) if compiled else step

    def call(self, x: list[float], y: list[float]) -> dict[str, Any]:
        """Everything there is after a call with these arguments."""
        try:
            result = self.step(flambeau.tensor(x), flambeau.tensor(y))
        except Exception as error:  # noqa: BLE001 (its type is compared)
            return {"error": type(error).__name__}
        seen = {
            "result": result.tolist(), "requires_grad": result.requires_grad,
            "log": [each.tolist() for each in self.log],
        }  # fmt: skip
        seen |= {name: each.tolist() for name, each in self.state.items()}
        for name, each in self.layer.named_parameters():
            seen[name] = each.tolist()
            seen[f"gradient of {name}"] = None if each.grad is None else each.grad.tolist()
        return seen


def judged(source: str, calls: list[tuple[list[float], list[float]]]) -> tuple[str, int]:
    """What differs, in words, if anything does; and how many programs there are."""
    eager, compiled = World(source, False), World(source, True)
    for number, (x, y) in enumerate(calls):
        expected, found = eager.call(x, y), compiled.call(x, y)
        if not all(map(_is_small, expected.values())):
            # Where numbers grow without bounds, rounding decides.
            break
        for name in {**found, **expected}:
            if not _agrees(expected.get(name), found.get(name)):
                said = f"{name} is {found.get(name)}, not {expected.get(name)}"
                return f"call {number}: {said}", compiled.step.program_count
        if "error" in expected:
            # What a call that fails leaves is not compared.
            break
    return "", compiled.step.program_count


def _is_small(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_small, value))
    return not isinstance(value, float) or abs(value) < 1e4


def _agrees(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_agrees, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or abs(one - other) <= 1e-4 * max(1.0, abs(one))
    return one == other


def run(seconds: float | None, seed: int, limit: int | None) -> Report:
    """Judge random functions.

    Args:
        seconds: When to stop.
        seed: Decides the functions and their arguments.
        limit: How many functions to judge at most.
    """
    report, began, index = Report("answers", seed), time.monotonic(), 0
    while (limit is None or index < limit) and (
        seconds is None or time.monotonic() - began < seconds
    ):
        source, calls = program_of(seed, index), arguments_of(seed, index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said, programs = judged(source, calls)
        report.counts.update({"functions": 1, "calls": len(calls), "programs": programs})
        if said:
            shown = f"{source}\n# calls: {calls}\n"
            report.disagreements.append(Disagreement(f"function {index}: {said}", shown))
        index += 1
    report.seconds = time.monotonic() - began
    return report


if __name__ == "__main__":
    sys.exit(main(run))
