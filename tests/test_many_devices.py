"""Tests that need several devices, in processes that have them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "many_devices"
ON_ACCELERATOR = Path(__file__).parent / "on_accelerator" / "test_training.py"
SECONDS = 500


@pytest.mark.parametrize("file", sorted(each.name for each in FOLDER.glob("on_eight_*.py")))
def test_on_eight_devices(file):
    run(FOLDER / file, "-o", "python_files=on_eight_*.py", FLAMBEAU_MANY_DEVICES="1")


def test_training_on_the_second_of_two_devices():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    options = {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    run(ON_ACCELERATOR, FLAMBEAU_TEST_DEVICE="cpu:1", **options)


def run(file, *options, **variables):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_"))
    }
    found = subprocess.run(
        [*command, *options, str(file)],
        cwd=FOLDER.parent.parent,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
