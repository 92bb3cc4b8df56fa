"""What holds for every test: device, threads, kept programs, and how hypothesis searches."""

import os

import pytest
from hypothesis import settings

# The suite's reference device, so that it says the same on every machine. To run it elsewhere,
# name the platforms: JAX_PLATFORMS=cuda,cpu.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# Workers share the cores. LAPACK's threads spin while they wait for each other, and with two
# workers on two cores a small factorization then takes many times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Lines for pyright, which nobody runs.
collect_ignore = ["typed_lines.py"]

# The first call with a new shape compiles, so an example's time says nothing about the code.
# A shared machine repeats the same examples; a developer's own searches again each time.
settings.register_profile("flambeau", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("flambeau")


@pytest.fixture(autouse=True)
def _changed_code_is_not_kept(request):
    """Programs on disk are known by flambeau's files, which a test that patches it leaves alone."""
    if "monkeypatch" in request.fixturenames:
        from flambeau.core import programs

        request.getfixturevalue("monkeypatch").setattr(programs, "store", lambda: None)
