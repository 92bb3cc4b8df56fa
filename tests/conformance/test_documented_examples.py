"""The examples of PyTorch's documentation do with flambeau what they do with PyTorch."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from tests.conformance.documented_examples.collecting import documented, examples_in
from tests.conformance.documented_examples.deliberate import DELIBERATE, outdated, unexplained
from tests.conformance.documented_examples.lockstep import compare

EXAMPLES = documented()
#: For all examples of one name, in seconds; most need a tenth of one.
LIMIT = 120


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError if the block takes longer."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"takes more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_as_with_pytorch(name: str, tmp_path: Path) -> None:
    with time_limit(LIMIT):
        report = compare(name, EXAMPLES[name], tmp_path)
    if not report.compared:
        pytest.skip("its examples take for granted what is not there, with PyTorch too")
    assert unexplained(name, report.differences) == []
    assert outdated(name, report.differences) == []


def test_what_differs_on_purpose_is_documented() -> None:
    assert {name for each in DELIBERATE for name in each.where} - set(EXAMPLES) == set()


def test_an_example_may_have_a_prompt_before_every_line() -> None:
    text = """
    >>> for i in range(2):
    >>>     for j in range(2):
    ...         print(i, j)
    >>> x = [1,
             2]
    >>> x
    [1, 2]
    >>> x[2]
    Traceback (most recent call last):
    IndexError: list index out of range
    """
    loop, made, shown, wrong = examples_in(text)
    assert loop.source == "for i in range(2):\n    for j in range(2):\n        print(i, j)\n"
    assert made.source.split() == ["x", "=", "[1,", "2]"]
    assert (shown.source, shown.raises) == ("x\n", False)
    assert (wrong.source, wrong.raises) == ("x[2]\n", True)
