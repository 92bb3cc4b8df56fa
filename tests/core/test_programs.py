"""Functions as XLA programs: one a signature, bounded in number, found again by another process."""

from __future__ import annotations

import functools
import gc
import operator
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import SingleDeviceSharding

import flambeau
from flambeau.core.programs import compiled as programs
from flambeau.core.programs import jit_core
from flambeau.core.programs.compiled import compiled
from flambeau.core.programs.store import Store
from flambeau.core.support.statistics import Statistics


@pytest.fixture(autouse=True)
def _compiled_at_once():
    """Each call for a new signature asks for a program, in processes of their own too."""
    before = dict(os.environ)
    os.environ["FLAMBEAU_INTERPRET"] = "0"
    with flambeau.compiler.gears(interpret=False):
        yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def counts(monkeypatch, tmp_path):
    """Fresh counts, and an empty folder."""
    counted = Statistics()
    monkeypatch.setattr(programs, "statistics", counted)
    kept = Store(tmp_path, 2**30)
    monkeypatch.setattr(programs, "store", lambda: kept)
    number = lambda found: sum(count for count, _ in found.values())  # noqa: E731
    return SimpleNamespace(
        compiled=lambda: number(counted.compiled), loaded=lambda: number(counted.loaded)
    )


def test_a_signature_is_compiled_once(counts):
    double = compiled(lambda x: x + x, "double")
    for _ in range(3):
        assert double(jnp.ones(2)).tolist() == [2, 2]
        assert double(jnp.ones(3)).tolist() == [2, 2, 2]
        assert double(2) == 4
    assert counts.compiled() == 3


def test_another_function_of_the_same_code_is_loaded(counts):
    for number in (1, 1, 2, 1.0):
        add = compiled(functools.partial(operator.add, number), "add")
        assert add(jnp.zeros(2, jnp.float32)).tolist() == [number] * 2
    assert (counts.compiled(), counts.loaded()) == (3, 1)


def test_code_of_the_users_is_known_by_what_it_lowers_to(counts):
    for _ in range(2):
        assert compiled(lambda x: x * 3, "triple")(jnp.ones(2)).tolist() == [3, 3]
    assert compiled(lambda x: x * 4, "triple")(jnp.ones(2)).tolist() == [4, 4]
    assert (counts.compiled(), counts.loaded()) == (2, 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda a, b: a * 2, lambda a, b: b * 2),
        (lambda a, b: (a, b), lambda a, b: [a, b]),
        (lambda a, b: {"a": a * 2}, lambda a, b: {"b": a * 2}),
        (lambda a, b: jnp.float64(1) * 2, lambda a, b: 2.0),
    ],
    ids=["arguments left out", "structure", "names", "weak types"],
)
def test_programs_of_one_text_are_told_apart(counts, one, other):
    a, b = jnp.ones(2), jnp.zeros(2)
    for _ in range(2):
        for function in (one, other):
            found, expected = compiled(function, "function")(a, b), function(a, b)
            assert repr(jax.tree.map(jnp.asarray, found)) == repr(
                jax.tree.map(jnp.asarray, expected)
            )
    assert counts.compiled() == 2


def test_what_a_program_depends_on_is_part_of_its_key(counts, monkeypatch):
    def run(x=None):
        compiled(operator.matmul, "matmul")(
            *2 * [jnp.ones((2, 2), jnp.float32) if x is None else x]
        )

    for precision in ("default", "highest"):
        with jax.default_matmul_precision(precision):
            run()
    run(jnp.ones((2, 2), jnp.bfloat16))
    run(np.ones((2, 2), np.float32))
    monkeypatch.setattr(programs, "_environment", lambda: "other files of flambeau's")
    run()
    run()
    assert (counts.compiled(), counts.loaded()) == (5, 1)


def test_what_jax_tells_the_compiler_is_part_of_the_key(counts):
    def run(x=None):
        negative = compiled(operator.neg, "neg")
        return negative(jnp.ones((2, 3)) if x is None else x).tolist()

    run()
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", not before)
    try:
        run()
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
    for value in ("a", "b"):
        with set_xla_metadata(attribute=value):
            run()
    turned = Format(Layout((1, 0)), SingleDeviceSharding(jax.devices()[0]))
    x = jnp.arange(6.0).reshape(2, 3)
    assert run(jax.device_put(x, turned)) == (-x).tolist()
    assert run(x) == (-x).tolist()
    assert (counts.compiled(), counts.loaded()) == (5, 1)


def test_the_number_of_threads_is_part_of_the_key(monkeypatch):
    programs._environment.cache_clear()
    before = programs._environment()
    programs._environment.cache_clear()
    monkeypatch.setenv("NPROC", "1")
    assert programs._environment() != before
    programs._environment.cache_clear()


AFTER_XLA_HAS_READ = """
import os, sys
import jax.numpy as jnp
jnp.ones(2).block_until_ready()
os.environ["XLA_FLAGS"] = sys.argv[1]
from flambeau.core.programs import compiled as programs
print(programs._environment())
"""


def test_the_flags_that_xla_has_read_are_part_of_the_key(tmp_path):
    flag, file = "--xla_cpu_enable_fast_math=true", tmp_path / "flags"
    file.write_text(flag)

    def found(at_start, later):
        surroundings = os.environ | {"XLA_FLAGS": at_start}
        command = [sys.executable, "-c", AFTER_XLA_HAS_READ, later]
        return subprocess.run(command, env=surroundings, capture_output=True, check=True).stdout

    none = found("", "")
    assert found("", flag) == none
    assert found(flag, "") == found(str(file), "") != none


def test_every_file_of_the_package_counts(monkeypatch, tmp_path):
    package = tmp_path / "flambeau"
    file = package / "core" / "programs" / "compiled.py"
    file.parent.mkdir(parents=True)
    file.write_text("")
    (package / "ops.py").write_text("1")
    monkeypatch.setattr(programs, "__file__", str(file))
    before = programs._code()
    assert programs._code() == before
    (package / "ops.py").write_text("2")
    assert programs._code() != before


def test_a_damaged_program_is_compiled_again(counts, tmp_path):
    def run():
        return compiled(operator.add, "add")(jnp.ones(2), jnp.ones(2)).tolist()

    run()
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    assert run() == [2, 2]
    # The digest is right, and the program is none.
    Store(tmp_path, 2**30).put(path.stem, b"no program")
    assert run() == [2, 2]
    assert (counts.compiled(), counts.loaded()) == (3, 0)
    assert run() == [2, 2]
    assert counts.loaded() == 1


def test_donated_arrays_are_overwritten(counts):
    for _ in range(2):
        add = compiled(operator.add, "add", donate=(0,))
        for _ in range(2):
            left, right = jnp.ones(4), jnp.ones(4)
            assert add(left, right).tolist() == [2] * 4
            assert left.is_deleted()
            assert not right.is_deleted()
    assert (counts.compiled(), counts.loaded()) == (1, 1)


def test_transformations_of_jax_go_through(counts):
    square = compiled(lambda x: x * x, "square")
    assert jax.grad(square)(3.0) == 6
    assert jax.vmap(square)(jnp.arange(3)).tolist() == [0, 1, 4]
    assert jax.jit(lambda x: square(x) + square(jnp.float32(2)))(1.0) == 5
    assert square(jnp.float32(2)) == 4
    assert counts.compiled() == 1


def test_the_least_recently_used_program_goes_first(counts, monkeypatch):
    few = jit_core.cache(4)
    monkeypatch.setattr(programs, "_cache", lambda: few)
    double = compiled(lambda x: x + x, "double")
    for size in (1, 2, 3, 4, 1, 5):
        double(jnp.ones(size))
    assert few.size() == 4
    assert counts.compiled() == 5
    double(jnp.ones(1))
    assert counts.loaded() == 0
    double(jnp.ones(2))
    assert counts.loaded() == 1


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="memory maps are Linux'")
def test_programs_that_went_leave_no_memory_maps(monkeypatch):
    few = jit_core.cache(10)
    monkeypatch.setattr(programs, "_cache", lambda: few)
    monkeypatch.setattr(programs, "store", lambda: None)
    double = compiled(lambda x: x + x, "double")

    def maps():
        gc.collect()
        return Path("/proc/self/maps").read_text().count("\n")

    for size in range(1, 20):
        double(np.ones(size))
    before = maps()
    for size in range(20, 60):
        double(np.ones(size))
    # A program has three at least; other threads may make some.
    assert maps() - before < 40


GROWTH = """
import gc
from flambeau.core.support import generations
from flambeau.core.programs import jit_core, compiled as programs
few = jit_core.cache(20)
programs._cache = lambda: few
programs.programs_at_once = lambda: 20
generations.Generations.bound = 20
import flambeau

def objects():
    gc.collect()
    return len(gc.get_objects())

def run(lengths):
    for length in lengths:
        x = flambeau.ones(length, requires_grad=True)
        flambeau.softmax(x.exp(), 0).backward(flambeau.ones(length))

run(range(1, 31))
before = objects()
run(range(31, 61))
print(objects() - before)
"""


KERNELS = """
import gc
from flambeau.core.programs import jit_core, compiled as programs
few = jit_core.cache(20)
programs._cache = lambda: few
programs.programs_at_once = lambda: 20
import flambeau

def kernels():
    gc.collect()
    return sum(type(each).__name__ == "Kernel" for each in gc.get_objects())

def run(lengths):
    for length in lengths:
        x = flambeau.ones(length, requires_grad=True)
        x.mean().backward()

run(range(1, 31))
before = kernels()
run(range(31, 61))
print(kernels() - before)
"""


@pytest.mark.parametrize("uses", ["0", "64"])
def test_kernels_of_shapes_whose_programs_went_are_forgotten(uses):
    environment = {
        **os.environ, "FLAMBEAU_CACHE": "0", "JAX_PLATFORMS": "cpu", "FLAMBEAU_INTERPRET": uses,
    }  # fmt: skip
    found = subprocess.run(
        [sys.executable, "-c", KERNELS], env=environment, capture_output=True, text=True, check=True
    )
    # The gradient of a mean goes by the length; without it there would be 30 more.
    assert int(found.stdout) < 10


@pytest.mark.parametrize("uses", ["0", "64"])
def test_what_was_traced_for_programs_that_went_is_forgotten(uses):
    environment = {
        **os.environ, "FLAMBEAU_CACHE": "0", "JAX_PLATFORMS": "cpu", "FLAMBEAU_INTERPRET": uses,
        # What is known of sequences is bounded by itself.
        "FLAMBEAU_FUSE": "0",
    }  # fmt: skip
    found = subprocess.run(
        [sys.executable, "-c", GROWTH], env=environment, capture_output=True, text=True, check=True
    )
    # Without it 30 new shapes leave some 7,000 objects in JAX's caches; the device of an array that
    # comes from NumPy is looked up once for each shape, which takes five.
    assert int(found.stdout) < 300


def test_programs_end_with_their_function(counts):
    before = programs.alive()
    double = compiled(lambda x: x + x, "double")
    double(jnp.ones(2))
    assert programs.alive() == before + 1
    del double
    assert programs.alive() == before


def test_results_that_are_functions_stay_in_the_process(counts):
    function = compiled(lambda x: jax.vjp(jnp.sin, x), "vjp")
    value, pull = function(jnp.zeros(2))
    assert compiled(lambda f, y: f(y), "pull")(pull, value + 1)[0].tolist() == [1, 1]


SCRIPT = """
import flambeau
from flambeau import nn
from flambeau.core.support.statistics import statistics
model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Dropout(0.5))
optimizer = flambeau.optim.Adam(model.parameters())
model(flambeau.ones(2, 3))[:1].sum().backward()
optimizer.step()
print(sum(count for count, _ in statistics.compiled.values()), end=" ")
print(sum(count for count, _ in statistics.loaded.values()))
"""


def test_the_next_process_compiles_nothing(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    environment.pop("FLAMBEAU_CACHE", None)
    found = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=environment, capture_output=True, text=True, check=True,
        ).stdout.split()
        for _ in range(2)
    ]  # fmt: skip
    compiled_first, loaded_first = map(int, found[0])
    assert compiled_first > 5
    assert found[1] == ["0", str(compiled_first + loaded_first)]


def test_default_dtype_is_part_of_the_key(counts):
    flambeau.set_default_dtype(flambeau.float64)
    try:
        wide = (flambeau.ones(2, dtype=flambeau.int64) / 3).dtype
    finally:
        flambeau.set_default_dtype(flambeau.float32)
    assert wide is flambeau.float64
    assert (flambeau.ones(2, dtype=flambeau.int64) / 3).dtype is flambeau.float32


DEVICES = """
import jax, jax.numpy as jnp
from flambeau import Tensor
from flambeau.core.support.statistics import statistics
for device in jax.devices():
    x = Tensor._wrap(jax.device_put(jnp.ones(3), device))
    for _ in range(3):
        result = x + x
    assert result.jax().devices() == {device} and result.tolist() == [2, 2, 2]
print(sum(count for count, _ in statistics.loaded.values()))
"""


def test_each_device_has_programs_of_its_own(tmp_path):
    environment = {
        **os.environ, "XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }  # fmt: skip
    environment.pop("FLAMBEAU_CACHE", None)
    for loaded in ("0", "2"):
        run = subprocess.run(
            [sys.executable, "-c", DEVICES],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert run.stdout.strip() == loaded
