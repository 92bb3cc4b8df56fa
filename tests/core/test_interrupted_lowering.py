"""An interrupt while JAX lowers a program leaves no context of MLIR entered."""

import os
import subprocess
import sys

SCRIPT = """
import sys
import flambeau
from flambeau.core.support import jax_private

class Interrupt(BaseException):
    pass

class InContext:
    # Counts the events while a context of MLIR is entered, and raises at one of them.
    def __init__(self, at=0):
        self.count, self.at = 0, at

    def __call__(self, frame, event, argument):
        if jax_private._ir.Context.current is not None:
            self.count += 1
            if self.count == self.at:
                raise Interrupt
        return self

def traced(length, events):
    x = flambeau.ones(length)
    sys.settrace(events)
    try:
        flambeau.exp(x)
    except Interrupt:
        return True
    finally:
        sys.settrace(None)
    return False

traced(1, InContext())
counted = InContext()
traced(2, counted)
# The last events are those where Python is about to leave the contexts.
raised = left = 0
for number in range(24):
    raised += traced(3 + number, InContext(counted.count - number))
    left += jax_private._ir.Context.current is not None
print(raised, left)
"""


def test_a_process_ends_well_after_interrupts_as_contexts_of_mlir_are_left():
    environment = {
        **os.environ, "FLAMBEAU_CACHE": "0", "FLAMBEAU_INTERPRET": "0", "JAX_PLATFORMS": "cpu",
    }  # fmt: skip
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    raised, left = map(int, found.stdout.split())
    assert raised > 12
    assert left == 0
