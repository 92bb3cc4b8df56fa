"""Programs' memory stays with the process where the native kernels are installed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import flambeau
import jax

@jax.jit
def largest(x, w):
    product = x @ w  # 64 MB
    return (product * product.sum()).max()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

x, w = jax.numpy.ones((16384, 8)), jax.numpy.ones((8, 1024))
for _ in range(3):
    largest(x, w).block_until_ready()
before = faults()
for _ in range(4):
    largest(x, w).block_until_ready()
print((faults() - before) // 4)
"""


def _faults_in_a_call(tmp_path, **variables):
    """Page faults per call in a process that finds a package of this name."""
    package = tmp_path / "flambeau_kernels"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("FLAMBEAU_KERNELS", "GLIBC_TUNABLES") and not name.startswith("MALLOC_")
    }
    path = os.pathsep.join([str(tmp_path), *sys.path])
    environment |= {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", **variables}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return int(found.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="this is about glibc")
def test_a_program_finds_its_memory_again(tmp_path):
    assert _faults_in_a_call(tmp_path) < 1_000


@pytest.mark.skipif(sys.platform != "linux", reason="this is about glibc")
@pytest.mark.parametrize("variables", [{"FLAMBEAU_KERNELS": "0"}, {"MALLOC_ARENA_MAX": "8"}])
def test_malloc_is_left_alone(tmp_path, variables):
    assert _faults_in_a_call(tmp_path, **variables) > 10_000
