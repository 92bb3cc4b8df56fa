"""Numbers among the arguments: inputs of one program, unless Python reads their values."""

import copy
import math
import random
import warnings

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileWarning

X = flambeau.arange(3.0)


class Kept(nn.Module):
    def forward(self, x, n):
        self.last = n
        return x + n


kept = Kept()


def attribute(x, n):
    result = kept(x, n)
    return result, kept.last


#: Functions that depend on the number in operators only; and those that read it in Python.
FOLLOWED = {
    "not at all": lambda x, n: x * 2,
    "an operand": lambda x, n: x * n + n - n / (x + 1),
    "on the left": lambda x, n: n - x,
    "compared with a tensor": lambda x, n: x > n,
    "of an in-place operator": lambda x, n: x.clone().mul_(n).add_(x, alpha=2.0),
    "returned": lambda x, n: (x, n, {"n": n}),
    "stored": attribute,
    "weighted": lambda x, n: flambeau.where(x > 1, x * n, x),
    "the schedule of a rate": lambda x, n: x * (0.5 * (1 + math.cos(n))),
    "asked for its class": lambda x, n: x * n if isinstance(n, int | float) else x,
    "its negative": lambda x, n: x * -(0.5 * n),
    "its complement": lambda x, n: x * (1.0 - n) + x * (0.5 * n),
    "held by a closure": lambda x, n: max([x], key=lambda y: 0 * (y * n).ndim) * n,
    "of a gradient": lambda x, n: flambeau.func.grad(lambda v: (v * v * n).sum())(x),
}
READ = {
    "an index": lambda x, n: x[int(n)],
    "a branch": lambda x, n: x * n if n > 1 else x - n,
    "a loop": lambda x, n: sum((x for _ in range(int(n))), x),
    "a text": lambda x, n: x * len(f"{n:.3f}"),
    "a key": lambda x, n: x * {0: 2, 1: 3, 2: 5}[n],
    "NumPy": lambda x, n: x * float(np.asarray(n) + 1),
    "an array": lambda x, n: x * float((np.ones(2) * n).sum()),
    "its copy": lambda x, n: x * copy.copy(n),
    "a static argument": lambda x, n: x.sum() if n else x.roll(1),
    "its class": lambda x, n: x * 2 if type(n) in (int, float) else x,
}


def outcome(function, *args):
    """A result in a form that compares."""
    try:
        found = function(*args)
    except Exception as error:  # noqa: BLE001 (compared)
        return type(error), str(error).partition("\n")[0]
    leaves, structure = flambeau.utils._pytree.tree_flatten(found)
    return str(structure), [
        (str(each.dtype), each.tolist())
        if isinstance(each, flambeau.Tensor)
        else (type(each), each)
        for each in leaves
    ]


@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize("name", [*FOLLOWED, *READ])
@pytest.mark.filterwarnings("ignore::flambeau.compile.errors.CompileWarning")
def test_a_program_holds_for_all_values_that_python_does_not_read(name, kind):
    function = {**FOLLOWED, **READ}[name]
    compiled = flambeau.compile(function, fullgraph=True)
    for value in map(kind, (0, 1, 2, 1)):
        assert outcome(compiled, X, value) == outcome(function, X, value)
    assert compiled.program_count == (1 if name in FOLLOWED else 3)


OPERANDS = ["x", "y", "n", "r", "2", "0.5", "True"]


def expression(draw, depth=3):
    """The text of a random expression."""
    if not depth or draw.random() < 0.15:
        return draw.choice(OPERANDS)
    parts = [expression(draw, depth - 1) for _ in range(2)]
    form = draw.choice(
        ["({} + {})", "({} - {})", "({} * {})", "({} * {})", "({} + {})", "(-{} + {})",
         "({} if r > 1 else {})", "({} / ({} + 3))", "max(n, 1) * {} - {}", "abs(r) * {} + {}",
         "({} + {}) * (n % 2)", "f({}, {})", "(lambda n: n * {})({})", "(r * {} + {} * n)"]
    )  # fmt: skip
    return form.format(*parts)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.filterwarnings("ignore::flambeau.compile.errors.CompileWarning")
def test_random_arithmetic_gives_what_python_gives(seed):
    check_arithmetic(random.Random(seed))


def check_arithmetic(draw):
    """Compare the values of two random expressions with those of eager calls."""
    text = f"lambda x, y, n, r, f: (x * 1.0, {expression(draw)}, {expression(draw)})"
    function = eval(text)
    compiled = flambeau.compile(function)
    tensors = X, flambeau.tensor(2.0)
    for n, r in ((1, 0.25), (2, 0.25), (3, 1.5), (1, 0.25), (-1, -0.5)):
        expected = outcome(function, *tensors, n, r, max_of)
        found = outcome(compiled, *tensors, n, r, max_of)
        assert str(found) == str(expected) or near(found, expected), text


def max_of(a, b):
    return a + b * 2


def near(found, expected):
    """Whether results differ by rounding only."""
    if found[0] != expected[0] or type(found[1]) is not list:
        return False
    return all(
        kind == other and np.allclose(value, wanted, rtol=1e-6)
        for (kind, value), (other, wanted) in zip(found[1], expected[1], strict=True)
    )


def test_numbers_beyond_64_bits_and_many_numbers_are_compared():
    total = flambeau.compile(lambda x, numbers: x * numbers[0], fullgraph=True)
    total(X, [0.5] * 40)
    total(X, [0.25] * 40)
    assert total.program_count == 2
    unused = flambeau.compile(lambda x, n: x, fullgraph=True)
    unused(X, 1 << 70)
    unused(X, 1 << 71)
    assert unused.program_count == 2


def test_equal_numbers_are_different_arguments():
    scaled = flambeau.compile(lambda x, a, b: x * a + b, fullgraph=True)
    assert scaled(X, 1, 1).tolist() == [1, 2, 3]
    assert scaled(X, 1, 2).tolist() == [2, 3, 4]
    assert scaled.program_count == 1


def test_dynamic_false_compares_all_numbers():
    scaled = flambeau.compile(lambda x, a: x * a, dynamic=False)
    scaled(X, 1.0)
    scaled(X, 2.0)
    assert scaled.program_count == 2


def test_a_train_step_takes_its_rate_and_epoch_as_inputs():
    layer = nn.Linear(3, 1)

    @flambeau.compile(fullgraph=True)
    def step(x, rate, epoch):
        loss = layer(x).square().mean()
        loss.backward()
        with flambeau.no_grad():
            for each in layer.parameters():
                each -= rate * each.grad
                each.grad = None
        return loss

    losses = [step(flambeau.ones(2, 3), 0.1 / (1 + epoch), epoch).item() for epoch in range(6)]
    assert losses[-1] < losses[0]
    assert step.program_count == 1


def test_a_value_that_makes_programs_is_told_at_the_third():
    @flambeau.compile
    def chosen(x, n):
        return x[:n]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen(X, 1)
        chosen(X, 2)
    with pytest.warns(CompileWarning, match=r"compiled 3 times, since n changes \(1, 2, 3\)"):
        chosen(X, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen(X, 0)


def test_a_shape_that_makes_programs_is_told_at_the_fifth():
    doubled = flambeau.compile(lambda x: x * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for length in range(1, 5):
            doubled(flambeau.ones(length))
    with pytest.warns(CompileWarning, match=r"the shape of x changes \(\[3\], \[4\], \[5\]\)"):
        doubled(flambeau.ones(5))


@pytest.mark.filterwarnings("ignore::flambeau.compile.errors.CompileWarning")
def test_a_package_that_asks_for_the_type_of_a_number_sees_a_number(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "asks_for_types.py").write_text(
        "def pick(x, n):\n    return x * n if type(n) is float else x - 100\n"
    )
    monkeypatch.syspath_prepend(folder)
    from asks_for_types import pick

    compiled = flambeau.compile(lambda x, n: pick(x, n), fullgraph=True)
    for value in (0.5, 1.5, 2):
        assert outcome(compiled, X, value) == outcome(pick, X, value)
