"""The collector runs after the objects of as many tensors as in PyTorch, unless users choose."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "10000"), ("gc.set_threshold(500)", "500"), ("gc.disable()", "False")],
)
def test_a_number_that_the_program_has_chosen_stays(before, after):
    shown = "gc.isenabled()" if "disable" in before else "gc.get_threshold()[0]"
    code = f"import gc; {before}\nimport flambeau; print({shown})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == after


def test_garbage_of_many_tensors_is_collected():
    code = """
import gc, weakref, flambeau
class Holder: pass
def garbage():
    holder = Holder()
    holder.own, holder.tensor = holder, flambeau.ones(2) + 1
    return weakref.ref(holder)
found = [garbage() for _ in range(4000)]
print(sum(each() is not None for each in found) < 4000)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "True"
