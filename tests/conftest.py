"""What holds for every test: device, threads, kept programs, and how hypothesis searches."""

import gc
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


def pytest_collection_modifyitems(items):
    """Begin with tests that wait for processes: another worker computes meanwhile."""
    waiting = ("test_several_processes.py", "test_multiprocessing.py", "test_processes.py")
    items.sort(key=lambda item: item.path.name not in waiting)


@pytest.fixture(autouse=True)
def _changed_code_is_not_kept(request):
    """Programs on disk are known by flambeau's files, which a test that patches it leaves alone."""
    if "monkeypatch" in request.fixturenames:
        from flambeau.core.programs import compiled as programs

        request.getfixturevalue("monkeypatch").setattr(programs, "store", lambda: None)


@pytest.fixture(scope="module")
def young_heap():
    """For modules that collect garbage: what other modules have left is not looked through."""
    gc.freeze()
    yield
    gc.unfreeze()


class Compilations:
    """How many programs XLA has been asked for since `reset`, and how many JAX has traced."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.count = self.traced = 0

    def listen(self, event, duration, **facts):
        self.count += event == "/jax/core/compile/backend_compile_duration"
        self.traced += event == "/jax/core/compile/jaxpr_trace_duration"


@pytest.fixture(scope="session")
def _listener():
    import jax

    compilations = Compilations()
    jax.monitoring.register_event_duration_secs_listener(compilations.listen)
    return compilations


@pytest.fixture
def all_compiled():
    """Evaluate nothing, so that programs can be counted and equal calls have equal bits."""
    from flambeau import compiler

    with compiler.gears(interpret=False, fuse=False):
        yield


@pytest.fixture
def compilations(_listener, all_compiled, monkeypatch):
    """The counts since the test began; with ``monkeypatch``, no program comes from the disk."""
    _listener.reset()
    return _listener
