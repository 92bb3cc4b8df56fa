"""Test files that cannot run here, each of which stands in the report as one skipped test."""

from collections.abc import Iterator
from pathlib import Path

import pytest


class LeftOut(pytest.Item):
    """The one test of a file whose own tests are not collected."""

    parent: "FileLeftOut"

    def runtest(self):
        pytest.skip(self.parent.reason)

    def reportinfo(self):
        return self.path, None, self.path.name


class FileLeftOut(pytest.File):
    """A test file that is reported without being imported."""

    reason: str

    def collect(self) -> Iterator[pytest.Item]:
        yield LeftOut.from_parent(self, name="left_out")


def left_out(file_path: Path, parent: pytest.Collector, reason: str) -> list[pytest.Collector]:
    """The collectors of a file that cannot run here for ``reason``: for tests, one that says so."""
    if not file_path.match("test_*.py"):
        return []
    found = FileLeftOut.from_parent(parent, path=file_path)
    found.reason = reason
    return [found]
