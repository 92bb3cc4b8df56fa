"""The shape of the function around an expression: what kind of code asks for the value."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A shape.

    Attributes:
        name: What it is.
        source: Defines ``f``; ``PARAMS`` stands for its parameters besides ``x``, ``LINES`` for
            statements, ``EXPR`` for the expression.
        takes_lines: Whether there is a place for statements.
        forwards: Whether the code with the expression is ``f`` itself, so that it has ``PARAMS``.
    """

    name: str
    source: str
    takes_lines: bool = True

    def render(self, lines: str, expression: str, params: str) -> str:
        """The function's source."""
        source = self.source
        for indent in ("            ", "        ", "    "):
            filled = textwrap.indent(lines, indent)
            source = source.replace(f"{indent}LINES\n", f"{filled}\n" if lines else "")
        return source.replace("PARAMS", params).replace("EXPR", expression)


DIRECT = Shape("direct", "def f(xPARAMS):\n    LINES\n    return x * EXPR")

SHAPES = (
    DIRECT,
    Shape("lambda", "f = lambda xPARAMS: x * EXPR", takes_lines=False),
    Shape("nested function", "def f(xPARAMS):\n    def inner():\n        LINES\n"
          "        return EXPR\n    return x * inner()"),
    Shape("lambda inside", "def f(xPARAMS):\n    return x * (lambda: EXPR)()", takes_lines=False),
    Shape("generator inside", "def f(xPARAMS):\n    def inner():\n        LINES\n"
          "        yield EXPR\n    return x * next(inner())"),
    Shape("coroutine inside", "def f(xPARAMS):\n    async def inner():\n        LINES\n"
          "        return EXPR\n    try:\n        inner().send(None)\n"
          "    except StopIteration as stop:\n        return x * stop.value"),
    Shape("comprehension inside", "def f(xPARAMS):\n    return [x * EXPR for _ in range(1)][0]",
          takes_lines=False),
    Shape("class body inside", "def f(xPARAMS):\n    LINES\n    class Inside:\n"
          "        rate = EXPR\n    return x * Inside.rate"),
    Shape("method of a class inside", "def f(xPARAMS):\n    class Inside:\n"
          "        def get(self):\n            LINES\n            return EXPR\n"
          "    return x * Inside().get()"),
    Shape("property of a class inside", "def f(xPARAMS):\n    class Inside:\n        @property\n"
          "        def rate(self):\n            LINES\n            return EXPR\n"
          "    return x * Inside().rate"),
    Shape("decorated", "def doubled(g):\n    @functools.wraps(g)\n    def around(*args, **given):\n"
          "        return g(*args, **given) * 2\n    return around\n\n"
          "@doubled\ndef f(xPARAMS):\n    LINES\n    return x * EXPR"),
    Shape("decorated without wraps", "def doubled(g):\n    return lambda *args, **given: "
          "g(*args, **given) * 2\n\n@doubled\ndef f(xPARAMS):\n    LINES\n    return x * EXPR"),
    Shape("try and finally", "def f(xPARAMS):\n    try:\n        LINES\n        return x * EXPR\n"
          "    finally:\n        pass"),
    Shape("condition", "def f(xPARAMS):\n    LINES\n    if EXPR == 2.0:\n"
          "        return x\n    return -x"),
    Shape("shape of a tensor", "def f(xPARAMS):\n    LINES\n"
          "    return x.sum() * flambeau.ones(max(int(EXPR), 1))"),
    Shape("context manager around", "def f(xPARAMS):\n    with flambeau.no_grad():\n"
          "        LINES\n        return x * EXPR"),
    Shape("contextmanager function", "@contextlib.contextmanager\ndef around():\n    yield 1.0\n\n"
          "def f(xPARAMS):\n    with around() as one:\n        LINES\n"
          "        return x * one * EXPR"),
    Shape("while loop", "def f(xPARAMS):\n    while True:\n        LINES\n        y = x * EXPR\n"
          "        break\n    return y"),
    Shape("argument of an operator", "def f(xPARAMS):\n    LINES\n"
          "    return flambeau.add(x, x, alpha=EXPR)"),
    Shape("augmented assignment", "def f(xPARAMS):\n    LINES\n    y = x + 0\n    y *= EXPR\n"
          "    return y"),
    Shape("nested twice", "def f(xPARAMS):\n    def outer():\n        def inner():\n"
          "            LINES\n            return EXPR\n        return inner\n"
          "    return x * outer()()"),
    Shape("key of sorted", "def f(xPARAMS):\n"
          "    return x * float(sorted([2, 3], key=lambda i: abs(i - EXPR))[0])",
          takes_lines=False),
    Shape("gradient", "def f(xPARAMS):\n    LINES\n    y = x.detach().clone().requires_grad_()\n"
          "    (y * y * EXPR).sum().backward()\n    return y.grad"),
    Shape("func.grad", "def f(xPARAMS):\n    def loss(y):\n        LINES\n"
          "        return (y * y * EXPR).sum()\n    return flambeau.func.grad(loss)(x)"),
    Shape("hook of a tensor", "def f(xPARAMS):\n    y = x.detach().clone().requires_grad_()\n"
          "    def hook(grad):\n        LINES\n        return grad * EXPR\n"
          "    (y * y).register_hook(hook)\n    y.register_hook(hook)\n"
          "    (y * y).sum().backward()\n    return y.grad"),
)  # fmt: skip
