"""What programs are compiled for."""

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


@pytest.mark.parametrize(("cores", "expected"), [({3}, True), ({0, 1}, False)])
def test_only_one_core_asks_for_those_of_the_process(monkeypatch, cores, expected):
    monkeypatch.setattr(compiler.os, "sched_getaffinity", lambda pid: cores, raising=False)
    assert compiler.only_one_core.__wrapped__() is expected


@pytest.mark.parametrize(("count", "expected"), [(1, True), (8, False)])
def test_where_a_process_has_no_cores_of_its_own_the_machines_count(monkeypatch, count, expected):
    monkeypatch.delattr(compiler.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(compiler.os, "cpu_count", lambda: count)
    assert compiler.only_one_core.__wrapped__() is expected
