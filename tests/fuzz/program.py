"""A program as data: what stands outside, the statements of a step, and the calls of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

HALF = ("float16", "bfloat16")
FLOATING = (*HALF, "float32", "float64")
COMPLEX = ("complex64",)
INTEGER = ("uint8", "int32", "int64")


@dataclass(frozen=True)
class Input:
    """A tensor with given elements."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: tuple[Any, ...]
    requires_grad: bool = False

    def expression(self, noise: np.random.Generator | None = None, size: float = 0.0) -> str:
        """The tensor as Python, its floating elements moved by a relative ``size``."""
        values = np.array(self.elements, dtype=object)
        if noise is not None and self.dtype in FLOATING + COMPLEX:
            values = np.array([v + size * noise.choice([-1, 1]) * max(abs(v), 0.1) for v in values])
        nested = values.reshape(self.shape).tolist()
        leaf = ", requires_grad=True" if self.requires_grad else ""
        return f"lib.tensor({nested}, dtype=lib.{self.dtype}{leaf})"


@dataclass(frozen=True)
class Statement:
    """A line of Python, or the head of a block and what stands in it."""

    text: str
    body: tuple[Statement, ...] = ()

    def lines(self, indentation: str = "") -> Iterator[str]:
        yield indentation + self.text
        for each in self.body:
            yield from each.lines(indentation + "    ")


@dataclass(frozen=True)
class Program:
    """A function of tensors, what it finds outside, and the arguments of each of its calls."""

    inputs: tuple[Input, ...]
    """Tensors outside of the function."""
    outside: tuple[Statement, ...]
    """Statements outside of the function, such as those that make layers and optimizers."""
    calls: tuple[tuple[Input, ...], ...]
    step: tuple[Statement, ...]
    results: tuple[str, ...]
    backward_outside: bool = False
    """Whether the caller goes backward through the results of each call."""
    compilable: bool = True
    """Whether nothing in it asks for a value in Python."""

    def source(self, noise: np.random.Generator | None = None, size: float = 0.0) -> str:
        """The definitions, for a namespace that has ``lib``."""
        parameters = ", ".join(each.name for each in self.calls[0])
        lines = ["F = lib.nn.functional", "lib.manual_seed(0)"]
        lines += [f"{each.name} = {each.expression(noise, size)}" for each in self.inputs]
        for each in self.outside:
            lines += each.lines()
        lines += ["", f"def step({parameters}):"]
        for each in self.step:
            lines += each.lines("    ")
        lines += [f"    return [{', '.join(self.results)}]", "", "calls = ["]
        for call in self.calls:
            lines.append(f"    [{', '.join(each.expression(noise, size) for each in call)}],")
        return "\n".join([*lines, "]"]) + "\n"

    def script(self, library: str, compiled: bool) -> str:
        """The program as a file of its own, which prints what is compared."""
        lines = [f"import {library} as lib", "", self.source()]
        if compiled:
            lines.append("step = lib.compile(step)")
        lines += ["for arguments in calls:", "    results = step(*arguments)"]
        if self.backward_outside:
            lines += [
                "    ways = [each for each in results if each is not None and each.requires_grad]",
                "    sum((each * each.conj()).real.sum() for each in ways).backward()",
            ]
        names = [each.name for each in self.inputs]
        lines.append(f"    print(results, arguments, [{', '.join(names)}])")
        lines.append(
            "    print([each.grad for each in "
            f"[*arguments, {', '.join(names)}] if each.is_leaf and each.requires_grad])"
        )
        return "\n".join(lines) + "\n"
