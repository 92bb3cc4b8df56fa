"""Values that another thread sets."""

import logging
import threading

import pytest

import flambeau
from flambeau.futures import Future, collect_all, wait_all


def test_a_value_that_another_thread_sets_is_waited_for():
    future = Future()
    threading.Timer(0.01, future.set_result, [flambeau.ones(2)]).start()
    assert future.wait().tolist() == [1, 1]
    assert future.done()
    assert future.value() is future.wait()


def test_a_future_is_set_once_and_asked_later():
    future = Future(devices=["cpu"])
    with pytest.raises(RuntimeError, match="no value yet"):
        future.value()
    future.set_result(1)
    with pytest.raises(RuntimeError, match="completed already"):
        future.set_result(2)
    assert future.wait() == 1


def test_an_exception_takes_the_place_of_a_value():
    future = Future()
    followed = future.then(lambda done: done.value() + 1)
    future.set_exception(KeyError("a"))
    for each in (future, followed):
        with pytest.raises(KeyError, match="a"):
            each.wait()
    with pytest.raises(TypeError, match="expected an exception"):
        Future().set_exception("a")


def test_functions_follow_before_and_after(caplog):
    seen = []
    future = Future()
    chain = future.then(lambda done: done.value() * 2).then(lambda done: done.value() + 1)
    future.add_done_callback(lambda done: seen.append(done.value()))
    future.set_result(3)
    future.add_done_callback(lambda done: seen.append(-done.value()))
    assert chain.wait() == 7
    assert seen == [3, -3]
    with caplog.at_level(logging.ERROR):
        future.add_done_callback(lambda done: seen[9])
    assert "IndexError" in caplog.text


def test_several_are_collected():
    futures = [Future() for _ in range(3)]
    together = collect_all(futures)
    for i in (2, 0, 1):
        assert not together.done()
        futures[i].set_result(i)
    assert together.wait() == futures
    assert wait_all(futures) == [0, 1, 2]
    assert collect_all([]).wait() == []
    failing = Future()
    failing.set_exception(KeyError("a"))
    assert collect_all([failing]).wait() == [failing]
    with pytest.raises(KeyError):
        wait_all([*futures, failing])


def test_jit_forks_at_once():
    future = flambeau.jit.fork(lambda x, scale: x * scale, flambeau.ones(1), scale=3)
    assert isinstance(future, flambeau.Future)
    assert flambeau.jit.wait(future).tolist() == [3]
    assert flambeau.fork is flambeau.jit.fork
