"""Comparisons with PyTorch itself, the only tests that need it.

Where PyTorch is missing, and in `make test`, no other file of this folder is imported, so each may
say `import torch` at its top, and each test file stands in the report as one skipped test.
"""

import os
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

# Why the files of this folder do not run, if they do not.
if find_spec("torch") is None:
    _REASON = "PyTorch is not installed"
elif os.environ.get("FLAMBEAU_CONFORMANCE") == "0":
    _REASON = "comparisons with PyTorch are left out"
else:
    _REASON = ""


class NeedsTorch(pytest.Item):
    """The one test of a file whose own tests cannot be collected."""

    def runtest(self):
        pytest.skip(f"{_REASON}: run `make conformance`")

    def reportinfo(self):
        return self.path, None, self.path.name


class FileThatNeedsTorch(pytest.File):
    """A test file that is reported without being imported."""

    def collect(self) -> Iterator[pytest.Item]:
        yield NeedsTorch.from_parent(self, name="needs_torch")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    collectors = yield
    if not _REASON:
        return collectors
    if file_path.match("test_*.py"):
        return [FileThatNeedsTorch.from_parent(parent, path=file_path)]
    return []
