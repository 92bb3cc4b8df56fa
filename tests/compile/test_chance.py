"""What differs from call to call by itself is met while a function is traced only: a warning."""

import datetime as dt
import itertools
import os
import pathlib
import queue
import random
import secrets
import socket
import subprocess
import sys
import time
import uuid
import warnings
from time import perf_counter as clock

import numpy as np
import pytest

import flambeau
from flambeau.compile.errors import CompileWarning

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
    return {
        "time": lambda x: x * time.time(),
        "imported name": lambda x: x * clock(),
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


_ECHO = (sys.executable, "-c", "print(3)")


def _process():
    return subprocess.Popen(_ECHO, stdout=subprocess.PIPE)


def _read(file, *size):
    with file:
        return file.read(*size)


def _length_of_this():
    with open(__file__, encoding="utf-8") as file:
        return len(file.read())


@pytest.mark.parametrize("name", [*of_numbers(), *of_the_machine()])
def test_a_warning_says_so(name):
    function = {**of_numbers(), **of_the_machine()}[name]
    with pytest.warns(CompileWarning, match="the same numbers at every call"):
        flambeau.compile(function)(X)


def test_what_is_only_there_is_not_warned_of():
    generator, listed = np.random.default_rng(0), iter([1.0])
    held = [generator, listed, random.Random(0), time, sys.stdout]

    def function(x):
        seeded = np.random.default_rng(0).random() + random.Random(0).random()
        return x * len(held) if generator is not listed and seeded else x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert flambeau.compile(function)(X).tolist() == [5.0, 5.0]


def test_a_branch_that_is_not_taken_draws_nothing():
    generator, verbose = random.Random(0), False

    def function(x):
        return x * generator.random() if verbose else x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flambeau.compile(function)(X)


def test_pipes_and_sockets_that_are_read_from_are_told_of():
    process, (near, far) = _process(), socket.socketpair()
    with process, near, far:
        far.send(b"0123")
        functions = (
            (lambda x: x * len(process.stdout.readline()), "BufferedReader"),
            (lambda x: x * len(near.recv(1)), "recv"),
            (lambda x: x * len(_read(near.makefile("rb", 0), 1)), "readinto"),
        )
        for function, name in functions:
            with pytest.warns(CompileWarning, match=f"{name}.*the same numbers at every call"):
                flambeau.compile(function)(X)


def test_queues_are_told_of():
    filled = queue.Queue()
    filled.put(2.0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        flambeau.compile(lambda x: x * filled.get())(X)
    assert any("Queue.get()" in str(each.message) for each in told)
