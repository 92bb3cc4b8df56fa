"""Comparisons with PyTorch itself, the only tests that need it.

Where PyTorch is missing, and in `make test`, no other file of this folder is imported, so each may
say `import torch` at its top, and each test file stands in the report as one skipped test.
"""

import os
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.left_out import left_out

# Why the files of this folder do not run, if they do not.
if find_spec("torch") is None:
    _REASON = "PyTorch is not installed"
elif os.environ.get("FLAMBEAU_CONFORMANCE") == "0":
    _REASON = "comparisons with PyTorch are left out"
else:
    _REASON = ""


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    collectors = yield
    if not _REASON:
        return collectors
    return left_out(file_path, parent, f"{_REASON}: run `make conformance`")
