"""Atomic writing: what is left when all goes well, when the writer fails, and when it is killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flambeau.checkpoint import atomic
from flambeau.checkpoint.atomic import atomic_path, atomic_write

OLD, NEW = b"old content", b"new content, which is longer" * 1000


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(OLD)
    return path


@pytest.mark.parametrize("as_path", [Path, str], ids=["Path", "str"])
@pytest.mark.parametrize("exists", [True, False])
def test_the_content_is_there_afterwards_and_nothing_else(
    target: Path, exists: bool, as_path: type
) -> None:
    if not exists:
        target.unlink()
    with atomic_write(as_path(target)) as file:
        file.write(NEW)
    assert target.read_bytes() == NEW
    assert names(target.parent) == ["model.bin"]


def test_the_old_content_is_there_until_the_block_ends(target: Path) -> None:
    with atomic_write(target) as file:
        file.write(NEW)
        file.flush()
        assert target.read_bytes() == OLD


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("exists", [True, False])
def test_an_error_leaves_everything_as_it_was(
    target: Path, exists: bool, error: type[BaseException]
) -> None:
    if not exists:
        target.unlink()
    with pytest.raises(error), atomic_write(target) as file:
        file.write(NEW)
        raise error
    assert names(target.parent) == (["model.bin"] if exists else [])
    assert not exists or target.read_bytes() == OLD


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_disk_leaves_everything_as_it_was(
    target: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"), atomic_write(target) as file:
        file.write(NEW)
        monkeypatch.setattr(atomic.os, step, fail)
    assert target.read_bytes() == OLD
    assert names(target.parent) == ["model.bin"]


def test_the_content_then_the_replacement_are_forced_to_the_disk(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        is_folder = stat.S_ISDIR(status.st_mode)
        steps.append("fsync folder" if is_folder else f"fsync {status.st_size} bytes")
        fsync(descriptor)

    def watched_replace(source: Path, destination: Path) -> None:
        steps.append("replace")
        replace(source, destination)

    monkeypatch.setattr(atomic.os, "fsync", watched_fsync)
    monkeypatch.setattr(atomic.os, "replace", watched_replace)
    with atomic_write(target) as file:
        file.write(NEW)
    assert steps == [f"fsync {len(NEW)} bytes", "replace", "fsync folder"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_replaced_file_keeps_its_permissions(target: Path, mode: int) -> None:
    target.chmod(mode)
    with umask(0o022), atomic_write(target) as file:
        file.write(NEW)
    assert permissions(target) == mode


def test_a_private_file_is_never_readable_by_others_on_the_way(target: Path) -> None:
    target.chmod(0o600)
    with umask(0), atomic_path(target) as temporary:
        assert permissions(temporary) == 0o600


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_new_file_has_the_permissions_of_any_new_file(
    tmp_path: Path, mask: int, mode: int
) -> None:
    with umask(mask), atomic_write(tmp_path / "new.bin") as file:
        file.write(NEW)
    assert permissions(tmp_path / "new.bin") == mode


def test_a_writer_that_replaces_the_temporary_file_changes_no_permissions(target: Path) -> None:
    target.chmod(0o644)
    with atomic_path(target) as temporary:
        temporary.unlink()
        temporary.write_bytes(NEW)
        temporary.chmod(0o600)
    assert target.read_bytes() == NEW
    assert permissions(target) == 0o644


def test_a_symbolic_link_stays_one_and_its_file_is_replaced(tmp_path: Path, target: Path) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    link = folder / "latest.bin"
    link.symlink_to(target)
    with atomic_write(link) as file:
        file.write(NEW)
    assert link.is_symlink()
    assert target.read_bytes() == NEW


def test_a_relative_path_is_the_one_at_the_start(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with atomic_write("model.bin") as file:
        file.write(NEW)
        (tmp_path / "elsewhere").mkdir()
        os.chdir(tmp_path / "elsewhere")
    assert target.read_bytes() == NEW


def test_the_longest_name_that_a_file_may_have_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)
    with atomic_write(path) as file:
        file.write(NEW)
    assert path.read_bytes() == NEW


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a directory"), atomic_write(tmp_path):
        pass


def test_what_is_not_a_file_is_refused_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="not a regular file"), atomic_write(pipe):
        pass
    assert pipe.is_fifo()


def test_a_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "nowhere" / "model.bin"):
        pass


WRITER = """
import os, sys, time
from flambeau.checkpoint import atomic

def stop_here(*arguments):
    print("here", flush=True)
    time.sleep(60)

target, moment, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
if moment in ("fsync", "replace"):
    setattr(atomic.os, moment, stop_here)
with atomic.atomic_write(target) as file:
    file.write(bytes(size))
    file.flush()
    if moment == "write":
        stop_here()
    file.write(bytes(size))
stop_here()
"""


@pytest.mark.parametrize("moment", ["write", "fsync", "replace", "end"])
def test_a_process_killed_at_any_moment_leaves_the_old_or_the_new_content(
    target: Path, moment: str
) -> None:
    size = 100_000
    command = [sys.executable, "-c", WRITER, str(target), moment, str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"here\n"
        writer.send_signal(signal.SIGKILL)
    assert writer.returncode == -signal.SIGKILL
    assert target.read_bytes() == (bytes(2 * size) if moment == "end" else OLD)
    left_behind = [name for name in names(target.parent) if name != "model.bin"]
    assert len(left_behind) == (0 if moment == "end" else 1)
    assert all(re.fullmatch(r"[.]model[.]bin[.][0-9a-f]{16}[.]tmp", name) for name in left_behind)


def left_behind(target: Path, seconds: float) -> Path:
    """A temporary file of `target` that was last written to so many seconds ago."""
    made = target.with_name(f".{target.name}.{'0123456789abcdef'}.tmp")
    made.write_bytes(b"a part")
    os.utime(made, (time.time() - seconds,) * 2)
    return made


@pytest.mark.skipif(atomic.fcntl is None, reason="needs locks of files")
def test_what_a_killed_process_left_is_removed_by_a_later_write(target: Path) -> None:
    left_behind(target, 2 * atomic.ABANDONED_AFTER)
    others = [target.with_name(name) for name in (".other.0123456789abcdef.tmp", ".model.bin.tmp")]
    for each in others:
        each.write_bytes(b"")
        os.utime(each, (0, 0))
    with atomic_write(target) as file:
        file.write(NEW)
    assert names(target.parent) == sorted(["model.bin", *(each.name for each in others)])


def test_a_file_that_may_still_be_written_stays(target: Path) -> None:
    young = left_behind(target, atomic.ABANDONED_AFTER / 2)
    with atomic_write(target) as file:
        file.write(NEW)
    assert young.exists()


def test_a_slow_write_is_not_taken_for_one_that_was_left(target: Path) -> None:
    with atomic_path(target) as slow:
        slow.write_bytes(NEW)
        os.utime(slow, (0, 0))
        with atomic_write(target) as file:
            file.write(b"the other one")
        assert slow.exists()
    assert target.read_bytes() == NEW
