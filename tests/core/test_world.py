"""The counters of changes, which several threads count up."""

import sys
import threading

from flambeau.core.support import world


def stopped_in_the_middle(change, at, meanwhile):
    """Run ``change`` on a thread, and ``meanwhile`` here before its instruction number ``at``."""
    reached, go_on = threading.Event(), threading.Event()
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == at:
                reached.set()
                go_on.wait(30)
        return trace

    def run():
        sys.settrace(trace)
        change()
        sys.settrace(None)
        reached.set()

    thread = threading.Thread(target=run)
    thread.start()
    reached.wait(30)
    meanwhile()
    go_on.set()
    thread.join()


def test_a_counter_never_comes_back_to_a_number_that_it_has_had():
    for name, bump in (("version", world.bump), ("gradients", world.bump_gradients)):
        for at in range(1, 12):
            seen = []

            def meanwhile(name=name, bump=bump, seen=seen):
                for _ in range(3):
                    bump()
                    seen.append(getattr(world, name))

            stopped_in_the_middle(bump, at, meanwhile)
            after = getattr(world, name)
            assert after == seen[-1] or after not in seen, f"{name}, at instruction {at}"
            bump()
            assert getattr(world, name) not in [*seen, after]
