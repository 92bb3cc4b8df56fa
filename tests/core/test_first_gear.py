"""First calls are evaluated: which calls, what they give, and what is left as it was."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import flambeau
from flambeau import nn, optim
from flambeau.compiler import gears, stats
from flambeau.core.programs import first_gear
from flambeau.core.programs.compiled import compiled
from flambeau.core.programs.gears import settings

pytestmark = pytest.mark.skipif(
    not first_gear.is_possible(), reason="nothing is evaluated on this machine"
)


@pytest.fixture(autouse=True)
def _often():
    with gears(interpret=3):
        yield


def counted(action):
    """The result, and how many calls were evaluated, and programs compiled or loaded, for it."""
    before = stats()
    result = action()
    after = stats()
    number = lambda name: after[name] - before[name]  # noqa: E731
    return result, number("interpreted"), number("compiled") + number("loaded")


def double_of(x):
    return x + x


def test_a_signature_is_evaluated_until_an_optimizer_steps_after_a_few_calls():
    double, x = compiled(double_of), jnp.ones(5)
    settings.stepped()
    for _ in range(2):
        assert counted(lambda: double(x).tolist()) == ([2.0] * 5, 1, 0)
    settings.stepped()
    for _ in range(9):
        assert counted(lambda: double(x).tolist()) == ([2.0] * 5, 1, 0)
    settings.stepped()
    assert counted(lambda: double(x).tolist()) == ([2.0] * 5, 0, 1)
    assert counted(lambda: double(x).tolist()) == ([2.0] * 5, 0, 0)
    assert counted(lambda: double(x[:4]).tolist())[1:] == (1, 0)


def test_a_signature_is_compiled_after_much_work_where_nothing_steps(monkeypatch):
    monkeypatch.setattr(settings, "_patience", 1000.0)
    double, x = compiled(double_of), jnp.ones(5)
    gears_of_calls = [counted(lambda: double(x))[1] for _ in range(40)]
    assert gears_of_calls == sorted(gears_of_calls, reverse=True)
    assert 3 <= sum(gears_of_calls) < 40


def test_optimizers_step():
    # A shape whose steps no other test has had compiled.
    weight = nn.Parameter(flambeau.ones(53))
    weight.grad = flambeau.ones(53)
    sgd = optim.SGD([weight], lr=0.1)
    before = settings.moment
    sgd.step()
    assert settings.moment > before


def test_programs_of_evaluated_signatures_come_to_the_fast_path(monkeypatch):
    double, x, other = compiled(double_of), jnp.ones(5), jnp.ones(6)
    for _ in range(3):
        double(x)
    settings.stepped()
    double(x)
    # Evaluating another signature leaves the program where it is.
    double(other)
    calls = []
    monkeypatch.setattr(first_gear.FirstGear, "key", lambda *a: calls.append(a) or None)
    double(x)
    assert not calls
    monkeypatch.undo()
    assert counted(lambda: double(other).tolist())[1] == 1


def test_nothing_is_evaluated_where_it_is_off():
    double, x = compiled(double_of), jnp.ones(5)
    with gears(interpret=False):
        assert counted(lambda: double(x))[1:] == (0, 1)
    assert counted(lambda: double(x))[1:] == (0, 0)
    flambeau.use_deterministic_algorithms(True)
    try:
        assert counted(lambda: double(jnp.ones(6)))[1] == 0
    finally:
        flambeau.use_deterministic_algorithms(False)
    assert counted(lambda: double(jnp.ones(7)))[1] == 1


def test_the_setting_is_checked():
    with pytest.raises(TypeError, match="must be a bool or an int, got str"):
        gears(interpret="no")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        gears(interpret=-1)


def test_large_work_and_what_has_no_rule_are_compiled_at_once():
    x = jnp.ones((2000, 2000), jnp.float32)
    assert counted(lambda: compiled(jnp.sin, "sin")(x))[1:] == (0, 1)
    assert counted(lambda: compiled(jnp.linalg.cholesky, "cholesky")(jnp.eye(3)))[1:] == (0, 1)
    half = jnp.ones(3, jnp.bfloat16)
    assert counted(lambda: compiled(double_of)(half))[1:] == (0, 1)
    options = {"xla_allow_excess_precision": False}
    assert counted(lambda: compiled(double_of, options=options)(x[0]))[1] == 0
    assert counted(lambda: compiled(double_of, at_once=True)(x[0, :7]))[1] == 0


def test_draws_and_compiled_functions_are_compiled():
    step = flambeau.compile(lambda x: x * 2 + 1)
    assert counted(lambda: step(flambeau.ones(9)))[1] == 0
    assert counted(lambda: flambeau.randn(7))[1] == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x * y,
        lambda x, y: (y, {"a": [x], "b": (y * 2, None)}),
        lambda x, y: (x > 0, x.astype(jnp.int8), jnp.argmax(x), 2.0),
        lambda x, y: (x, x),
        lambda x, y: x.reshape(3, 2).T,
    ],
)
@pytest.mark.parametrize("y", [2, 2.0, True, np.float32(2), np.ones(6, np.int32), jnp.ones(6)])
def test_results_have_the_types_of_xlas(function, y):
    x = jax.device_put(jnp.arange(6.0), jax.devices()[0])
    call = compiled(function, "function")
    found, evaluated, _ = counted(lambda: call(x, y))
    assert evaluated == 1
    with gears(interpret=0):
        expected = compiled(function, "function")(x, y)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (type(mine), mine.aval) == (type(theirs), theirs.aval)
        assert (mine.committed, mine.sharding) == (theirs.committed, theirs.sharding)
        np.testing.assert_array_equal(mine, theirs)


def test_results_have_memory_of_their_own():
    x = jnp.arange(1024.0)
    same, turned, again = compiled(lambda x: (x, x[::-1], x), "views")(x)
    overwritten = jax.jit(lambda y: y * 0, donate_argnums=0)
    overwritten(x)
    assert same[5] == again[5] == turned[1018] == 5
    overwritten(same)
    assert again[5] == turned[1018] == 5


def test_results_share_no_memory_with_arrays_of_numpys_and_constants():
    constant, given = np.arange(1024.0), np.arange(1024.0)
    call = compiled(lambda x: (lax.stop_gradient(x), jnp.asarray(constant)), "passed")
    same, fixed = call(given)
    given[:] = 0
    assert same[5] == fixed[5] == 5
    overwritten = jax.jit(lambda y: y * 0, donate_argnums=0)
    overwritten(fixed)
    assert call(given)[1][5] == constant[5] == 5


def test_arguments_that_may_be_overwritten_stay():
    double = compiled(double_of, donate=(0,))
    x = jnp.arange(1024.0)
    assert counted(lambda: double(x)[1])[1] == 1
    assert not x.is_deleted()
    with gears(interpret=False):
        double(x)
    assert x.is_deleted()  # By the program, since evaluating has kept no hold on its memory.


def test_arrays_in_another_layout_are_xlas():
    from jax.experimental.layout import Format, Layout
    from jax.sharding import SingleDeviceSharding

    turned = Format(Layout((1, 0)), SingleDeviceSharding(jax.devices()[0]))
    x = jax.device_put(jnp.arange(6.0).reshape(2, 3), turned)
    assert compiled(double_of)(x).tolist() == [[0, 2, 4], [6, 8, 10]]


def test_functions_inside_of_jaxs_transformations_are_traced():
    double = compiled(double_of)
    assert jax.grad(lambda x: double(x).sum())(jnp.ones(3)).tolist() == [2, 2, 2]
    assert "add" in str(jax.make_jaxpr(double)(jnp.ones(3)))


def test_settings_of_jax_tell_signatures_apart():
    function = compiled(lambda x: x @ x, "product")
    x = jnp.ones((2, 2), jnp.float32)
    for precision in (None, "highest", "bfloat16"):
        with jax.default_matmul_precision(precision):
            assert function(x).tolist() == [[2, 2], [2, 2]]
    assert len(function._cache_miss.first_gear._signatures) == 3


def test_an_error_while_evaluating_leaves_the_call_to_xla(monkeypatch):
    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr(first_gear, "_evaluated", fail)
    assert counted(lambda: compiled(double_of)(jnp.ones(5)).tolist()) == ([2.0] * 5, 0, 1)


def test_errors_of_operators_are_the_same():
    messages = []
    for uses in (3, 0):
        with gears(interpret=uses), pytest.raises(RuntimeError) as raised:
            flambeau.ones(3) @ flambeau.ones(4)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def trained(uses, steps=6):
    """The losses and parameters of a small model, of which some calls may be evaluated."""
    with gears(interpret=uses):
        flambeau.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 16), nn.GELU(),
            nn.LayerNorm(16), nn.Linear(16, 5),
        )  # fmt: skip
        adam = optim.AdamW(model.parameters())
        losses = []
        for step in range(steps):
            x = flambeau.randn(2 + step % 2, 3, 8, 8)
            loss = nn.functional.cross_entropy(model(x), flambeau.arange(2 + step % 2))
            adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
            losses.append(loss.item())
        return losses, [each.detach().numpy() for each in model.parameters()]


def test_training_is_the_same_up_to_rounding():
    (losses, parameters), evaluated, _ = counted(lambda: trained(1000))
    assert evaluated > 50
    expected, others = trained(0)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for mine, theirs in zip(parameters, others, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-4)


SCRIPT = """
import flambeau
from flambeau import nn
flambeau.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
sgd = flambeau.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(30):
    sgd.zero_grad()
    model(flambeau.randn(3 + step % 2, 4)).square().mean().backward()
    sgd.step()
print([each.tolist() for each in model.parameters()])
stats = flambeau.compiler.stats()
print(stats["interpreted"], stats["followed"])
"""


def test_two_runs_give_the_same_bits_with_programs_on_disk_or_without(tmp_path):
    def run(**variables):
        variables = os.environ | {"XDG_CACHE_HOME": str(tmp_path)} | variables
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    some = run(FLAMBEAU_INTERPRET="6", FLAMBEAU_FUSE="8")
    interpreted, followed = map(int, some[1].split())
    assert interpreted > 20
    assert followed > 10
    assert run(FLAMBEAU_INTERPRET="6", FLAMBEAU_FUSE="8") == some
    assert run(FLAMBEAU_INTERPRET="6", FLAMBEAU_FUSE="8", FLAMBEAU_CACHE="0") == some
    assert run(FLAMBEAU_INTERPRET="0", FLAMBEAU_FUSE="0")[1] == "0 0"


class Interrupt(BaseException):
    """Raised at some line."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_while_evaluating_leaves_the_step_undone():
    weight = nn.Parameter(flambeau.ones(3))
    adam = optim.Adam([weight], lr=0.1)
    with gears(interpret=10**6):
        for _ in range(2):
            weight.grad = flambeau.ones(3)
            adam.step()
        for at in range(1, 4000, 7):
            weight.grad = flambeau.ones(3)
            before, seen = weight.tolist(), 0

            def trace(frame, event, argument, at=at):
                nonlocal seen
                if "/flambeau/core/" in frame.f_code.co_filename:
                    seen += 1
                    if seen == at:
                        raise Interrupt
                return trace

            sys.settrace(trace)
            try:
                adam.step()
            except Interrupt:
                pass
            finally:
                sys.settrace(None)
            now = weight.tolist()
            assert now == before or now[0] < before[0]
            assert np.float32(1e-40) * np.float32(1) != 0, "subnormal numbers are lost"
            if seen < at:
                break
        else:
            pytest.fail("more lines than expected")
        adam.step()


def steps_of_plan(monkeypatch, action):
    """The number of steps of the longest plan that is made for ``action``."""
    found, made = [], first_gear.interpreter.plan_of

    def noted(jaxpr):
        plan = made(jaxpr)
        found.append(len(plan))
        return plan

    monkeypatch.setattr(first_gear.interpreter, "plan_of", noted)
    action()
    return max(found)


def test_loops_are_traced_once_however_long_they_are(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    layer = nn.GRU(3, 4)

    def run(length):
        layer(flambeau.ones(length, 1, 3))[0].sum().backward()

    short = steps_of_plan(monkeypatch, lambda: run(21))
    assert steps_of_plan(monkeypatch, lambda: run(301)) == short


def test_loops_of_kernels_are_those_that_are_traced_once():
    folder = Path(flambeau.__file__).parent / "ops"
    for file in folder.rglob("*.py"):
        if file != folder / "common" / "loops.py":
            assert not re.search(r"\blax\.(scan|map|fori_loop)\(", file.read_text()), file
