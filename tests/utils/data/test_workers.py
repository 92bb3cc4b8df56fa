"""Batches that other processes prepare."""

import multiprocessing
import pickle
import subprocess
import sys

import numpy as np
import pytest

import flambeau
from flambeau.utils.data import DataLoader, get_worker_info
from flambeau.utils.data.workers import _sendable
from tests.utils.data.in_workers import NotToBeSent, Squares, Stream, Troubles, start


def same(sample):
    return sample


def ended(processes):
    for each in processes:
        each.join(30)
    return not any(each.is_alive() for each in processes)


def test_workers_prepare_batches_in_order_until_they_are_dropped():
    loader = DataLoader(Squares(), 2, num_workers=2, worker_init_fn=start, persistent_workers=True)
    first = list(loader)
    squares = [batch["square"][:, 0].tolist() for batch in first]
    assert squares == [[0, 1], [4, 9], [16, 25], [36, 49], [64]]
    assert [int(batch["worker"][0][0]) for batch in first] == [0, 1, 0, 1, 0]
    assert [batch["worker"][1].tolist()[0] for batch in first] == [2] * 5
    assert [int(batch["started"][0]) for batch in first] == [0, 1, 0, 1, 0]
    assert {batch["platform"][0] for batch in first} == {"cpucpu"}
    seeds = [int(batch["seed"][0][0]) for batch in first]
    assert seeds[1] == seeds[0] + 1
    assert all((batch["seed"][0] == batch["seed"][1]).all() for batch in first)
    assert len({int(each) for batch in first for each in batch["seed"][2]}) == 9

    given_up = iter(loader)
    assert next(given_up)["square"][:, 0].tolist() == [0, 1]
    again = list(loader)
    assert [batch["square"][:, 0].tolist() for batch in again] == squares
    processes = {int(each) for batch in first + again for each in batch["process"]}
    children = [each for each in multiprocessing.active_children() if each.pid in processes]
    assert len(children) == len(processes) == 2
    assert get_worker_info() is None
    del loader, given_up
    assert ended(children)


def test_what_goes_wrong_in_a_worker_is_raised_here():
    kinds = ["fine", "lookup", "own", "unsendable", "fine", "stop"]
    batches = iter(DataLoader(Troubles(), None, sampler=kinds, num_workers=1))
    assert next(batches) == "fine"
    with pytest.raises(KeyError) as error:
        next(batches)
    assert error.value.args == ("lookup",)
    assert "worker process 0" in str(error.value.__cause__)
    assert "return {}[index]" in str(error.value.__cause__)
    with pytest.raises(RuntimeError, match="NotToBeSent: 1 and 2"):
        next(batches)
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        next(batches)
    assert next(batches) == "fine"
    with pytest.raises(StopIteration):
        next(batches)


def test_a_worker_that_dies_is_an_error():
    batches = iter(DataLoader(Troubles(), None, sampler=["death", "fine"], num_workers=1))
    with pytest.raises(RuntimeError, match=r"exited unexpectedly with code 3.*__main__"):
        next(batches)


def test_streams_end_worker_by_worker():
    loader = DataLoader(Stream(5, 2), 2, num_workers=2, collate_fn=same, in_order=False)
    found = list(loader)
    assert sorted(found) == [[0, 1], [2, 3], [4], [100, 101]]
    assert [each for each in found if each[0] < 100] == [[0, 1], [2, 3], [4]]


def test_waiting_has_an_end():
    # A new process takes longer than this to come to life.
    batches = iter(DataLoader(Troubles(), 1, sampler=["fine"], num_workers=1, timeout=0.001))
    with pytest.raises(RuntimeError, match=r"timed out after 0\.001 seconds"):
        next(batches)


def test_without_workers_to_send_to_batches_come_from_here():
    loader = DataLoader(
        [1, 2, 3], shuffle=True, num_workers=1, timeout=9, collate_fn=lambda samples: samples
    )
    before = multiprocessing.active_children()
    flambeau.manual_seed(3)
    with pytest.warns(UserWarning, match="in this process: workers are .*no lambdas"):
        found = list(loader)
    assert multiprocessing.active_children() == before
    flambeau.manual_seed(3)
    assert found == list(DataLoader([1, 2, 3], shuffle=True, collate_fn=loader.collate_fn))


SCRIPT = """
import sys
import flambeau
from flambeau.utils.data import DataLoader, TensorDataset, get_worker_info

def main():
    data = TensorDataset(flambeau.arange(4.0))
    for _ in range(2):
        loader = DataLoader(data, 2, num_workers=1, persistent_workers=True)
        print([batch.tolist() for batch, in loader], get_worker_info())

%s
"""


@pytest.mark.parametrize("way", ["main()", "if True:\n    main()"])
def test_a_script_that_workers_would_run_once_more_has_none(tmp_path, way):
    file = tmp_path / "script.py"
    file.write_text(SCRIPT % way)
    done = subprocess.run(
        [sys.executable, file], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.splitlines() == ["[[0.0, 1.0], [2.0, 3.0]] None"] * 2
    assert done.stderr.count("prepares batches in this process: workers are new processes") == 1


def test_a_script_with_a_guard_has_workers(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(
        SCRIPT.replace("range(2)", "range(1)") % "if __name__ == '__main__':\n    main()"
    )
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", file],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["[[0.0, 1.0], [2.0, 3.0]] None"]
    assert "prepares batches" not in done.stderr


def test_processes_are_not_forked():
    for context in ("fork", multiprocessing.get_context("fork")):
        with pytest.raises(ValueError, match="'fork'; JAX runs threads"):
            DataLoader(Squares(), num_workers=1, multiprocessing_context=context)
    chosen = multiprocessing.get_context("forkserver")
    loader = DataLoader(Squares(), num_workers=1, multiprocessing_context=chosen)
    assert loader.multiprocessing_context is chosen


def test_workers_must_be_given_something_ahead():
    loader = DataLoader(Squares(), num_workers=1, prefetch_factor=0)
    with pytest.raises(AssertionError, match="prefetch_factor"):
        iter(loader)


def test_errors_are_sent_as_they_are_where_that_is_possible():
    error = KeyError("a", np.int64(3))
    assert _sendable(error) is error
    assert type(_sendable(NotToBeSent(1, 2))) is RuntimeError
