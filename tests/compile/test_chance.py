"""Values that differ from call to call have no program: an error, or calls run eagerly."""

import concurrent.futures
import datetime as dt
import functools
import itertools
import logging
import multiprocessing.pool
import os
import pathlib
import queue
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
import warnings
from time import perf_counter as clock

import numpy as np
import pytest

import flambeau
from flambeau.compile.errors import CompileError, CompileWarning

X = flambeau.ones(2)


def of_numbers():
    """Functions that draw from something that they find outside, which is made for each test."""
    own, generator, older = random.Random(0), np.random.default_rng(0), np.random.RandomState(0)
    listed, counted = iter([1.0, 2.0, 3.0]), itertools.count()
    cycled, paired = itertools.cycle([1.0, 2.0]), zip([1.0, 2.0], [3.0, 4.0], strict=True)
    made = (float(i) for i in range(9))
    holder = {"generator": generator}
    return {
        "random": lambda x: x * random.random(),
        "numpy.random": lambda x: x * np.random.rand(),  # noqa: NPY002
        "random.Random": lambda x: x * own.random(),
        "Generator": lambda x: x * generator.random(),
        "Generator in a dictionary": lambda x: x * holder["generator"].random(),
        "RandomState": lambda x: x * older.rand(),
        "iterator": lambda x: x * next(listed),
        "count": lambda x: x * next(counted),
        "cycle": lambda x: x * next(cycled),
        "zip": lambda x: x * next(paired)[0],
        "generator": lambda x: x * next(made),
        "default_rng made inside": lambda x: x * np.random.default_rng().random(),
        "bit generator made inside": lambda x: x * np.random.Generator(np.random.PCG64()).random(),
        "RandomState made inside": lambda x: x * np.random.RandomState().rand(),
        "random.Random made inside": lambda x: x * random.Random().random(),
    }


def of_the_machine():
    closed_over, dates, kept, held = time, dt, time.time, {"clock": [time.time]}

    def imports(x):
        import time as local

        return x * local.monotonic()

    def imports_the_name(x):
        from time import process_time

        return x * process_time()

    def imports_dates(x):
        from datetime import datetime

        return x * datetime.now(dt.UTC).microsecond

    return {
        "time": lambda x: x * time.time(),
        "imported name": lambda x: x * clock(),
        "closure": lambda x: x * closed_over.perf_counter(),
        "function in a closure": lambda x: x * kept(),
        "function in a container": lambda x: x * held["clock"][0](),
        "computed name": lambda x: x * getattr(time, "ti" + "me")(),
        "static method": lambda x: x * Clocks.read(),
        "default": lambda x, read=time.time: x * read(),
        "import inside": imports,
        "import of a name inside": imports_the_name,
        "import of dates inside": imports_dates,
        "dates in a closure": lambda x: x * dates.datetime.now(dt.UTC).microsecond,
        "now": lambda x: x * dt.datetime.now(dt.UTC).microsecond,
        "uuid4": lambda x: x * (uuid.uuid4().int % 7),
        "token_bytes": lambda x: x * len(secrets.token_bytes(2)),
        "urandom": lambda x: x * len(os.urandom(2)),
        "open": lambda x: x * _length_of_this(),
        "exists": lambda x: x * os.path.exists(__file__),
        "read_text": lambda x: x * len(pathlib.Path(__file__).read_text(encoding="utf-8")),
        "check_output": lambda x: x * len(subprocess.check_output(_ECHO)),
        "popen": lambda x: x * len(_read(os.popen("echo 3"))),
        "communicate": lambda x: x * len(_process().communicate()[0]),
    }


class Clocks:
    read = staticmethod(time.time)


_ECHO = (sys.executable, "-c", "print(3)")


def _process():
    return subprocess.Popen(_ECHO, stdout=subprocess.PIPE)


def _read(file, *size):
    with file:
        return file.read(*size)


def _length_of_this():
    with open(__file__, encoding="utf-8") as file:
        return len(file.read())


REFUSED = "something else at each call"


@pytest.mark.parametrize("name", [*of_numbers(), *of_the_machine()])
def test_no_program_repeats_them(name):
    function = {**of_numbers(), **of_the_machine()}[name]
    with pytest.raises(CompileError, match=REFUSED):
        flambeau.compile(function, fullgraph=True)(X)


# Each call of `of_numbers` begins anew, but for the generators of the process.
@pytest.mark.parametrize("name", [each for each in of_numbers() if "made inside" not in each])
def test_calls_run_eagerly_and_draw_as_eager_calls_do(name):
    drawn = []
    for make in (lambda function: function, functools.partial(flambeau.compile, fullgraph=False)):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        function = make(of_numbers()[name])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            drawn.append([function(X).tolist() for _ in range(2)])
    assert drawn[0] == drawn[1]


def test_the_error_names_the_line_and_nothing_is_used_up():
    listed = iter([1.0, 2.0])
    with pytest.raises(CompileError, match=r"test_chance.py, line \d+, in .*next\(listed\)"):
        flambeau.compile(lambda x: x * next(listed), fullgraph=True)(X)
    with pytest.raises(CompileError, match="a list_iterator gives something else"):
        flambeau.compile(lambda x: x * _or_none(lambda: next(listed)), fullgraph=True)(X)
    assert [*listed] == [1.0, 2.0]


def _or_none(function):
    try:
        return function()
    except RuntimeError:
        return 0.0


def test_iterators_are_no_arguments():
    with pytest.raises(CompileError, match="an iterator is among the arguments"):
        flambeau.compile(lambda x, other: x * next(other), fullgraph=True)(X, iter([1.0]))


def test_what_is_only_there_is_not_refused():
    generator, listed = np.random.default_rng(0), iter([1.0])
    held = [generator, random.Random(0), time, sys.stdout, np]

    def function(x):
        seeded = np.random.default_rng(0).random() + random.Random(0).random()
        return x * len(held) if generator is not listed and seeded else x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert flambeau.compile(function)(X).tolist() == [5.0, 5.0]


def test_a_container_with_an_iterator_is_refused_once_it_is_read():
    held = [iter([1.0]), 2.0]
    with pytest.raises(CompileError, match="a list_iterator gives something else at each call"):
        flambeau.compile(lambda x: x * held[1], fullgraph=True)(X)
    with pytest.warns(CompileWarning, match="runs eagerly"):
        assert flambeau.compile(lambda x: x * held[1])(X).tolist() == [2.0, 2.0]
    assert [*held[0]] == [1.0]


def test_a_branch_that_is_not_taken_draws_nothing():
    generator, verbose = random.Random(0), False

    def function(x):
        return x * generator.random() if verbose else x

    assert flambeau.compile(function)(X).tolist() == [1.0, 1.0]
    assert flambeau.compile(lambda x: x * time.time() if verbose else x)(X).tolist() == [1.0, 1.0]


def test_libraries_read_the_clock():
    def function(x):
        logging.getLogger("flambeau.test").debug("a record has the time")
        return x * 2

    assert flambeau.compile(function)(X).tolist() == [2.0, 2.0]
    assert type(time.time) is type(len)


class Held:
    rate = 2.0


def in_a_thread(x):
    found = []
    thread = threading.Thread(target=lambda: found.append(Held.rate))
    thread.start()
    thread.join()
    return x * found[0]


def in_a_pool(x):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return x * pool.submit(lambda: Held.rate).result()


def in_a_pool_of_multiprocessing(x):
    with multiprocessing.pool.ThreadPool(1) as pool:
        return x * pool.map(lambda _: Held.rate, [0])[0]


@pytest.mark.parametrize("function", [in_a_thread, in_a_pool, in_a_pool_of_multiprocessing])
def test_what_another_thread_reads_is_read_at_each_call(function, monkeypatch):
    with pytest.raises(CompileError, match="runs code on another thread"):
        flambeau.compile(function, fullgraph=True)(X)
    step = flambeau.compile(function)
    with pytest.warns(CompileWarning, match="runs code on another thread"):
        assert step(X).tolist() == [2.0, 2.0]
    monkeypatch.setattr(Held, "rate", 5.0)
    assert step(X).tolist() == [5.0, 5.0]


def test_a_trace_takes_nothing_from_pipes_and_sockets():
    process, (near, far) = _process(), socket.socketpair()
    with process, near, far:
        far.send(b"0123")
        functions = (
            (lambda x: x * len(process.stdout.readline()), "BufferedReader"),
            (lambda x: x * len(near.recv(1)), "socket"),
            (lambda x: x * len(_read(near.makefile("rb", 0), 1)), "socket"),
        )
        for function, name in functions:
            with pytest.raises(CompileError, match=f"{name}.*{REFUSED}"):
                flambeau.compile(function, fullgraph=True)(X)
        assert (process.stdout.readline(), near.recv(4)) == (b"3\n", b"0123")


@pytest.mark.parametrize("mode", ["w", "a", "r+"])
def test_what_a_trace_has_written_to_a_file_is_taken_back(tmp_path, mode):
    path = tmp_path / "log"
    path.write_text("before\n" if mode == "a" else "")
    with path.open(mode) as file:

        def step(x):
            file.write("a step\n")
            return x * 2

        run = flambeau.compile(step, fullgraph=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                run(X)
    assert path.read_text().removeprefix("before\n") == "a step\n" * 2


def test_logs_in_files_are_written_while_the_function_is_traced(tmp_path, monkeypatch):
    logger = logging.getLogger("flambeau.test.files")
    handler = logging.FileHandler(tmp_path / "log")
    monkeypatch.setattr(logger, "handlers", [handler])
    logger.setLevel(logging.INFO)

    def step(x):
        logger.info("shape %s", tuple(x.shape))
        sys.stderr.write("a step\n")
        return x * 2

    with (tmp_path / "errors").open("w") as errors:
        monkeypatch.setattr(sys, "stderr", errors)
        run = flambeau.compile(step)
        assert [run(X).tolist() for _ in range(2)] == [[2, 2]] * 2
    handler.close()
    assert set((tmp_path / "log").read_text().splitlines()) == {"shape (2,)"}


def test_queues_keep_what_they_hold():
    filled = queue.Queue()
    filled.put(2.0)
    with pytest.raises(CompileError, match=r"Queue.get\(\)"):
        flambeau.compile(lambda x: x * filled.get(), fullgraph=True)(X)
    assert filled.qsize() == 1
