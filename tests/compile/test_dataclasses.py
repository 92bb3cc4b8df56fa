"""Objects of dataclasses that a compiled function makes and returns, or leaves somewhere."""

import dataclasses
from typing import Any

import pytest

import flambeau


@dataclasses.dataclass
class Inner:
    content: Any


@dataclasses.dataclass(frozen=True)
class Outer:
    first: flambeau.Tensor
    count: int = 0
    inner: Any = None

    def __post_init__(self):
        object.__setattr__(self, "more", self.first + 1)


@dataclasses.dataclass(slots=True)
class Slotted:
    first: flambeau.Tensor
    count: int = 0


class Plain:
    __slots__ = ("first",)

    def __init__(self, first):
        self.first = first


@dataclasses.dataclass
class Raised(Exception):
    first: flambeau.Tensor


LEFT: list[Inner] = []


def test_they_are_made_at_each_call_and_share_what_they_share_eagerly():
    layer = flambeau.nn.Linear(2, 2)

    @flambeau.compile
    def run(x, count):
        y = layer(x)
        made = Outer(y, count, Inner([y * 2, {"y": y}]))
        return made, [made, y]

    earlier = []
    for scale in (1.0, 2.0, 3.0):
        x = flambeau.full((1, 2), scale)
        made, (again, y) = run(x, 3)
        assert made is again
        assert made.first is made.inner.content[1]["y"] is y
        assert type(made) is Outer
        assert made.count == 3
        expected = layer(x)
        assert flambeau.allclose(made.more, expected + 1)
        assert flambeau.allclose(made.inner.content[0], expected * 2)
        layer.weight.grad = None
        made.more.sum().backward()
        assert flambeau.allclose(layer.weight.grad, x.expand(2, 2))
        assert all(made is not each for each in earlier)
        earlier.append(made)
    assert run.program_count == 1


def test_slots_and_locals():
    @dataclasses.dataclass
    class Local:
        first: flambeau.Tensor

    @flambeau.compile
    def run(x):
        return Slotted(x * 2, 1), Local(x * 3)

    for scale in (1.0, 2.0):
        slotted, local = run(flambeau.full((2,), scale))
        assert slotted.first.tolist() == [2 * scale] * 2
        assert local.first.tolist() == [3 * scale] * 2
        assert slotted.count == 1


def test_they_may_be_left_in_lists():
    LEFT.clear()

    @flambeau.compile
    def run(x):
        LEFT.append(Inner(x * 3))

    for scale in (1.0, 2.0):
        run(flambeau.full((2,), scale))
    assert [each.content.tolist() for each in LEFT] == [[3.0, 3.0], [6.0, 6.0]]


def test_one_from_outside_stays_itself():
    box = Inner(None)

    @flambeau.compile
    def run(x):
        box.content = x * 2
        return box

    for scale in (1.0, 2.0):
        assert run(flambeau.full((2,), scale)) is box
        assert box.content.tolist() == [2 * scale] * 2


@pytest.mark.parametrize("cls", [Plain, Raised])
def test_other_objects_that_would_keep_a_tensor_without_a_value_are_refused(cls):
    with pytest.raises(flambeau.CompileError, match="as its attribute 'first'"):
        flambeau.compile(lambda x: cls(x * 2), fullgraph=True)(flambeau.ones(2))
