"""Where compiled programs are kept between runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from flambeau.core.programs import store

# Says over how many cores a program is divided that is large enough for two.
PROGRAM = """
import os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv[1])])
import flambeau
from flambeau.core.programs import jit_core
seen = []
call_of = jit_core.call_of
jit_core.call_of = lambda program: seen.append(program.as_text()) or call_of(program)
flambeau.relu(flambeau.zeros(1 << 20))
print('"outer_dimension_partitions":["2"]' in seen[-1])
"""


def test_other_cores_other_folder(monkeypatch):
    monkeypatch.setattr(store, "cores", lambda: 1)
    one = store.folder()
    monkeypatch.setattr(store, "cores", lambda: 8)
    assert store.folder() != one


def test_other_instructions_other_folder(monkeypatch):
    here = store.folder()
    monkeypatch.setattr(store, "_instructions", lambda: "flags: fpu")
    assert store.folder() != here


def test_it_is_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.folder().parent == tmp_path / "flambeau"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert store.folder().parent == Path.home() / ".cache" / "flambeau"


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores that a process can be bound to",
)
def test_what_was_compiled_on_one_core_is_compiled_anew_on_two(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    environment.pop("FLAMBEAU_CACHE", None)
    environment["FLAMBEAU_INTERPRET"] = "0"

    def is_divided(cores: int) -> str:
        command = [sys.executable, "-c", PROGRAM, str(cores)]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return run.stdout.strip()

    assert is_divided(1) == "False"
    assert is_divided(2) == "True"


@pytest.mark.parametrize("home", ["no home", "a file in its place"])
def test_without_a_folder_nothing_is_kept_and_a_line_says_so(monkeypatch, tmp_path, home):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    if home == "no home":
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", no_home)
    else:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.delenv("FLAMBEAU_CACHE", raising=False)
    with pytest.warns(RuntimeWarning, match="compiled programs are not kept"):
        assert store.store.__wrapped__() is None


def test_what_was_put_is_there_for_another(tmp_path):
    store.Store(tmp_path / "new", 1000).put("key", b"program")
    other = store.Store(tmp_path / "new", 1000)
    assert other.get("key") == b"program"
    assert other.get("another") is None
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["key.program"]


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_program_counts_as_missing_and_is_replaced(tmp_path, damage):
    kept = store.Store(tmp_path, 1000)
    kept.put("key", b"program")
    path = tmp_path / "key.program"
    content = path.read_bytes()
    path.write_bytes({"cut": content[:-1], "changed": content[:-1] + b"?", "empty": b""}[damage])
    assert kept.get("key") is None
    assert not path.exists()
    kept.put("key", b"program")
    assert kept.get("key") == b"program"


def test_the_folder_has_a_bound_and_the_least_recently_used_go_first(tmp_path):
    kept = store.Store(tmp_path, 1000)
    for number in range(8):
        kept.put(f"{number}", bytes(100))
        os.utime(tmp_path / f"{number}.program", (number, number))
    assert kept.get("0") is not None  # It has been used now.
    kept.put("8", bytes(100))
    left = {each.stem for each in tmp_path.iterdir()}
    assert {"0", "8"} <= left
    assert "1" not in left
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 750


def test_files_of_earlier_processes_count(tmp_path):
    for number in range(9):
        store.Store(tmp_path, 10**9).put(f"{number}", bytes(100))
    store.Store(tmp_path, 1000).put("last", bytes(100))
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 750


def test_short_processes_keep_to_the_size_although_few_look_at_all_files(tmp_path, monkeypatch):
    looks = []
    measured = store.Store._measured
    monkeypatch.setattr(store.Store, "_measured", lambda self: looks.append(0) or measured(self))
    for number in range(2000):
        # As each process does.
        store.Store(tmp_path, 200_000).put(f"{number}", bytes(200))
    assert 150_000 * 0.9 < sum(each.stat().st_size for each in tmp_path.iterdir()) < 220_000
    assert 20 < len(looks) < 300


def test_a_full_disk_leaves_nothing_behind_and_says_so_once(tmp_path, monkeypatch):
    kept = store.Store(tmp_path, 1000)

    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        kept.put("key", b"program")
    assert list(tmp_path.iterdir()) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.put("key", b"program")


def test_an_interrupt_while_writing_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupted(*paths):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.Store(tmp_path, 1000).put("key", b"program")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_after_writing_is_raised_and_the_program_kept(tmp_path, monkeypatch):
    replace = os.replace

    def interrupted(*paths):
        replace(*paths)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    kept = store.Store(tmp_path, 1000)
    with pytest.raises(KeyboardInterrupt):
        kept.put("key", b"program")
    assert kept.get("key") == b"program"
    assert not kept.full


def test_a_folder_in_the_place_of_a_program_is_left_alone_and_others_are_kept(tmp_path):
    kept = store.Store(tmp_path, 2**20)
    (tmp_path / "one.program").mkdir()
    (tmp_path / "one.program" / "theirs").write_bytes(b"")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.put("one", b"1")
        kept.put("two", b"2")
    assert kept.get("one") is None
    assert kept.get("two") == b"2"
    assert sorted(os.listdir(tmp_path)) == ["one.program", "two.program"]
    assert os.listdir(tmp_path / "one.program") == ["theirs"]


def test_a_program_under_another_key_counts_as_missing(tmp_path):
    kept = store.Store(tmp_path, 1000)
    kept.put("key", b"program")
    (tmp_path / "key.program").rename(tmp_path / "another.program")
    assert kept.get("another") is None


@pytest.mark.parametrize("moment", ["_measured", "_sweep"])
def test_a_folder_that_vanishes_at_any_moment_stops_nobody(tmp_path, monkeypatch, moment):
    kept = store.Store(tmp_path / "folder", 1)
    work = getattr(kept, moment)

    def vanished():
        shutil.rmtree(tmp_path / "folder")
        return work()

    monkeypatch.setattr(kept, moment, vanished)
    with pytest.warns(RuntimeWarning, match="No such file or directory"):
        kept.put("key", b"program")


@pytest.mark.parametrize(
    ("text", "size"), [("12", 12), ("2KB", 2048), ("1.5 gb", 3 * 2**29), (None, 2 * 2**30)]
)
def test_the_size_that_is_asked_for(text, size):
    assert store.size_from(text) == size


def test_a_size_that_is_none():
    with pytest.raises(ValueError, match=r"FLAMBEAU_CACHE_SIZE must be a number of bytes.*'much'"):
        store.size_from("much")
