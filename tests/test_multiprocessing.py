"""Processes that run one function each, and how their errors get here."""

import multiprocessing
import os
import pickle
import signal
import sys
from pathlib import Path

import pytest

from flambeau import multiprocessing as mp
from flambeau.multiprocessing.spawn import start_processes


def write(index, folder):
    (Path(folder) / str(index)).write_text(str(os.getpid()))


def fail(index):
    if index == 1:
        raise ValueError("of its own")
    signal.pause()


def leave(index, code):
    if code < 0:
        os.kill(os.getpid(), -code)
    sys.exit(code)


def test_each_process_gets_its_number(tmp_path):
    context = mp.spawn(write, (str(tmp_path),), nprocs=2, join=False)
    assert context is not None
    assert len(context.pids()) == 2
    while not context.join(timeout=60):
        pass
    written = sorted(tmp_path.iterdir())
    assert [each.name for each in written] == ["0", "1"]
    assert {int(each.read_text()) for each in written} == set(context.pids())


def test_another_way_to_start_has_a_function_of_its_own(tmp_path):
    with pytest.warns(FutureWarning, match="start_processes"):
        mp.spawn(write, (str(tmp_path),), nprocs=0, start_method="fork")


def test_an_error_in_one_ends_the_others():
    with pytest.raises(mp.ProcessRaisedException, match=r"(?s)process 1.*of its own") as error:
        start_processes(fail, nprocs=2)
    assert error.value.error_index == 1
    again = pickle.loads(pickle.dumps(error.value))
    assert (again.error_index, again.pid) == (1, error.value.pid)


@pytest.mark.parametrize(("code", "name"), [(3, None), (-signal.SIGTERM, "SIGTERM")])
def test_an_exit_is_told(code, name):
    with pytest.raises(mp.ProcessExitedException) as error:
        start_processes(leave, (code,))
    assert (error.value.exit_code, error.value.signal_name) == (code, name)
    assert str(error.value).endswith(name or "exit code 3")


def test_the_rest_is_pythons():
    assert mp.Process is multiprocessing.Process
    assert mp.get_context("spawn").Process.__name__ == "SpawnProcess"
    assert mp.cpu_count() == multiprocessing.cpu_count()


def test_strategies_of_sharing_are_accepted():
    before = mp.get_sharing_strategy()
    assert before in mp.get_all_sharing_strategies()
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy(before)
    with pytest.raises(AssertionError, match="file_system"):
        mp.set_sharing_strategy("other")
