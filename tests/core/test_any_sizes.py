"""Operators at sizes that were never seen before: traced once, and right at all sizes."""

from __future__ import annotations

import dataclasses
import functools
import gc
import os
import subprocess
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau.compiler import gears
from flambeau.core.interpreter import are_equal, plan_of, sizes_of
from flambeau.core.programs import any_sizes, description, first_gear, store
from flambeau.core.programs.compiled import compiled
from flambeau.nn import functional as F

pytestmark = pytest.mark.skipif(
    not first_gear.is_possible(), reason="nothing is evaluated on this machine"
)

SIZES = [3, 5, 7, 16, 2, 1, 0, 33, 64]


class Counted:
    """How many plans were traced, how many filled in, and how many traces had open sizes.

    JAX's caches compare keys whose hashes agree in a few bits, an open size with any number too;
    that comparison is a guard like any other. So now and then one more plan is traced.
    """

    def __init__(self) -> None:
        self.traced = self.filled = self.open = 0


@pytest.fixture
def counted(monkeypatch):
    """Counts, while every plan that is filled in is compared with the one of a trace."""
    counted = Counted()
    found, opened = first_gear.FirstGear._found, any_sizes._opened

    def compared(self, key, leaves, arguments):
        signature, traced = found(self, key, leaves, arguments)
        if traced is not None:
            counted.traced += 1
        elif signature.plan is not None:
            counted.filled += 1
            again = self._trace(arguments)
            assert are_equal(signature.plan, plan_of(again.jaxpr)), self._name
            assert signature.tree == again.out_tree
        return signature, traced

    def noted(*arguments):
        counted.open += 1
        return opened(*arguments)

    monkeypatch.setattr(first_gear.FirstGear, "_found", compared)
    monkeypatch.setattr(any_sizes, "_opened", noted)
    monkeypatch.setattr(any_sizes, "_families", any_sizes.Generations())
    with gears(interpret=64, fuse=False):
        yield counted


def values(*shape):
    numbers = np.sin(np.arange(int(np.prod(shape)), dtype=np.float32) + 1)
    return flambeau.tensor(numbers.reshape(shape), requires_grad=True)


def labels(n):
    return flambeau.tensor(np.arange(n) % 5)


def attention(x, is_causal):
    return F.scaled_dot_product_attention(x, x, x, is_causal=is_causal)


weight, bias, table = values(4, 6), values(6), values(5, 6)

CASES = {
    "relu": lambda n: values(n, 6).relu(),
    "gelu": lambda n: F.gelu(values(n, 6)),
    "softmax": lambda n: F.softmax(values(n, 6), -1),
    "softmax of open sizes": lambda n: F.softmax(values(6, n), -1),
    "add": lambda n: values(n, 6) + values(n, 6),
    "add to each row": lambda n: values(n, 6) * bias,
    "add columns": lambda n: values(n, 1) + values(1, n),
    "matmul": lambda n: values(n, 6) @ values(6, n),
    "linear": lambda n: F.linear(values(n, 6), weight),
    "layer_norm": lambda n: F.layer_norm(values(n, 6), (6,), bias, bias),
    "layer_norm of open sizes": lambda n: F.layer_norm(values(6, n), (n,)),
    "cross_entropy": lambda n: F.cross_entropy(values(n, 5), labels(n)),
    "embedding": lambda n: F.embedding(labels(n), table),
    "mean": lambda n: values(n, 6).mean(),
    "mean over a dimension": lambda n: values(n, 6).mean(0),
    "sum": lambda n: values(n, 6).sum(1),
    "var": lambda n: values(n, 6).var(0),
    "cat": lambda n: flambeau.cat([values(n, 6), values(2, 6), values(n, 6)]),
    "view": lambda n: values(n, 6).view(-1, 3).exp(),
    "transpose": lambda n: values(n, 6).reshape(n, 2, 3).transpose(0, 1).exp(),
    "slice": lambda n: values(n + 2, 6)[1:, ::2] * 2,
    "expand": lambda n: values(1, 6).expand(n, 6) * 2,
    "attention": lambda n: attention(values(2, n, 4), False),
    "causal attention": lambda n: attention(values(2, n, 4), True),
    "batch_norm": lambda n: F.batch_norm(values(n + 2, 6), None, None, training=True),
    "conv1d": lambda n: F.conv1d(values(2, 3, n + 3), values(4, 3, 3)),
    "max_pool1d": lambda n: F.max_pool1d(values(2, 3, n + 2), 2),
    "pad": lambda n: F.pad(values(n, 6), (1, 2)),
    "tril": lambda n: values(n, n).tril(),
    "index": lambda n: values(n + 5, 6)[labels(n)],
    "cumsum": lambda n: values(n, 6).cumsum(0),
    "norm": lambda n: values(n + 1).norm(),
    "topk": lambda n: values(n + 3, 6).topk(2, 0)[0],
    "sort": lambda n: values(n, 6).sort(0)[0],
    "where": lambda n: flambeau.where(values(n, 6) > 0, values(n, 6), 0.0),
    "einsum": lambda n: flambeau.einsum("nd,md->nm", values(n, 6), values(n, 6)),
    "bce": lambda n: F.binary_cross_entropy_with_logits(values(n), values(n).detach().abs()),
    "chunks": lambda n: flambeau.cat(values(n, 6).chunk(3, -1)),
    "repeat": lambda n: values(2, 6).repeat(n, 1) * 1,
    "arange": lambda n: values(n) * flambeau.arange(n),
}

# Their functions use numbers of Python or NumPy that depend on sizes, or forms that JAX has for
# sizes that are left open, or one of many forms by the divisors of sizes.
TRACED_EACH_TIME = {"max_pool1d", "index", "topk", "sort", "layer_norm of open sizes"}


@pytest.mark.parametrize("name", CASES)
def test_plans_that_are_filled_in_are_those_of_traces(name, counted):
    for n in SIZES:
        result = CASES[name](n)
        if n and result.requires_grad:
            result.backward(flambeau.ones_like(result))
    if name not in TRACED_EACH_TIME:
        assert counted.filled > len(SIZES) / 2
        before = counted.filled, counted.traced
        for n in (40, 48, 56, 72):
            CASES[name](n)
        assert counted.filled >= before[0] + 3
        assert counted.traced <= before[1] + 1


@pytest.fixture
def own_functions(monkeypatch):
    """Functions of this file count as flambeau's, whose forms are compared."""
    known = description._KNOWN | {__name__.partition(".")[0]}
    monkeypatch.setattr(description, "_KNOWN", known)


def plain(x):
    return x * 2


def by_size(x):
    return x * x.shape[0] if x.shape[0] < 10 else x + 1


def in_python(x):
    return x + sum(range(x.shape[0]))


def of_a_table(x):
    return x * {7: 3}.get(x.shape[0], 1)


def bound(length, x):
    return x * length


@pytest.mark.usefixtures("own_functions")
@pytest.mark.parametrize("function", [plain, by_size, in_python])
def test_every_size_gives_what_a_trace_for_it_gives(function, counted):
    call = compiled(function, "function")
    for n in range(2, 20):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(call(jnp.asarray(x)), function(x))
    assert (counted.filled == 0) == (function is in_python)


@pytest.mark.usefixtures("own_functions")
def test_functions_bound_to_other_numbers_are_one_family(counted):
    for n in range(2, 9):
        x = jnp.ones(n)
        assert compiled(functools.partial(bound, 3 * n), "bound")(x).tolist() == [3.0 * n] * n
    assert counted.traced <= 2
    assert counted.filled >= 5


def power(exponent, x):
    return x**exponent


@pytest.mark.usefixtures("own_functions")
def test_a_number_that_no_rule_takes_open_is_traced_each_time(counted):
    for exponent in range(2, 6):
        call = compiled(functools.partial(power, exponent), "power")
        assert call(jnp.full(3, 2.0)).tolist() == [2.0**exponent] * 3
    assert (counted.traced, counted.filled) == (4, 0)


@pytest.mark.usefixtures("own_functions")
def test_numbers_of_other_types_and_zeros_of_other_signs_are_other_families():
    forms = [
        any_sizes.form_of(functools.partial(bound, each)) for each in (1, True, 1.0, 0.0, -0.0)
    ]
    assert len({each.key for each in forms if each is not None}) == 5
    assert any_sizes.form_of(functools.partial(bound, np.ones(3))) is None


@dataclasses.dataclass(frozen=True)
class Own:
    """A function of a user's, which its constructor makes of one argument."""

    size: int
    twice: int = dataclasses.field(init=False, default=2)

    def times(self, x):
        return x * self.size


def test_objects_of_users_are_taken_as_they_are(counted):
    for n in range(2, 9):
        call = compiled(Own(n).times, "times")
        assert call(jnp.ones(n)).tolist() == [n] * n
    assert counted.open == 0


def test_functions_of_users_are_traced_at_each_size(counted):
    call = compiled(plain, "plain")
    for n in range(2, 9):
        call(jnp.ones(n))
    assert counted.filled == 0


def test_a_dimension_that_differs_does_not_end_a_family(counted):
    for n in (3, 4, 5, 6, 7):
        for dim in (2, 3):
            values(2, 2, n, 6).sum(dim)
    assert counted.filled >= 6


def test_a_trace_that_fails_leaves_nothing_behind(counted, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    values(3, 11).sin()
    with monkeypatch.context() as patched:
        patched.setattr(any_sizes.interpreter, "Template", interrupted)
        with pytest.raises(KeyboardInterrupt):
            values(4, 11).sin()
    for n in (4, 5, 6):
        assert values(n, 11).sin().shape == (n, 11)
    assert counted.filled >= 2


def test_a_trace_with_open_sizes_keeps_nothing_of_its_callers(counted):
    values(2, 3, 13).sin()

    def caller():
        local = values(5, 7)
        values(4, 3, 13).sin()
        return weakref.ref(local._cell)

    gc.collect()
    gc.disable()
    try:
        left = caller()
    finally:
        gc.enable()
    assert counted.open == 1
    assert left() is None


def test_families_keep_few_templates(counted):
    for n in range(2, 30):
        values(n, n + 1).relu()
        values(2, n + 1).relu()
        values(n, 31).relu()
    for family in any_sizes._families.values():
        assert len(family._open) <= any_sizes._MOST
        assert len(family._known) <= any_sizes._MOST


SCRIPT = """
import flambeau
from flambeau.core.programs import compiled as programs

traces, trace = [], programs._Misses.trace

def noted(self, *arguments):
    traces.append(self.name)
    return trace(self, *arguments)

programs._Misses.trace = noted
for n in (3, 5, 8, 9):
    x = flambeau.ones(n, 4, requires_grad=True)
    (x.exp().mean() * x.sum(0) / n).sum().backward()
    print(x.grad.tolist())
print(len(traces))
"""


def test_templates_are_found_on_disk(tmp_path):
    def run(**variables):
        variables = os.environ | {"XDG_CACHE_HOME": str(tmp_path)} | variables
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        *found, traces = done.stdout.splitlines()
        return found, int(traces)

    first, traces = run()
    assert traces > 5
    assert run() == (first, 0)
    # A damaged one is made again.
    for each in tmp_path.rglob("*.program"):
        each.write_bytes(each.read_bytes()[:-3])
    for found, traces in (run(), run(FLAMBEAU_CACHE="0")):
        assert found == first
        assert traces > 5


def test_what_cannot_be_read_is_made_again(tmp_path):
    kept = store.Store(tmp_path, 10**6)
    kept.put("key", b"nothing that was pickled")
    pattern = any_sizes._Pattern((), (0,), ())
    assert any_sizes._loaded(pattern, (5,), kept, "key") is None
    assert kept.get("key") is None


def test_jax_caches_nothing_across_traces():
    @functools.lru_cache
    def doubled(size):
        return size * 2

    records = [any_sizes.interpreter.Record([6]) for _ in range(3)]
    found = [doubled(*sizes_of(each)) for each in records]
    assert [each.record for each in found] == records
    assert jax.ShapeDtypeStruct(tuple(sizes_of(records[0])), jnp.float32).ndim == 1
