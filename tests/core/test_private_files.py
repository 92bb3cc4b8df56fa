"""Files and folders that other users can write to are not trusted."""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import subprocess
import sys

import pytest

from flambeau.core.programs import private_files, store
from flambeau.core.programs.sources import digest_of
from flambeau.core.programs.store import Store

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no modes and owners")


def mode_of(path):
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def others(monkeypatch):
    """Whatever is on disk belongs to another user."""
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)


def test_all_new_folders_are_for_this_user_alone(tmp_path):
    umask = os.umask(0o002)
    try:
        private_files.prepare(tmp_path / "new" / "flambeau" / "programs")
    finally:
        os.umask(umask)
    for each in ("new", "new/flambeau", "new/flambeau/programs"):
        assert mode_of(tmp_path / each) == 0o700


def test_an_own_folder_is_closed_to_others(tmp_path):
    folder = tmp_path / "programs"
    folder.mkdir()
    folder.chmod(0o777)
    private_files.prepare(folder)
    assert mode_of(folder) == 0o700


def test_a_folder_that_others_may_only_read_stays(tmp_path):
    tmp_path.chmod(0o755)
    private_files.prepare(tmp_path)
    assert mode_of(tmp_path) == 0o755


def test_a_folder_of_another_user_is_refused(tmp_path, others):
    with pytest.raises(PermissionError, match="belongs to another user"):
        private_files.prepare(tmp_path)


@pytest.mark.parametrize("place", ["flambeau", "flambeau/programs"])
@pytest.mark.parametrize("kind", ["link", "file"])
def test_no_programs_are_kept_behind_a_link_or_a_file_and_a_line_says_so(
    monkeypatch, tmp_path, place, kind
):
    folder = tmp_path / "flambeau" / "programs"
    monkeypatch.setattr(store, "folder", lambda: folder)
    monkeypatch.delenv("FLAMBEAU_CACHE", raising=False)
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    (tmp_path / "elsewhere").mkdir()
    path.symlink_to(tmp_path / "elsewhere") if kind == "link" else path.write_text("")
    says = "link" if kind == "link" else "folder"
    with pytest.warns(RuntimeWarning, match=f"compiled programs are not kept.*{says}"):
        assert store.store.__wrapped__() is None
    assert not any((tmp_path / "elsewhere").iterdir())


def test_no_programs_are_kept_in_the_folder_of_another_user_and_a_line_says_so(
    monkeypatch, tmp_path, others
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("FLAMBEAU_CACHE", raising=False)
    (tmp_path / "flambeau").mkdir()
    with pytest.warns(RuntimeWarning, match="not kept.*belongs to another user") as warnings:
        assert store.store.__wrapped__() is None
    assert len(warnings) == 1


STRANGE = {
    "a link to a device without an end": lambda path: path.symlink_to("/dev/zero"),
    "a pipe": lambda path: os.mkfifo(path),
    "a link to itself": lambda path: path.symlink_to(path),
    "a folder": lambda path: path.mkdir(),
    "a file without an end": lambda path: (path.touch(), os.truncate(path, 2**40)),
    "a file that others can write to": lambda path: (path.touch(), path.chmod(0o666)),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_strange_files_count_as_missing_and_are_replaced(tmp_path, kind):
    kept = Store(tmp_path, 10**6)
    kept.put("key", b"program")
    path = tmp_path / "key.program"
    moved = tmp_path / "moved"
    path.rename(moved)
    STRANGE[kind](path)
    if kind == "a file that others can write to":
        path.write_bytes(moved.read_bytes())
    assert kept.size_of("key") <= 2**40
    assert kept.get("key") is None
    kept.put("key", b"program")
    assert kept.get("key") == (None if kind == "a folder" else b"program")
    kept._sweep()


def test_a_file_of_another_user_counts_as_missing(tmp_path, monkeypatch):
    kept = Store(tmp_path, 10**6)
    kept.put("key", b"program")
    user = os.geteuid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: user + 1)
        assert private_files.read(tmp_path / "key.program", 100) is None
    assert private_files.read(tmp_path / "key.program", 100)


def test_a_note_that_is_a_link_to_a_device_is_not_read(tmp_path):
    (tmp_path / "one.py").write_text("")
    os.utime(tmp_path / "one.py", (0, 0))
    note = tmp_path / "note"
    note.symlink_to("/dev/zero")
    assert digest_of(str(tmp_path), note) == digest_of(str(tmp_path), None)


PROGRAM = "import flambeau; print(float(flambeau.ones(3).mul(2).sum()))"


class Touches:
    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)
def test_code_in_the_folder_of_another_user_does_not_run(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    environment.pop("FLAMBEAU_CACHE", None)
    command = [sys.executable, "-W", "always", "-c", PROGRAM]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "6.0\n"
    bad = Touches()
    bad.path = tmp_path / "ran"
    content = pickle.dumps(bad)
    files = [*tmp_path.rglob("*.program")]
    assert files
    for each in files:
        key = each.stem[:64].encode()
        each.write_bytes(hashlib.blake2b(content, digest_size=16, key=key).digest() + content)
    for each in (tmp_path, *tmp_path.rglob("*")):
        os.chown(each, 65534, 65534)
        each.chmod(0o777)
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "6.0\n"
    assert "belongs to another user" in run.stderr
    assert not bad.path.exists()
