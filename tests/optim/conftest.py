"""What the tests of optimizers count."""

import jax
import pytest

from flambeau import compiler

_COMPILED = "/jax/core/compile/backend_compile_duration"
_TRACED = "/jax/core/compile/jaxpr_trace_duration"


class Compilations:
    """How many programs XLA has been asked for since `reset`, and how many JAX has traced."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.count = self.traced = 0

    def listen(self, event, duration, **facts):
        self.count += event == _COMPILED
        self.traced += event == _TRACED


@pytest.fixture(scope="session")
def _listener():
    compilations = Compilations()
    jax.monitoring.register_event_duration_secs_listener(compilations.listen)
    return compilations


@pytest.fixture
def compilations(_listener, monkeypatch):
    """The counts since the test began, of programs alone.

    With ``monkeypatch``, no program comes from the disk.
    """
    _listener.reset()
    with compiler.gears(interpret=False):
        yield _listener
