"""Programs from random numbers; each statement is run as it is chosen, so that most make sense."""

from __future__ import annotations

import contextlib
import re
import warnings
from typing import Any

import numpy as np

from tests.fuzz import catalogue
from tests.fuzz.program import COMPLEX, FLOATING, INTEGER, Input, Program, Statement

# Few shapes, so that programs share kernels: compiling one takes longer than running a thousand.
SHAPES = [(3,), (2, 3), (3, 3), (2, 3, 3), (), (2, 2, 4, 4)]
OTHER_SHAPES = {
    *((0,), (1,), (2,), (4,), (6,), (9,), (1, 3), (3, 1), (2, 1), (3, 2), (2, 2), (1, 1), (0, 3)),
    *(
        (6, 3),
        (2, 9),
        (3, 2, 3),
        (3, 3, 2),
        (2, 1, 3),
        (2, 2),
        (2, 2, 2, 2),
        (4, 4),
        (5, 3),
        (2, 6),
    ),
}
NUMBERS = ["2", "0.5", "-1.5", "1", "-1", "0.25", "3"]
INDICES = [
    "0",
    "-1",
    "1:",
    ":1",
    "::2",
    "1",
    "..., 0",
    "None, 0",
    ":, 0",
    "0, 1",
    ":, 1:",
    "1, ...",
]
LARGEST = 200.0
PLACEHOLDER = re.compile(r"\{(\w+)\}")
MASKS = ["({} > 0.1)", "({} < 0)", "({} != 0)", "({} >= -0.5)"]


class NoOperandError(Exception):
    """Nothing that there is fits the placeholder."""


# So many programs in a row draw from one vocabulary, and so share their compiled operators.
BLOCK = 1500
DIMENSIONS = [0, -1, 1, -2]


class Vocabulary:
    """The small part of the catalogue, and of all shapes, that a block of programs draws from.

    A program runs in milliseconds, and an operator compiles in twenty for each new shape, dtype and
    static argument. A block uses few operators in many programs, and the next one uses others.
    """

    def __init__(self, seed: int, block: int) -> None:
        random = np.random.default_rng((seed, block, 1))

        def some(options: list[Any], share: float, least: int = 2) -> list[Any]:
            count = max(least, round(share * len(options)))
            return [options[i] for i in random.permutation(len(options))[:count]]

        self.values = {name: some(each, 0.05) for name, each in catalogue.VALUES.items()}
        self.writes = some(catalogue.WRITES, 0.1)
        self.effects = some(catalogue.EFFECTS, 0.4)
        self.eager_only = some(catalogue.EAGER_ONLY, 0.15)
        self.modules = some(catalogue.OUTSIDE_MODULES, 0.15)
        self.optimizers = some(catalogue.OUTSIDE_OPTIMIZERS, 0.15)
        self.shapes = some(SHAPES[:3], 0.6) + some(SHAPES[3:], 0.3, 1)
        self.welcome = {*self.shapes, (), *some(sorted(OTHER_SHAPES), 0.2)}
        self.dtypes = some([*FLOATING, *COMPLEX, *INTEGER, "bool"], 0.1)
        self.indices = some(INDICES, 0.2)
        self.numbers = some(NUMBERS, 0.3)
        self.dimensions = some(DIMENSIONS, 0.5)
        self.masks = some(MASKS, 0.5)


class Generator:
    """One program in the making.

    Args:
        lib: The library that runs each statement as it is chosen.
        seed: What the program depends on: the search's seed, its index there, and the attempt.
    """

    def __init__(self, lib: Any, seed: tuple[int, ...]) -> None:
        self.lib = lib
        self.random = np.random.default_rng(seed)
        self.words = Vocabulary(seed[0], seed[1] // BLOCK)
        self.eager_only = self.chance(0.3)
        self.dtypes = self.choice([["float32"]] * 5 + [["float32", "float64"], ["float32", "any"]])
        self.inputs: list[Input] = []
        self.outside: list[Statement] = []
        self.arguments: list[Input] = []
        self.statements: list[Statement] = []
        self.values: dict[str, Any] = {}
        self.names: list[str] = []
        self.count = 0
        self.used_eager_only = False
        self.failed = False

    # Chances

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def choice(self, options: Any) -> Any:
        return options[int(self.random.integers(len(options)))]

    # The program

    def program(self) -> Program:
        for i in range(int(self.random.integers(1, 3))):
            self.inputs.append(self.input(f"w{i}", self.chance(0.75)))
        for i in range(int(self.random.integers(1, 4))):
            self.arguments.append(self.input(f"x{i}", self.chance(0.3)))
        self.restart()
        self.names = [each.name for each in self.inputs]
        self.make_outside()
        self.restart()
        self.fill(self.statements, int(self.random.integers(3, 14)), [])
        results = self.choose_results()
        calls = [tuple(self.arguments)]
        for _ in range(int(self.random.integers(1, 3))):
            again = [
                self.input(each.name, each.requires_grad, each.shape, each.dtype)
                for each in self.arguments
            ]
            calls.append(tuple(again))
        return Program(
            tuple(self.inputs),
            tuple(self.outside),
            tuple(calls),
            tuple(self.statements),
            tuple(results),
            self.chance(0.5),
            not self.used_eager_only,
        )

    def choose_results(self) -> list[str]:
        made = [each for each in self.names if each[0] == "v"]
        if not made:
            return self.names[:1]
        count = int(self.random.integers(1, 5))
        recent = made[-6:]
        picked = self.random.permutation(len(recent))[:count]
        chosen = [recent[i] for i in sorted(picked)]
        return [*chosen, self.choice(self.names)] if self.chance(0.1) else chosen

    def input(self, name: str, leaf: bool, shape: Any = None, dtype: str = "") -> Input:
        if shape is None:
            first, second, rare = self.words.shapes
            shape = first if self.chance(0.5) else second if self.chance(0.6) else rare
            dtype = self.choice(self.dtypes)
            if dtype == "any" or self.chance(0.1):
                dtype = self.choice(self.words.dtypes)
        size = int(np.prod(shape))
        if dtype in FLOATING:
            elements: Any = np.round(self.random.normal(size=size), 2)
        elif dtype in COMPLEX:
            elements = np.round(self.random.normal(size=(2, size)), 2)
            elements = elements[0] + 1j * elements[1]
        elif dtype == "bool":
            elements = self.random.random(size) < 0.5
        else:
            elements = self.random.integers(0, 5, size)
        return Input(name, dtype, shape, tuple(elements.tolist()), leaf and dtype in FLOATING)

    def make_outside(self) -> None:
        count = 0
        if self.chance(0.3):
            for _ in range(int(self.random.integers(1, 3))):
                made = self.choice(self.words.modules)
                count += self.add_outside(f"m{count} = {made}")
        for _ in range(2):
            if self.chance(0.2):
                with contextlib.suppress(NoOperandError):
                    self.add_outside(self.filled(self.choice(catalogue.OUTSIDE_HOOKS)))
        if self.chance(0.2):
            with contextlib.suppress(NoOperandError):
                made = self.filled(self.choice(self.words.optimizers))
                self.add_outside(f"o0 = {made}")

    def add_outside(self, text: str) -> bool:
        try:
            self.execute(text)
        except Exception:  # noqa: BLE001
            return False
        self.outside.append(Statement(text))
        return True

    # Running

    def restart(self) -> None:
        """The state at the start of the step, and then what the statements made of it."""
        self.values = {"lib": self.lib, "F": self.lib.nn.functional}
        program = Program(
            tuple(self.inputs),
            tuple(self.outside),
            (tuple(self.arguments),),
            tuple(self.statements) or (Statement("pass"),),
            (),
        )
        with quiet():
            exec(program.source(), self.values)
        given = zip(self.arguments, self.values["calls"][0], strict=True)
        self.values.update({each.name: value for each, value in given})
        known = [each.name for each in (*self.inputs, *self.arguments)]
        self.names = known
        for each in self.statements:
            self.execute("\n".join(each.lines()))
        made = [name for name in self.values if re.fullmatch(r"v\d+", name)]
        self.names = [*known, *made]

    def execute(self, text: str) -> None:
        with quiet():
            exec(text, self.values)

    # Statements

    def fill(self, statements: list[Statement], count: int, heads: list[str]) -> None:
        """Add up to ``count`` statements, inside blocks with these heads."""
        for _ in range(count):
            if self.failed:
                return
            if not heads and self.chance(0.08):
                self.add_block(statements)
            else:
                self.add(statements, heads)

    def add_block(self, statements: list[Statement]) -> None:
        if self.chance(0.35):
            self.add_function(statements)
            return
        head = self.filled(self.choice(catalogue.BLOCKS))
        body: list[Statement] = []
        self.fill(body, int(self.random.integers(1, 4)), [head])
        if body:
            statements.append(Statement(head, tuple(body)))

    def add_function(self, statements: list[Statement]) -> None:
        """A function of one tensor, called with two."""
        same = [name for name in self.tensors() if self.is_floating(name)]
        if not same:
            return
        first = self.choice(same)
        shape = self.values[first].shape
        others = [name for name in same if self.values[name].shape == shape]
        parameter = f"p{self.count}"
        self.values[parameter] = self.values[first]
        self.names.append(parameter)
        body: list[Statement] = []
        before = len(self.names)
        self.fill(body, int(self.random.integers(1, 4)), ["if True:"])
        made = [each for each in self.names[before:] if each[0] == "v"]
        for each in made:
            self.values.pop(each, None)
        self.names = self.names[: before - 1]
        self.values.pop(parameter, None)
        if self.failed or not made:
            self.restart()
            return
        name = f"f{self.count}"
        function = Statement(f"def {name}({parameter}):", (*body, Statement(f"return {made[-1]}")))
        statements.append(function)
        for operand in (first, self.choice(others)):
            target = self.name()
            statements.append(Statement(f"{target} = {name}({operand})"))
        try:
            self.restart()
        except Exception:  # noqa: BLE001
            del statements[-3:]
            self.restart()

    def add(self, statements: list[Statement], heads: list[str]) -> None:
        """One more statement: a few tries, then none."""
        for _ in range(8):
            template, is_value = self.template()
            try:
                text = self.filled(template)
            except NoOperandError:
                continue
            target = self.name() if is_value else ""
            line = f"{target} = {text}" if is_value else text
            if self.attempt(line, target, heads, statements):
                return

    def template(self) -> tuple[str, bool]:
        if self.eager_only and self.chance(0.1):
            self.used_eager_only = True
            return self.choice(self.words.eager_only), True
        kind = self.random.random()
        if kind < 0.2:
            return self.choice(self.words.writes), False
        if kind < 0.32:
            return self.choice(self.words.effects), False
        odds = [0.25, 0.13, 0.22, 0.08, 0.08, 0.12, 0.07, 0.05]
        name = self.random.choice(list(self.words.values), p=odds)
        return self.choice(self.words.values[name]), True

    def attempt(
        self, line: str, target: str, heads: list[str], statements: list[Statement]
    ) -> bool:
        """Run a statement, and keep it if it works; seldom keep one that fails, as the last."""
        inner = Statement(line)
        nested = inner
        for head in reversed(heads):
            nested = Statement(head, (nested,))
        try:
            self.execute("\n".join(nested.lines()))
        except Exception:  # noqa: BLE001
            if self.chance(0.012):
                statements.append(inner)
                self.failed = True
                return True
            if not target and not heads:
                self.restart()
            return False
        if target:
            if not self.is_welcome(self.values[target]):
                del self.values[target]
                return False
            self.names.append(target)
        elif not all(self.is_welcome(self.values[name]) for name in self.names):
            if heads:
                self.failed = True  # what was written cannot be taken back inside of a block
            else:
                self.restart()
            return False
        statements.append(inner)
        return True

    def is_welcome(self, value: Any) -> bool:
        """Whether later statements may go on from the value."""
        if not isinstance(value, self.lib.Tensor):
            return value is None or isinstance(value, bool | int | float | str | list)
        try:
            value.is_leaf  # noqa: B018
        except RuntimeError:  # PyTorch refuses some views once their base has been written
            return False
        if tuple(value.shape) not in self.words.welcome:
            return False
        if value.is_complex() and self.chance(0.7):
            return False
        if not value.numel() or value.dtype == self.lib.bool:
            return True
        largest = float(value.detach().abs().double().max())
        return largest < LARGEST or self.chance(0.02)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    # Placeholders

    def tensors(self) -> list[str]:
        return [each for each in self.names if isinstance(self.values[each], self.lib.Tensor)]

    def is_floating(self, name: str) -> bool:
        return self.values[name].is_floating_point()

    def filled(self, template: str) -> str:
        first: list[str] = []

        def fill(match: re.Match[str]) -> str:
            text = self.operand(match[1], first[0] if first else None)
            if not first and text in self.values and isinstance(self.values[text], self.lib.Tensor):
                first.append(text)
            return text

        return PLACEHOLDER.sub(fill, template)

    def operand(self, kind: str, first: str | None) -> str:
        simple = {
            "s": self.words.numbers,
            "k": ["1", "0", "2"],
            "i": self.words.indices,
            "flag": ["True", "False"],
            "dtype": ["float32", *self.words.dtypes],
            "module": [each for each in self.values if re.fullmatch(r"m\d+", each)],
            "optimizer": [each for each in self.values if re.fullmatch(r"o\d+", each)],
        }
        if kind in simple:
            return self.pick(simple[kind])
        if kind == "d":
            return str(self.dimension(self.values[first].dim() if first else 1))
        if kind == "parameters":
            modules = [f"{each}.parameters()" for each in simple["module"]]
            leaves = [each.name for each in self.inputs if each.requires_grad]
            return self.pick(modules + ([f"[{', '.join(leaves)}]"] if leaves else []))
        if kind == "m":
            name = first if first and self.chance(0.7) else self.pick(self.tensors())
            return self.choice(self.words.masks).format(name)
        return self.pick([each for each in self.tensors() if self.fits(each, kind, first)])

    def dimension(self, rank: int) -> int:
        """A dimension of a tensor of that rank, from the block's if one of them fits."""
        fitting = [each for each in self.words.dimensions if -rank <= each < max(rank, 1)]
        return self.choice(fitting or [0])

    def pick(self, options: list[str]) -> str:
        """One of them, later ones more often."""
        if not options:
            raise NoOperandError
        if self.chance(0.5):
            return options[max(-len(options), -1 - int(self.random.integers(3)))]
        return self.choice(options)

    def fits(self, name: str, kind: str, first: str | None) -> bool:
        value = self.values[name]
        ranks = {"v": 1, "t": 2, "q": 2, "c": 3, "g": 4}
        if kind == "a":
            return True
        if kind == "l":
            return name[0] in "wx" and value.requires_grad and value.is_leaf
        if kind == "r":
            return value.requires_grad
        if kind == "w":
            return not (value.is_leaf and value.requires_grad) or self.chance(0.1)
        if kind == "n":
            return not value.is_floating_point() and not value.is_complex()
        if kind == "b":
            return first is None or broadcasts(value.shape, self.values[first].shape)
        if not value.is_floating_point():
            return False
        if kind in ranks:
            return value.dim() == ranks[kind] and (kind != "q" or len(set(value.shape)) == 1)
        if kind in "yz":
            return first is None or value.shape == self.values[first].shape
        return True


def broadcasts(shape: Any, target: Any) -> bool:
    """Whether a tensor of the shape broadcasts to the target."""
    tail = tuple(target)[len(target) - len(shape) :]
    return len(shape) <= len(target) and all(
        one in (1, other) for one, other in zip(shape, tail, strict=True)
    )


@contextlib.contextmanager
def quiet() -> Any:
    """Without warnings, which programs are not compared by."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def generate(lib: Any, seed: tuple[int, ...]) -> Program:
    """The program of a seed. What the library refuses is left out, so the library matters too."""
    for attempt in range(10):
        # Where a statement depends on one that was tried and left out, the program is another one.
        with contextlib.suppress(Exception):
            return Generator(lib, (*seed, attempt)).program()
    raise RuntimeError(f"there is no program for the seed {seed}")
