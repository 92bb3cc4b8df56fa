"""Tests on a GPU or a TPU, beside the same on the CPU. Run them with ``JAX_PLATFORMS=cuda,cpu``."""

import pytest

import flambeau


@pytest.fixture(scope="session")
def accelerator():
    """The device of this machine's accelerator."""
    return flambeau.accelerator.current_accelerator()


@pytest.fixture(autouse=True)
def in_float32():
    """Products of float32 matrices in float32, so that results can be compared with the CPU's."""
    before = flambeau.get_float32_matmul_precision()
    flambeau.set_float32_matmul_precision("highest")
    yield
    flambeau.set_float32_matmul_precision(before)
