"""How many programs fit, and memory that nobody uses."""

import sys

import pytest

from flambeau.core.devices import limits


def test_the_bound_of_programs_follows_the_maps_and_the_memory(monkeypatch):
    limits.programs_at_once.cache_clear()
    monkeypatch.setattr(limits, "_maps", lambda: 32_000)
    monkeypatch.setattr(limits, "memory", lambda: 2**40)
    assert limits.programs_at_once() == 1_333
    limits.programs_at_once.cache_clear()
    monkeypatch.setattr(limits, "memory", lambda: 8 * 2**30)
    assert limits.programs_at_once() == 1_024
    limits.programs_at_once.cache_clear()


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(limits._trim() is None, reason="this system's C library has no malloc_trim")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_freed_memory_between_living_objects_goes_back_to_the_system():
    objects = [bytearray(8_000) for _ in range(12_000)]
    kept = objects[::100]
    objects.clear()
    before = resident()
    limits.give_back_memory()
    assert before - resident() > 40 * 2**20
    assert len(kept) == 120
