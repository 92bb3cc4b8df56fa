"""What PyTorch refuses, flambeau refuses with the same type of exception, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import flambeau
from tests.conformance.bad_calls.calls import FOREIGN, call, deliberate, expressions, fits

FOLDER = Path(__file__).parent / "bad_calls"
AREAS = sorted(each.stem for each in FOLDER.glob("*.txt") if each.stem != "deliberate")
CALLS = {area: list(expressions((FOLDER / f"{area}.txt").read_text())) for area in AREAS}
DELIBERATE = deliberate((FOLDER / "deliberate.txt").read_text())


def what_is_wrong(expression: str) -> str:
    """What flambeau does worse than PyTorch with a bad call, in words; empty if nothing."""
    theirs, ours = call(expression, torch), call(expression, flambeau)
    if theirs.raised is None:
        return "PyTorch does not refuse it"
    same = fits(ours.raised, theirs.raised)
    if same == (expression in DELIBERATE):
        found = f"{theirs.raised} and {ours.raised}"
        return f"listed as deliberate, but {found}" if same else f"{found}: {ours.message}"
    if ours.raised is None:
        return ""
    if FOREIGN.search(ours.message):
        return f"foreign words: {ours.message}"
    if not says_what(ours.message, f"{expression} {theirs.message}"):
        return f"nothing of the call in the message: {ours.message!r}"
    return f"changed {', '.join(ours.changed)}" if ours.changed else ""


def says_what(message: str, facts: str) -> bool:
    """Whether a message has a number, or a word of the call, of PyTorch's message or of a type."""
    # A KeyError says its key, in quotes.
    if "'" in message and message.strip("'") in facts:
        return True
    given, known = (set(re.findall(r"[a-z]{3,}", each.lower())) for each in (message, facts))
    return bool(given & (known | TYPES) - LITTLE) or any(each.isdigit() for each in message)


#: Words that say what was given, and words that say nothing.
TYPES = {"bool", "dict", "float", "int", "list", "none", "nonetype", "str", "tuple"}
LITTLE = {"and", "are", "for", "has", "must", "not", "the", "this", "torch", "with"}


@pytest.mark.parametrize("area", AREAS)
def test_what_pytorch_refuses_is_refused(area: str) -> None:
    wrong = {each: found for each in CALLS[area] if (found := what_is_wrong(each))}
    assert not wrong, "\n".join(f"{each}: {found}" for each, found in wrong.items())


def test_there_are_many_bad_calls() -> None:
    every = [each for calls in CALLS.values() for each in calls]
    assert len(every) == len(set(every)) >= 4000
    assert DELIBERATE.keys() <= set(every)


Phrase = tuple[str, Callable[[Any], Any]]


def _backward_twice(lib: Any) -> None:
    weight = lib.ones(2, requires_grad=True)
    loss = (weight * weight).sum()
    loss.backward()
    loss.backward()


def _load(lib: Any, state: dict[str, Any]) -> None:
    lib.nn.Linear(3, 2).load_state_dict(state)


#: What people look for when they search for an error.
PHRASES: list[Phrase] = [
    ("mat1 and mat2 shapes cannot be multiplied", lambda lib: lib.ones(2, 3) @ lib.ones(2, 3)),
    ("mat1 and mat2 shapes cannot be multiplied", lambda lib: lib.nn.Linear(3, 2)(lib.ones(2, 4))),
    ("size mismatch for weight", lambda lib: _load(
        lib, {"weight": lib.ones(3, 3), "bias": lib.ones(2)})),
    ("Missing key(s) in state_dict", lambda lib: _load(lib, {"weight": lib.ones(2, 3)})),
    ("Unexpected key(s) in state_dict", lambda lib: _load(
        lib, {"weight": lib.ones(2, 3), "bias": lib.ones(2), "more": lib.ones(2)})),
    ("Trying to backward through the graph a second time", _backward_twice),
    ("a leaf Variable that requires grad is being used in an in-place operation",
     lambda lib: lib.ones(2, requires_grad=True).add_(1)),
    ("element 0 of tensors does not require grad", lambda lib: lib.ones(()).backward()),
    ("grad can be implicitly created only for scalar outputs",
     lambda lib: lib.ones(2, requires_grad=True).backward()),
    ("index out of range", lambda lib: lib.nn.functional.embedding(
        lib.tensor([3]), lib.ones(3, 2))),
    ("Target 3 is out of bounds", lambda lib: lib.nn.functional.cross_entropy(
        lib.ones(1, 3), lib.tensor([3]))),
    ("index 3 is out of bounds for dimension 0 with size 3", lambda lib: lib.ones(3)[3]),
    ("arget size", lambda lib: lib.nn.functional.binary_cross_entropy(lib.ones(3), lib.ones(4))),
    ("Target size", lambda lib: lib.nn.functional.binary_cross_entropy_with_logits(
        lib.ones(3), lib.ones(4))),
    ("Dimension out of range (expected to be in range of [-2, 1], but got 2)",
     lambda lib: lib.ones(2, 3).sum(2)),
    ("The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0",
     lambda lib: lib.ones(3) + lib.ones(4)),
    ("Expected more than 1 value per channel when training",
     lambda lib: lib.nn.BatchNorm1d(3)(lib.ones(1, 3))),
]  # fmt: skip


@pytest.mark.parametrize(("phrase", "fails"), PHRASES, ids=[each[0] for each in PHRASES])
def test_errors_keep_the_phrases_that_people_search_for(
    phrase: str, fails: Callable[[Any], Any]
) -> None:
    messages = []
    for lib in (torch, flambeau):
        with pytest.raises((RuntimeError, ValueError, IndexError)) as caught:
            fails(lib)
        messages.append(str(caught.value))
    assert phrase in messages[0]
    assert phrase in messages[1]
    assert not FOREIGN.search(messages[1])


def test_tensors_on_two_devices_are_named() -> None:
    # PyTorch has these words for two real devices, and others where one of the two is meta.
    with pytest.raises(RuntimeError) as caught:
        flambeau.ones(2).add(flambeau.ones(2, device="meta"))
    assert "Expected all tensors to be on the same device, but got meta and cpu" in str(
        caught.value
    )
