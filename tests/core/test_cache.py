"""Where compiled programs are kept between runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from flambeau.core import cache

# Says over how many cores a program is divided that is large enough for two.
PROGRAM = """
import os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv[1])])
import flambeau, jax, jax.numpy as jnp
compiled = jax.jit(lambda x: jnp.maximum(x, 0)).lower(jnp.zeros(1 << 20)).compile()
print('"outer_dimension_partitions":["2"]' in compiled.as_text())
"""


def test_other_cores_other_folder(monkeypatch):
    monkeypatch.setattr(cache, "cores", lambda: 1)
    one = cache.folder()
    monkeypatch.setattr(cache, "cores", lambda: 8)
    assert cache.folder() != one


def test_other_instructions_other_folder(monkeypatch):
    here = cache.folder()
    monkeypatch.setattr(cache, "_instructions", lambda: "flags: fpu")
    assert cache.folder() != here


def test_it_is_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder().parent == tmp_path / "flambeau"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.folder().parent == Path.home() / ".cache" / "flambeau"


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores that a process can be bound to",
)
def test_what_was_compiled_on_one_core_is_compiled_anew_on_two(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    environment.pop("FLAMBEAU_CACHE", None)

    def is_divided(cores: int) -> str:
        command = [sys.executable, "-c", PROGRAM, str(cores)]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return run.stdout.strip()

    assert is_divided(1) == "False"
    assert is_divided(2) == "True"


@pytest.mark.parametrize("home", ["no home", "a file in its place"])
def test_without_a_folder_nothing_is_kept_and_a_line_says_so(monkeypatch, tmp_path, home):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    if home == "no home":
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", no_home)
    else:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.delenv("FLAMBEAU_CACHE", raising=False)
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        with pytest.warns(RuntimeWarning, match="compiled programs are not kept"):
            cache.enable()
        assert jax.config.jax_compilation_cache_dir is None
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
