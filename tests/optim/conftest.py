"""What the tests of optimizers count."""

import jax
import pytest

_COMPILED = "/jax/core/compile/backend_compile_duration"


class Compilations:
    """How many programs XLA has been asked for since `reset`."""

    def __init__(self):
        self.count = 0

    def reset(self):
        self.count = 0

    def listen(self, event, duration, **facts):
        if event == _COMPILED:
            self.count += 1


@pytest.fixture(scope="session")
def _listener():
    compilations = Compilations()
    jax.monitoring.register_event_duration_secs_listener(compilations.listen)
    return compilations


@pytest.fixture
def compilations(_listener):
    _listener.reset()
    return _listener
