"""The tests in `many_devices`, which need eight devices, in a process that has them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "many_devices"
SECONDS = 500


@pytest.mark.parametrize("file", sorted(each.name for each in FOLDER.glob("on_eight_*.py")))
def test_on_eight_devices(file):
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
        "-o", "python_files=on_eight_*.py", str(FOLDER / file),
    ]  # fmt: skip
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_", "XLA_FLAGS"))
    }
    environment["FLAMBEAU_MANY_DEVICES"] = "1"
    found = subprocess.run(
        command,
        cwd=FOLDER.parent.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
