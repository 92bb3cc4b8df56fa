"""A situation: a program with a compiled function, and a change of the world around it."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from typing import Literal

Demand = Literal["equal", "warning", "refused"]

_IMPORTS = {
    "np": "import numpy as np",
    "flambeau": "import flambeau",
    "nn": "from flambeau import nn",
    "F": "import flambeau.nn.functional as F",
    "SimpleNamespace": "from types import SimpleNamespace",
    "Any": "from typing import Any",
}
_LIBRARIES = re.findall(
    r"\w+",
    "abc array asyncio builtins collections contextlib contextvars copy dataclasses datetime enum "
    "fractions functools inspect io itertools json math numbers operator os pathlib pickle queue "
    "random secrets socket string subprocess sys tempfile threading time types typing uuid "
    "warnings weakref",
)


@dataclass(frozen=True)
class Situation:
    """A combination of where a value lives, how the code reaches it and how it changes.

    Attributes:
        name: The combination, part by part: unique, and the same in every run.
        world: Python source that defines the function `f` and what stands around it.
        change: Source of the change.
        back: Source that changes everything back.
        local: Whether the world is the body of a function, so that its names are closure cells.
        target: The expression that is compiled.
        call: The expression that calls ``run``, the compiled function, on ``x``.
        demand: That compiled results are ``"equal"`` to eager's; or ``"refused"``: equal up to a
            `CompileError`, if there is one, and throughout with ``fullgraph=False``; or, for what
            the documentation says cannot be seen, a ``"warning"`` at the trace.
        matters: Whether the change changes what eager gives; otherwise it may or may not.
        settles: How many calls in an unchanged world may trace: 2 where the first makes something
            that lives on.
    """

    name: str
    world: str
    change: str
    back: str
    local: bool = False
    target: str = "f"
    call: str = "run(x)"
    demand: Demand = "equal"
    matters: bool = True
    settles: int = 1

    def source(self) -> str:
        """The world as a module that defines ``make_target``, ``call``, ``change``, ``back``."""
        parts = [
            self.world.strip("\n"),
            _function("change()", self.change, self.local),
            _function("back()", self.back, self.local),
            f"def call(run, x):\n    return {self.call}",
            f"target = {self.target}",
        ]
        body = "\n\n".join(parts)
        if self.local:
            inner = textwrap.indent(body, "    ")
            body = (
                f"def world():\n{inner}\n\n    return target, call, change, back\n\n\n"
                "target, call, change, back = world()"
            )
        return f"{_imports(body)}\n\n{body}\n"

    def script(self) -> str:
        """The same as a script that prints what eager and compiled calls give."""
        return (
            f"# {self.name}\n{self.source()}\n"
            "x = flambeau.tensor([1.0, -2.0])\n"
            "run = flambeau.compile(target)\n"
            "for step in (None, change, back):\n"
            "    if step is not None:\n"
            "        step()\n"
            "    for name, called in (('eager', target), ('compiled', run)):\n"
            "        try:\n"
            "            print(name, call(called, x))\n"
            "        except Exception as error:\n"
            "            print(name, repr(error))\n"
        )


def _function(head: str, body: str, local: bool) -> str:
    """A function that changes names around it."""
    body = textwrap.dedent(body).strip("\n") or "pass"
    names = sorted(_rebound(body))
    if names:
        body = f"{'nonlocal' if local else 'global'} {', '.join(names)}\n{body}"
    return f"def {head}:\n{textwrap.indent(body, '    ')}"


def _rebound(body: str) -> set[str]:
    """The names that statements bind or delete."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(body)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.DictComp):
            waiting += ast.iter_child_nodes(node)
    return {name for name in found if not name.startswith("_")}


def _imports(body: str) -> str:
    lines = [f"import {name}" for name in _LIBRARIES if re.search(rf"\b{name}\.", body)]
    lines += [
        line
        for name, line in _IMPORTS.items()
        if name == "flambeau" or re.search(rf"(?<!\.)\b{name}\b(?!\s*=)", body)
    ]
    return "\n".join(lines)
