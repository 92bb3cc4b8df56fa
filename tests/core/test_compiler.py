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


@pytest.mark.parametrize(("only_cpu", "setting"), [(True, None), (True, "0"), (False, None)])
def test_forms_for_cpus_are_for_machines_without_accelerators_and_can_be_turned_off(
    monkeypatch, only_cpu, setting
):
    monkeypatch.setattr(compiler, "only_cpu", lambda: only_cpu)
    monkeypatch.delenv("FLAMBEAU_CPU_FORMS", raising=False)
    if setting is not None:
        monkeypatch.setenv("FLAMBEAU_CPU_FORMS", setting)
    assert compiler.cpu_forms.__wrapped__() is (only_cpu and setting is None)


def test_cores_are_those_of_the_process(monkeypatch):
    monkeypatch.setattr(compiler.os, "sched_getaffinity", lambda pid: {3, 5}, raising=False)
    assert compiler.cores.__wrapped__() == 2


@pytest.mark.parametrize(("count", "expected"), [(8, 8), (None, 1)])
def test_where_a_process_has_no_cores_of_its_own_the_machines_count(monkeypatch, count, expected):
    monkeypatch.delattr(compiler.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(compiler.os, "cpu_count", lambda: count)
    assert compiler.cores.__wrapped__() == expected
