"""Which native kernels programs may call."""

from __future__ import annotations

import sys
import types

import pytest

from flambeau.core.devices import native


@pytest.fixture
def asked_again(monkeypatch):
    """Every question is answered as in a new process, on a machine with one CPU."""
    monkeypatch.setattr(native, "_has_one_cpu", lambda: True)
    monkeypatch.delenv("FLAMBEAU_KERNELS", raising=False)
    questions = (native._loaded, native.native_kernels, native.native_version)
    for each in questions:
        each.cache_clear()
    yield
    monkeypatch.undo()
    for each in questions:
        each.cache_clear()


def _installed(monkeypatch, **attributes):
    module = types.ModuleType("flambeau_kernels")
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, "flambeau_kernels", module)


def test_without_the_package_there_are_none(monkeypatch, asked_again):
    monkeypatch.setitem(sys.modules, "flambeau_kernels", None)
    assert native.native_kernels() == ()
    assert native.native_version() == ""


def test_the_environment_switches_them_off(monkeypatch, asked_again):
    _installed(monkeypatch)
    monkeypatch.setenv("FLAMBEAU_KERNELS", "0")
    assert native.native_kernels() == ()


def test_they_are_for_one_cpu(monkeypatch, asked_again):
    _installed(monkeypatch)
    monkeypatch.setattr(native, "_has_one_cpu", lambda: False)
    assert native.native_kernels() == ()


def test_a_package_for_another_flambeau_is_not_used(monkeypatch, asked_again):
    _installed(monkeypatch, VERSION=99)
    with pytest.warns(UserWarning, match="flambeau-kernels has version 99"):
        assert native.native_kernels() == ()
