"""What holds for every test of compiled functions."""

import jax
import pytest

from flambeau.compile.program import Program


@pytest.fixture(autouse=True)
def _eager_calls_are_compiled(all_compiled):
    """Compiled calls are compared with eager ones to the bit."""


@pytest.fixture(autouse=True)
def no_value_is_frozen(monkeypatch):
    """Each array that was there before a trace belongs to a Cell, which each call reads again.

    Gives the list of those that do not, for tests that make constants on purpose.
    """
    bind, frozen = Program._bind, []

    def bind_and_look(self, recording, closed, slot_of):
        bind(self, recording, closed, slot_of)
        trace = recording.trace
        owners = {id(array): cell for cell, array in trace.reads.items()}
        for constant in closed.consts:
            cell = owners.get(id(constant))
            is_input = cell is not None and not trace.is_made_inside(cell)
            if isinstance(constant, jax.Array) and not is_input:
                frozen.append(constant)

    monkeypatch.setattr(Program, "_bind", bind_and_look)
    yield frozen
    assert not frozen, f"a program has taken values for granted: {frozen}"
