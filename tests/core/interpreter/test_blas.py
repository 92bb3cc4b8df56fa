"""Products of matrices by NumPy, on the calling thread alone."""

import threading
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau.core.interpreter import blas


class Library:
    """A BLAS library that is told a number of threads."""

    def __init__(self, number: int = 4) -> None:
        self.number = number
        self.threads = blas._Threads(lambda: self.number, self.set)

    def set(self, number: int) -> None:
        self.number = number


def test_a_call_has_one_thread():
    library = Library()
    assert library.threads.on_one(lambda: library.number) == 1
    assert library.number == 4


def test_calls_within_calls():
    library = Library()
    seen = library.threads.on_one(
        lambda: (library.threads.on_one(lambda: library.number), library.number)
    )
    assert seen == (1, 1)
    assert library.number == 4


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_call_that_fails_gives_the_threads_back(error: type[BaseException]):
    library = Library()

    def fail() -> None:
        raise error

    with pytest.raises(error):
        library.threads.on_one(fail)
    assert library.number == 4


def test_one_thread_that_the_user_has_chosen_stays():
    library = Library()
    library.threads.on_one(lambda: None)
    library.number = 1
    library.threads.on_one(lambda: None)
    assert library.number == 1


def test_calls_of_several_threads_give_the_threads_back():
    library = Library()
    threads = [
        threading.Thread(target=lambda: [library.threads.on_one(int) for _ in range(2000)])
        for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert library.number == 4


def test_a_call_that_begins_while_another_ends_gives_the_threads_back():
    class Meanwhile(Library):
        """Another thread's call begins just after the number is set again."""

        def set(self, number: int) -> None:
            super().set(number)
            if number > 1 and not begun:
                begun.append(object())
                self.threads._calls[begun[0]] = None
                self.threads._before, self.number = self.number, 1

    begun: list[object] = []
    library = Meanwhile()
    library.threads.on_one(int)
    library.threads._end(begun[0])
    assert library.number == 4


def test_the_library_of_numpys_wheels_is_known():
    known: Any = np.show_config(mode="dicts")
    if "openblas" not in known["Build Dependencies"]["blas"]["name"]:
        pytest.skip("NumPy has another BLAS library than its wheels")
    assert blas._threads() is not None


def test_products_of_eager_code_use_one_thread(monkeypatch: pytest.MonkeyPatch):
    library = Library()
    seen: list[int] = []

    def counted(*arrays: Any) -> Any:
        seen.append(library.number)
        return np.dot(*arrays)

    monkeypatch.setattr(blas, "_threads", lambda: library.threads)
    monkeypatch.setattr(blas.np, "matmul", counted)
    with flambeau.compiler.gears(interpret=True):
        found = flambeau.ones(3, 11) @ flambeau.ones(11, 2)
    assert found.tolist() == [[11.0, 11.0]] * 3
    assert seen == [1]
    assert library.number == 4
