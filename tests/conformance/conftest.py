"""Comparisons with PyTorch itself, the only tests that need it.

Where PyTorch is missing no other file of this folder is imported, so each may say `import torch` at
its top, and each test file stands in the report as one skipped test.
"""

from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest


class NeedsTorch(pytest.Item):
    """The one test of a file whose own tests cannot be collected."""

    def runtest(self):
        pytest.skip("PyTorch is not installed: run `make conformance`")

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
    if find_spec("torch") is not None:
        return collectors
    if file_path.match("test_*.py"):
        return [FileThatNeedsTorch.from_parent(parent, path=file_path)]
    return []
