"""The shortest program that still shows a disagreement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.fuzz.program import Program, Statement

Statements = tuple[Statement, ...]


def reduce(program: Program, fails: Callable[[Program], bool], tries: int = 400) -> Program:
    """Take parts away for as long as the program still fails.

    Args:
        program: A program that fails.
        fails: Whether a smaller one fails in the same way.
        tries: How many programs to run at most.
    """
    smaller = True
    while smaller:
        smaller = False
        for candidate in smaller_programs(program):
            tries -= 1
            if tries < 0:
                return program
            if fails(candidate):
                program, smaller = candidate, True
                break
    return program


def smaller_programs(program: Program) -> Iterator[Program]:
    """Every program that is one step smaller, the boldest steps first."""
    for i in range(len(program.calls)):
        if len(program.calls) > 1:
            yield replace(program, calls=without(program.calls, i))
    half = len(program.step) // 2
    if half > 1:
        yield replace(program, step=program.step[half:])
        yield replace(program, step=program.step[:half])
    for step in shorter(program.step):
        yield replace(program, step=step or (Statement("pass"),))
    for outside in shorter(program.outside):
        yield replace(program, outside=outside)
    if program.backward_outside:
        yield replace(program, backward_outside=False)
    for i in range(len(program.results)):
        yield replace(program, results=without(program.results, i))
    source = program.source()
    for i, each in enumerate(program.inputs):
        if len(re.findall(rf"\b{each.name}\b", source)) == 1:
            yield replace(program, inputs=without(program.inputs, i))
        elif each.requires_grad:
            changed = replace(each, requires_grad=False)
            yield replace(program, inputs=(*program.inputs[:i], changed, *program.inputs[i + 1 :]))
    for i, each in enumerate(program.calls[0]):
        if len(program.calls[0]) > 1 and len(re.findall(rf"\b{each.name}\b", source)) == 1:
            yield replace(program, calls=tuple(without(call, i) for call in program.calls))
        elif each.requires_grad:
            calls = tuple(
                tuple(
                    replace(a, requires_grad=a.requires_grad and j != i) for j, a in enumerate(call)
                )
                for call in program.calls
            )
            yield replace(program, calls=calls)


def without(items: tuple[Any, ...], i: int) -> tuple[Any, ...]:
    return items[:i] + items[i + 1 :]


def shorter(statements: Statements) -> Iterator[Statements]:
    """Without one statement, with a block's body in its place, or with a simpler expression."""
    for i, each in reversed(list(enumerate(statements))):
        if each.text == "pass":
            continue
        before, after = statements[:i], statements[i + 1 :]
        yield before + after
        if each.body:
            if not each.text.startswith("def "):
                yield before + each.body + after
            for body in shorter(each.body):
                yield (*before, replace(each, body=body or (Statement("pass"),)), *after)
        else:
            for text in simpler(each.text):
                yield (*before, Statement(text), *after)


def simpler(text: str) -> Iterator[str]:
    """``v3 = v1`` for ``v3 = v1.exp() + v2``: an operand in place of the whole."""
    target, is_assignment, expression = text.partition(" = ")
    if not is_assignment or not re.fullmatch(r"v\d+", target):
        return
    for name in dict.fromkeys(re.findall(r"\b[vwxp]\d+\b", expression)):
        if name != expression:
            yield f"{target} = {name}"
