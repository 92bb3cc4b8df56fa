"""Whether programs are for a CPU only."""

from __future__ import annotations

import pytest

from flambeau.core import compiler


@pytest.mark.parametrize(
    ("devices", "expected"),
    [(["cpu"], True), (["cpu", "cpu:1"], True), (["cpu", "cuda:0"], False)],
)
def test_only_cpu_asks_for_all_devices(monkeypatch, devices, expected):
    monkeypatch.setattr(compiler, "available_devices", lambda: devices)
    assert compiler.only_cpu.__wrapped__() is expected
