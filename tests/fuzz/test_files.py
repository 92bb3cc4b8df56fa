"""A few changed files at every run of the tests, and the search itself on planted defects."""

from __future__ import annotations

import io
import pickle
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flambeau.checkpoint import load, pickled, source
from tests.fuzz import files
from tests.fuzz.file_corpus import corpus
from tests.fuzz.file_mutations import assembled
from tests.fuzz.slices import SLICE_OF_A_SEARCH

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def test_files_that_are_not_changed_are_read() -> None:
    for parts in corpus():
        if parts.format != "bytes":
            load(io.BytesIO(assembled(parts)))


@SLICE_OF_A_SEARCH
def test_changed_files_are_read_or_refused() -> None:
    report = files.run(None, 1001, 3000)
    assert not report.disagreements, str(report)
    assert report.counts["files"] == 3000
    assert all(report.counts[each] for each in ("read", "DamagedFileError", "RefusedContentError"))


def test_the_same_seed_gives_the_same_file() -> None:
    assert files.input_of(5, 7) == files.input_of(5, 7)
    assert files.input_of(5, 7) != files.input_of(5, 8)


def _judged(monkeypatch: pytest.MonkeyPatch, folder: Path, defect: Any) -> str:
    monkeypatch.setattr(files, "load", defect)
    data = assembled(corpus()[0])
    found = [files.judged(data, Random(each), folder)[1] for each in range(3)]
    return " ".join(found)


def test_an_error_of_another_type_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def defect(file: Any) -> Any:
        raise pickle.UnpicklingError("not promised")

    assert "UnpicklingError: not promised" in _judged(monkeypatch, tmp_path, defect)


def test_memory_that_there_is_not_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = assembled(corpus()[0])
    monkeypatch.setattr(source.Source, "read", _no_memory)
    assert "are not enough" in files.judged(data, Random(0), tmp_path)[1]


def _no_memory(*_: Any) -> Any:
    raise MemoryError


def test_seconds_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files, "SECONDS", 0.01)
    assert "0.0 seconds" in _judged(monkeypatch, tmp_path, lambda file: time.sleep(0.02))


def test_memory_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The process may have had more memory than it has now, and filling it may take seconds.
    monkeypatch.setattr(files, "SECONDS", float("inf"))
    size = files._highest() - files._resident() + (200 << 20)

    def defect(file: Any) -> Any:
        return len(bytearray(b"\1") * size)

    assert "MiB for a file of" in _judged(monkeypatch, tmp_path, defect)


def test_a_process_that_ends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    work = [sys.executable, "-c", CRASHES]
    monkeypatch.setattr(files, "worker_command", lambda *_: work)
    report = files.run(None, 3, 1)
    assert report.counts["files"] == 1
    (found,) = report.disagreements
    assert "seed 3, file 0: the process ended with -11" in found.title


CRASHES = "import ctypes; ctypes.string_at(0)"


def test_a_lost_check_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    damage = tuple(each for each in pickled.DAMAGE if each is not IndexError)
    monkeypatch.setattr(pickled, "DAMAGE", damage)
    found = [
        files.judged(files.input_of(1, index), Random(index), tmp_path)[1] for index in range(300)
    ]
    assert any("IndexError" in each for each in found)
