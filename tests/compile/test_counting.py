"""Functions that count: numbers outside that each call changes, as inputs and as effects."""

import math
import random
import types
import warnings

import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileError, CompileWarning
from tests.compile.test_numbers import outcome

X = flambeau.arange(3.0)

total = 0


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.average = 0, 0.5

    def forward(self, x):
        self.calls += 1
        self.average = 0.9 * self.average + 0.1 * self.calls
        return x * self.average + self.calls


def an_attribute_of_a_module():
    module = Counting()
    return module, module, "calls"


def an_attribute_of_an_object():
    held = types.SimpleNamespace(n=0)

    def count(x):
        held.n = held.n + 2
        return x * held.n

    return count, held, "n"


def a_variable():
    n = 0
    held = types.SimpleNamespace(set=None)

    def count(x):
        nonlocal n
        n += 1
        return x + n, n

    return count, held, "unused"


def a_global():
    def count(x):
        global total
        total += 1
        return x + total

    return count, types.SimpleNamespace(), "unused"


PLACES = [an_attribute_of_a_module, an_attribute_of_an_object, a_variable, a_global]


def shown(found):
    leaves, _ = flambeau.utils._pytree.tree_flatten(found)
    return [each.tolist() if isinstance(each, flambeau.Tensor) else each for each in leaves]


@pytest.mark.parametrize("place", PLACES)
def test_one_program_counts(place):
    (function, held, name), (expected, other, _) = place(), place()
    compiled = flambeau.compile(function, fullgraph=True)
    global total
    for call in range(8):
        if call in (3, 6):
            setattr(held, name, 10 * call)
            setattr(other, name, 10 * call)
        before = total
        found = shown(compiled(X))
        after, total = total, before
        assert found == shown(expected(X))
        assert total == after
        assert getattr(held, name, None) == getattr(other, name, None)
    assert compiled.program_count == 1


def test_a_comparison_of_a_count_has_a_program_for_each_answer():
    class Warming(nn.Module):
        def __init__(self):
            super().__init__()
            self.step, self.warmup = 0, 4

        def forward(self, x):
            self.step += 1
            scale = self.step / self.warmup if self.step < self.warmup else 1.0
            return x * scale

    module, expected = Warming(), Warming()
    compiled = flambeau.compile(lambda x: module(x), fullgraph=True)
    for _ in range(10):
        assert compiled(X).tolist() == expected(X).tolist()
    assert module.step == 10
    assert compiled.program_count == 2
    assert "(Warming.step + 1) < 4 was True, and is False" in compiled.explanation()
    first = next(iter(compiled.kinds.values())).programs[-1]
    assert "# arrays[1]: ((Warming.step + 1) / 4)" in first.source


def test_a_count_that_begins_again():
    held = types.SimpleNamespace(n=0, every=3)

    def function(x):
        held.n += 1
        if held.n == held.every:
            held.n = 0
        return x * held.n

    compiled = flambeau.compile(function, fullgraph=True)
    assert [compiled(X)[1].item() for _ in range(7)] == [1, 2, 0, 1, 2, 0, 1]
    assert compiled.program_count == 2
    held.every = 2
    assert [compiled(X)[1].item() for _ in range(4)] == [0, 1, 0, 1]


def test_a_number_that_is_set_to_what_it_was():
    held = types.SimpleNamespace(n=0)

    def function(x):
        result = x * (held.n + 1)
        held.n = 0
        return result

    compiled = flambeau.compile(function, fullgraph=True)
    for n in (0, 0, 2, 5, 0, 3):
        held.n = n
        assert compiled(X).tolist() == (X * (n + 1)).tolist()
        assert held.n == 0


def test_a_count_of_another_class():
    module, expected = Counting(), Counting()
    compiled = flambeau.compile(module)
    for value in (None, 2.5, True, 2**70, -(2**63), 7, 3, math.inf):
        for each in (module, expected):
            if value is not None:
                each.calls = value
        assert outcome(compiled, X + 1) == outcome(expected, X + 1)
        assert (type(module.calls), module.calls) == (type(expected.calls), expected.calls)


def test_an_error_leaves_the_count_as_it_is_eagerly():
    held = types.SimpleNamespace(n=0)

    def function(x):
        held.n += 1
        return x / (1 / (4 - held.n))

    compiled = flambeau.compile(function)
    for _ in range(3):
        compiled(X)
    with pytest.raises(ZeroDivisionError):
        compiled(X)
    assert held.n == 4
    assert compiled(X).tolist() == (X * -1).tolist()


def test_a_backward_outside_reads_the_count():
    class Scaled(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x, module):
            ctx.module = module
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.module.calls, None

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return Scaled.apply(x, self)

    module, expected = Module(), Module()
    compiled = flambeau.compile(module)
    for _ in range(4):
        x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
        compiled(x).sum().backward()
        expected(y).sum().backward()
        assert x.grad.tolist() == y.grad.tolist()
        assert module.calls == expected.calls


class Adam(flambeau.optim.Optimizer):
    """Adam as it was written when steps were Python numbers, with counts among the options."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.99), "k": 0, "largest": 0.0})

    @flambeau.no_grad()
    def step(self):
        for group in self.param_groups:
            group["scheduled"] = rate = group["lr"] * min(1.0, (group["k"] + 1) / 3)
            group["largest"] = max(rate, group["largest"])
            for param in group["params"]:
                state, (first, second) = self.state[param], group["betas"]
                if not state:
                    state["step"] = 0
                    state["mean"] = flambeau.zeros_like(param)
                    state["square"] = flambeau.zeros_like(param)
                state["step"] += 1
                state["mean"].mul_(first).add_(param.grad, alpha=1 - first)
                state["square"].mul_(second).addcmul_(param.grad, param.grad, value=1 - second)
                size = rate / (1 - first ** state["step"])
                size *= math.sqrt(1 - second ** state["step"])
                param.addcdiv_(state["mean"], state["square"].sqrt().add_(1e-8), value=-size)
            group["k"] = group["k"] + 1


def trained(compiles):
    flambeau.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = Adam(net.parameters(), 0.1)
    scheduler = flambeau.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    run, losses = flambeau.compile(step) if compiles else step, []
    for i in range(12):
        losses.append(run(X + i).item())
        scheduler.step()
        if i == 4:
            saved = optimizer.state_dict()
        elif i == 6:
            optimizer.load_state_dict(saved)
        elif i == 8:
            optimizer.state[net[0].weight]["step"] = 2
    group = optimizer.param_groups[0]
    counts = [each["step"] for each in optimizer.state.values()]
    return losses, counts, {key: each for key, each in group.items() if key != "params"}, run


def test_an_optimizer_that_counts_in_python():
    expected, found = trained(False), trained(True)
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    assert found[1:3] == expected[1:3]
    # One more after the state was replaced.
    assert found[3].program_count <= 6


def test_an_option_that_is_not_there_has_the_default():
    layer = nn.Linear(2, 1)
    optimizer = Adam(layer.parameters(), 0.1)
    group = optimizer.param_groups[0]
    compiled = flambeau.compile(lambda x: x * group.get("more", 2.0), fullgraph=True)
    assert compiled(X).tolist() == (X * 2).tolist()
    for value in (3.0, 4.0, 5.0):
        group["more"] = value
        assert compiled(X).tolist() == (X * value).tolist()
    assert compiled.program_count == 3


STATEMENTS = [
    "s.a += 1", "s.a -= {i}", "s.b = 0.5 * s.b + s.a", "s.a = {i}", "s.b = {f}",
    "if s.a > {i}: x = x * 2", "if s.a % 3 == {i}: s.b = s.b + 1", "s.b = max(s.b, {f})",
    "x = x * s.b", "x = x + s.a", "x = x - s.a / (s.b * s.b + 1)", "s.b = math.sqrt(abs(s.b))",
    "s.a, s.b = s.a + 1, s.a * {f}", "s.a //= 2", "s.a = -s.a", "s.b = round(s.b, 1)",
    "s.c = s.a", "s.a = s.c", "y, s.a = s.a, 0", "x = x + y", "y = s.b ** 2", "s.m.a += s.a",
    "x = x * s.m.a", "s.m.a = {i}", "x = x + int(s.a)", "s.t = x.sum() * s.a", "x = x + s.t",
    "if s.a: y = s.a", "s.b -= y", "for _ in range(s.a % 2): x = x + 1", "n += 1", "s.a += n % 2",
    "x = x * (n + {f})", "s.b = math.cos(s.b) + n", "s.m.a = divmod(s.a, 3)[1]",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.filterwarnings("ignore::flambeau.compile.errors.CompileWarning")
def test_random_functions_that_count(seed):
    check_random(random.Random(seed))


def check_random(draw):
    """Compare the calls of a random function, and what they leave, with eager ones."""
    lines = [
        draw.choice(STATEMENTS).format(i=draw.randint(0, 4), f=draw.choice((0.5, 1.5, -1.0, 2.0)))
        for _ in range(draw.randint(2, 7))
    ]
    text = "\n    ".join(["def function(x):", "global n", "y = 1", *lines, "return x, s.a, y"])
    changes = {
        draw.randint(1, 8): (draw.choice(("a", "b", "c", "m.a", "n")), draw.choice((0, 3, 7, 1.5)))
        for _ in range(3)
    }

    def calls(compiles):
        module = nn.Module()
        module.a = 0
        s = types.SimpleNamespace(a=1, b=0.5, c=2, m=module, t=flambeau.tensor(1.0))
        namespace = {"math": math, "s": s, "n": 0, "max": max, "__name__": "script"}
        exec(text, namespace)
        run = namespace["function"]
        run = flambeau.compile(run) if compiles else run
        for call in range(10):
            if call in changes:
                name, value = changes[call]
                if name == "n":
                    namespace["n"] = value
                else:
                    setattr(module if name == "m.a" else s, name[-1], value)
            try:
                found = shown(run(X))
            except Exception as error:  # noqa: BLE001 (compared)
                found = type(error), str(error).partition("\n")[0]
            numbers = s.a, s.b, s.c, module.a, namespace["n"]
            assert not any(type(each).__name__.endswith("_argument") for each in numbers)
            yield found, [*map(repr, numbers)], s.t.item()

    for number, (found, expected) in enumerate(zip(calls(True), calls(False), strict=True)):
        assert str(found) == str(expected) or near(found, expected), (text, changes, number)


def near(found, expected):
    """Whether results are equal up to rounding."""
    if not (isinstance(found[0], list) and isinstance(expected[0], list)):
        return False
    (x, *more), (y, *others) = found[0], expected[0]
    t, u = found[2], expected[2]
    is_near = pytest.approx(y, rel=1e-5, abs=1e-5, nan_ok=True)
    return (
        x == is_near
        and more == others
        and found[1] == expected[1]
        and math.isclose(t, u, rel_tol=1e-5, abs_tol=1e-5)
    )


def test_functions_of_math_are_themselves():
    held = types.SimpleNamespace(n=1, function=math.sqrt, names={math.sqrt: 2.0, math.exp: 3.0})

    def by_key(x):
        held.n += 1
        return x * held.names[math.sqrt] * held.function(held.n)

    def by_identity(x):
        held.n += 1
        return x * (2.0 if held.function is math.sqrt else 3.0) * held.function(held.n)

    for function in (by_key, by_identity):
        held.n, compiled = 1, flambeau.compile(function)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)
            found = [compiled(X)[1].item() for _ in range(5)]
        assert found == pytest.approx([2 * math.sqrt(n) for n in range(2, 7)])
        assert held.function is math.sqrt


def test_what_reads_the_count_runs_eagerly():
    held = types.SimpleNamespace(n=0)

    def function(x):
        held.n += 1
        return x[: held.n]

    compiled = flambeau.compile(function)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for n in range(1, 5):
            assert compiled(X).tolist() == X[:n].tolist()
    assert any(each.category is CompileWarning for each in said)
    held.n = 0
    strict = flambeau.compile(function, fullgraph=True)
    with pytest.raises(CompileError, match=r"changes held\.n"):
        for _ in range(4):
            strict(X)
