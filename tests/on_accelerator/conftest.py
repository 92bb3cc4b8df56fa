"""Tests on a GPU or a TPU, beside the same on the CPU. Run them with ``JAX_PLATFORMS=cuda,cpu``.

``FLAMBEAU_TEST_DEVICE=cpu:1`` takes another device for the accelerator; `test_many_devices` does so
with the second of two CPU devices, which shows whether programs and tensors keep to their devices.
"""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

import flambeau
from tests.left_out import left_out


def accelerator_here():
    """The device of this machine's accelerator, or the one that the environment names."""
    named = os.environ.get("FLAMBEAU_TEST_DEVICE")
    return flambeau.device(named) if named else flambeau.accelerator.current_accelerator()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    collectors = yield
    if accelerator_here() is None:
        return left_out(file_path, parent, "no accelerator, or JAX_PLATFORMS leaves it out")
    return collectors


@pytest.fixture(scope="session")
def accelerator():
    return accelerator_here()


@pytest.fixture
def real_accelerator(accelerator):
    """The same where it is no CPU."""
    if accelerator.type == "cpu":
        pytest.skip("a device of the CPU stands for the accelerator")
    return accelerator


@pytest.fixture(autouse=True)
def in_float32():
    """Products of float32 matrices in float32, so that results can be compared with the CPU's."""
    before = flambeau.get_float32_matmul_precision()
    flambeau.set_float32_matmul_precision("highest")
    yield
    flambeau.set_float32_matmul_precision(before)
