"""The digest of flambeau's files: of their contents, whatever is noted about them."""

import os

import pytest

from flambeau.core.programs import sources
from flambeau.core.programs.sources import digest_of


@pytest.fixture
def package(tmp_path):
    """A folder of files."""
    folder = tmp_path / "package"
    (folder / "core").mkdir(parents=True)
    (folder / "ops.py").write_text("1")
    (folder / "core" / "cell.py").write_text("2")
    return folder


@pytest.fixture
def settled(monkeypatch):
    """Files that have just changed count as settled."""
    monkeypatch.setattr(sources, "_UNSETTLED", -(10**12))


def reads(monkeypatch):
    """One entry for each time that all files are read from now on."""
    read, found = sources._read_all, []
    monkeypatch.setattr(sources, "_read_all", lambda *args: (found.append(1), read(*args))[1])
    return found


@pytest.mark.usefixtures("settled")
def test_files_that_have_not_changed_are_read_once(package, tmp_path, monkeypatch):
    found = reads(monkeypatch)
    first = digest_of(str(package), tmp_path / "note")
    assert digest_of(str(package), tmp_path / "note") == first == digest_of(str(package), None)
    assert len(found) == 2  # without a note, all files are read


@pytest.mark.usefixtures("settled")
def test_an_edit_of_the_same_size_and_time_is_seen(package, tmp_path):
    path = package / "core" / "cell.py"
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    before = digest_of(str(package), tmp_path / "note")
    written = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == written:  # The clock of files is coarse.
        path.write_text("3")
        os.utime(path, ns=times)
    assert digest_of(str(package), tmp_path / "note") != before
    path.write_text("2")
    assert digest_of(str(package), tmp_path / "note") == before


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("change", ["added", "removed", "renamed", "replaced"])
def test_files_that_come_and_go_are_seen(package, tmp_path, change):
    before = digest_of(str(package), tmp_path / "note")
    if change == "added":
        (package / "core" / "view.py").write_text("")
    elif change == "removed":
        (package / "ops.py").unlink()
    elif change == "renamed":
        (package / "ops.py").rename(package / "core" / "ops.py")
    else:
        (tmp_path / "other.py").write_text("3")
        os.replace(tmp_path / "other.py", package / "ops.py")
    assert digest_of(str(package), tmp_path / "note") != before


def test_files_that_have_just_changed_are_read(package, tmp_path, monkeypatch):
    found = reads(monkeypatch)
    for _ in range(2):
        digest_of(str(package), tmp_path / "note")
    assert len(found) == 2
    assert not (tmp_path / "note").exists()


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("note", ["", "half", "other facts", "a b c"])
def test_a_damaged_note_is_replaced(package, tmp_path, note):
    path = tmp_path / "note"
    path.write_text(note)
    assert digest_of(str(package), path) == digest_of(str(package), None)
    assert path.read_text() != note


@pytest.mark.usefixtures("settled")
def test_a_note_that_cannot_be_written_is_not(package, tmp_path):
    assert digest_of(str(package), tmp_path / "none" / "note") == digest_of(str(package), None)
