"""Objects that a compiled function makes are new at each call, or refused; none keeps a tracer."""

import array
import collections
import dataclasses
import itertools
import types
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileError, CompileWarning

X = flambeau.ones(2)


@dataclasses.dataclass(eq=False)
class Node:
    value: Any = None
    other: Any = None


@dataclasses.dataclass(frozen=True)
class Key:
    name: str
    numbers: tuple = ()


class Plain:
    def __init__(self, value=0):
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value=0):
        self.value = value


class Row(list):
    """A list with attributes of its own."""


class Single:
    """There is one object of this class."""

    def __new__(cls):
        return SINGLE


SINGLE = object.__new__(Single)
ITERATOR = iter(range(100))
KEPT: list[Any] = []

WITHOUT_TENSORS = {
    "dataclass": lambda: Node(0, ["a"]),
    "plain object": lambda: Plain({"a": [1]}),
    "object with slots": lambda: Slotted([1]),
    "set": lambda: {1, "a"},
    "set of objects": lambda: {Plain()},
    "set of objects with a hash": lambda: {Key("a")},
    "NumPy array": lambda: np.zeros(2),
    "bytearray": lambda: bytearray(b"ab"),
    "array": lambda: array.array("d", [1.0]),
    "Counter": lambda: collections.Counter("aab"),
    "UserDict": lambda: collections.UserDict(a=[1]),
    "namespace": lambda: types.SimpleNamespace(a=[1]),
    "list of a class of its own": lambda: Row([[1]]),
    "list in a dictionary": lambda: {"a": [1]},
}


def inner_of(made):
    """What can be changed in ``made``, itself first."""
    found = [made]
    for each in found:
        if isinstance(each, dict | list | set | tuple):
            found += each.values() if isinstance(each, dict) else each
        else:
            found += getattr(each, "__dict__", {}).values()
            found += [each.value] if isinstance(each, Slotted) else []
    return [each for each in found if not isinstance(each, int | str | float | tuple | Key)]


@pytest.mark.filterwarnings("ignore:.*leaves Python numbers")
@pytest.mark.parametrize("kind", WITHOUT_TENSORS)
@pytest.mark.parametrize("where", ["returned", "in a dataclass", "kept"])
def test_what_a_call_makes_is_new_at_each_call(kind, where):
    make = WITHOUT_TENSORS[kind]
    KEPT.clear()

    def run(x):
        made = make()
        if where == "kept":
            KEPT.append((made, made))
            return x, None
        return x * 2, (Node(made, made) if where == "in a dataclass" else (made, made))

    compiled = flambeau.compile(run)
    results = [compiled(X)[1] for _ in range(3)]
    assert compiled.program_count == 1
    found = KEPT if where == "kept" else results
    pairs = [each if isinstance(each, tuple) else (each.value, each.other) for each in found]
    expected = inner_of(make())
    for first, second in pairs:
        assert first is second
        assert [*map(type, inner_of(first))] == [*map(type, expected)]
        assert (
            repr(vars(first) if hasattr(first, "__dict__") else first).partition(" at ")[0]
            == (repr(vars(expected[0]) if hasattr(first, "__dict__") else expected[0])).partition(
                " at "
            )[0]
        )
    ids = [id(each) for first, _ in pairs for each in inner_of(first)]
    assert len({*ids}) == len(ids) == 3 * len(expected)


def test_what_was_there_before_stays_itself():
    box, table, numbers = Plain([1]), {1, 2}, np.ones(1)

    @flambeau.compile
    def run(x, given):
        return x * 2, Node([box, table, numbers, Single(), ITERATOR], given), box.value

    for given in ({1}, {1}):
        _, node, value = run(X, given)
        there = [box, table, numbers, SINGLE, ITERATOR]
        assert all(a is b for a, b in zip(node.value, there, strict=True))
        assert value is box.value
        assert node.other is given


def cycle(x):
    node = Node(x * 2)
    node.other = node
    return node


def pair(x):
    first = Node(x * 2)
    first.other = Node([x * 3], {"back": first})
    return first.other


def chain(x):
    node = None
    for i in range(2000):
        node = Node(x if i else x * 2, node)
    return node


def test_a_cycle_is_made_as_it_is():
    for fast in (flambeau.compile(cycle), flambeau.compile(cycle, fullgraph=False)):
        for scale in (1.0, 2.0):
            node = fast(X * scale)
            assert node.other is node
            assert node.value.tolist() == [2.0 * scale] * 2


def test_objects_that_hold_each_other_are_made_as_they_are():
    fast = flambeau.compile(pair)
    for scale in (1.0, 2.0):
        second = fast(X * scale)
        first = second.other["back"]
        assert first.other is second
        assert (first.value + second.value[0]).tolist() == [5.0 * scale] * 2


def test_a_long_chain_is_made_as_it_is():
    fast = flambeau.compile(chain)
    for scale in (1.0, 2.0):
        node, count = fast(X * scale), 1
        while node.other is not None:
            node, count = node.other, count + 1
        assert count == 2000
        assert node.value.tolist() == [2.0 * scale] * 2


def test_lists_may_be_inside_each_other_as_deeply_as_in_python():
    def run(x):
        made = [x * 2]
        for _ in range(20_000):
            made = [made]
        return made

    fast = flambeau.compile(run)
    for scale in (1.0, 2.0):
        found, depth = fast(X * scale), 0
        while type(found) is list:
            (found,) = found
            depth += 1
        assert depth == 20_001
        assert found.tolist() == [2.0 * scale] * 2


def test_tuples_inside_each_other_beyond_what_python_can_follow_are_an_error():
    def run(x):
        made = (x * 2,)
        for _ in range(100_000):
            made = (made,)
        return made

    with pytest.raises(CompileError, match="too deeply"):
        flambeau.compile(run, fullgraph=True)(X)


def generator(x):
    for i in range(2):
        yield x * i


async def coroutine(x):
    return x * 2


def caught(y):
    try:
        raise ValueError(y)
    except ValueError as error:
        return error


def array_of(y):
    made = np.empty(1, object)
    made[0] = y
    return made


HOLDING = {
    "plain object": lambda y: Plain(y),
    "plain object in a dataclass": lambda y: Node(Plain(y)),
    "plain object in a plain object": lambda y: Plain(Plain([y])),
    "object with slots": lambda y: Slotted(y),
    "closure": lambda y: lambda: y,
    "default argument": lambda y: lambda each=y: each,
    "map": lambda y: map(abs, [y]),
    "zip": lambda y: zip([y], [y], strict=True),
    "iterator": lambda y: iter([y]),
    "chain": lambda y: itertools.chain([y]),
    "generator expression": lambda y: (each for each in [y]),
    "values": lambda y: {"y": y}.values(),
    "items": lambda y: {"y": y}.items(),
    "exception": lambda y: ValueError(y),
    "exception with its traceback": caught,
    "bound method": lambda y: [y].append,
    "object array": array_of,
    "set": lambda y: {y},
}


@pytest.mark.parametrize("kind", HOLDING)
@pytest.mark.parametrize("where", ["returned", "kept", "in a dataclass"])
def test_what_would_keep_a_tensor_without_a_value_is_refused_and_runs_eagerly(kind, where):
    make = HOLDING[kind]
    KEPT.clear()

    def run(x):
        made = make(x * 2)
        if where == "kept":
            KEPT.append(made)
            return x
        return made if where == "returned" else Node(made)

    with pytest.raises(CompileError, match=r"leaves an object of class \w+ in"):
        flambeau.compile(run, fullgraph=True)(X)
    assert not KEPT
    with pytest.warns(CompileWarning, match="runs eagerly"):
        assert type(flambeau.compile(run, fullgraph=False)(X)) is type(run(X))


@pytest.mark.parametrize("function", [generator, coroutine])
def test_functions_that_wait_are_refused_and_run_eagerly(function):
    with pytest.raises(CompileError, match=r"leaves an object of class \w+ in"):
        flambeau.compile(function, fullgraph=True)(X)
    with pytest.warns(CompileWarning, match="runs eagerly"):
        found = flambeau.compile(function, fullgraph=False)(X)
    if function is generator:
        assert [each.tolist() for each in found] == [[0.0, 0.0], [1.0, 1.0]]
    else:
        with pytest.raises(StopIteration) as end:
            found.send(None)
        assert end.value.value.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("make", [lambda: iter([1]), lambda: (i for i in range(2)), lambda: zip()])
def test_an_iterator_that_the_first_call_would_use_up_is_refused(make):
    with pytest.raises(CompileError, match="used up by the first"):
        flambeau.compile(lambda x: (x, make()), fullgraph=True)(X)


class Net(nn.Module):
    def __init__(self, cls):
        super().__init__()
        self.cls = cls
        self.state = cls(flambeau.zeros(2))

    def forward(self, x):
        self.state = self.cls(self.state.value + x)
        return x


GLOBAL: Any = None


@pytest.mark.parametrize("fullgraph", [True, False])
def test_an_object_that_is_put_into_an_attribute_is_made_at_each_call(fullgraph):
    net = Net(Node)
    fast, first = flambeau.compile(net, fullgraph=fullgraph), net.state
    for count in (1, 2, 3):
        fast(X)
        assert net.state.value.tolist() == [count] * 2
        assert net.state is not first
        first = net.state


@pytest.mark.parametrize("fullgraph", [True, False])
def test_an_object_that_is_put_into_a_global_is_made_at_each_call(fullgraph):
    def run(x):
        global GLOBAL
        GLOBAL = Node([x * 2])
        return x

    fast = flambeau.compile(run, fullgraph=fullgraph)
    for scale in (1.0, 2.0):
        fast(X * scale)
        assert GLOBAL.value[0].tolist() == [2.0 * scale] * 2


def test_an_object_that_cannot_be_made_again_leaves_an_attribute_as_it_was():
    net = Net(Plain)
    before = net.state
    with pytest.raises(CompileError, match=r"an object of class Plain in Net\.state"):
        flambeau.compile(net, fullgraph=True)(X)
    assert net.state is before
    assert before.value.tolist() == [0.0, 0.0]
    fast = flambeau.compile(net, fullgraph=False)
    with pytest.warns(CompileWarning, match="runs eagerly"):
        fast(X)
    fast(X)
    assert net.state.value.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("fullgraph", [True, False])
def test_an_object_that_the_first_call_makes_for_later_ones_comes_from_an_eager_call(fullgraph):
    class Trainer:
        def __init__(self):
            self.weight = flambeau.nn.Parameter(flambeau.ones(()))
            self.optimizer, self.kept = None, {}

        def step(self, x):
            if self.optimizer is None:
                self.optimizer = flambeau.optim.Adam([self.weight], lr=0.5)
                self.kept["mean"] = Plain(flambeau.zeros(()))
            self.optimizer.zero_grad()
            (self.weight * x).sum().backward()
            self.optimizer.step()
            self.kept["mean"].value = self.kept["mean"].value * 0.5 + self.weight.detach()
            return self.kept["mean"].value * 2

    eager, compiled = Trainer(), Trainer()
    run = flambeau.compile(compiled.step, fullgraph=fullgraph)
    for _ in range(4):
        assert flambeau.allclose(run(X), eager.step(X))
    assert run.program_count == 1


def follow(net):
    net.state = Node(net.state.value + 1, net.state.other)


def keep_the_last(net):
    net.last = [net.state]
    net.state = Node(net.state.value + 1, net.state.value)
    net.last.append(net.state)


def read_another_name(net):
    net.state = Node(net.same.value + net.state.value)


def change_and_replace(net):
    net.state.value = net.state.value * 2
    net.state = Node(net.state.value + 1, net.state.value)


def link(net):
    net.state = Node(net.state.value + 1, net.state)


def exchange(net):
    net.state, net.same = Node(net.same.value + 1), Node(net.state.value * 2)


def append(net):
    net.log.append(net.state)
    net.state = Node(net.state.value + 1, (net.state.value, [net.state.value]))


def grow(net):
    net.state = Node(net.state.value + 1, Node(net.state.value, net.state.other))


def fill_the_list(net):
    net.state.other.append(net.state.value)
    net.state = Node(net.state.value + 1, [])


SCENES = (
    follow, keep_the_last, read_another_name, change_and_replace, link, exchange, append, grow,
    fill_the_list,
)  # fmt: skip


def play(scene, is_compiled):
    net = types.SimpleNamespace() if scene is exchange else Plain()
    net.state = net.same = Node(flambeau.zeros(2), [])
    net.log, before = [], net.state

    def run(x):
        scene(net)
        return x * net.state.value

    run = flambeau.compile(run) if is_compiled else run
    seen = []
    for i in range(4):
        if i == 2:
            net.state = Node(flambeau.full((2,), 5.0), [])
        seen.append(run(X).tolist())
        others = [*getattr(net, "last", ()), net.same, before, *net.log, net.state.other]
        nodes = [net.state, *(each for each in others if isinstance(each, Node))]
        seen += [each.value.tolist() for each in nodes]
        seen.append([each is net.state for each in others])
        if isinstance(before.other, list):
            seen.append([each.tolist() for each in before.other])
    return seen


@pytest.mark.parametrize("scene", SCENES)
def test_objects_that_are_replaced_are_as_they_are_eagerly(scene):
    assert play(scene, True) == play(scene, False)


def test_an_object_that_is_replaced_at_each_call_needs_one_program():
    net = Net(Node)
    fast = flambeau.compile(net)
    for _ in range(3):
        fast(X)
    net.state = Node(flambeau.full((2,), 7.0))
    fast(X)
    assert net.state.value.tolist() == [8.0, 8.0]
    assert fast._calls.program_count == 1
    net.state = Node(flambeau.ones(1))
    fast(X)
    assert net.state.value.tolist() == [2.0, 2.0]


RULES = [Plain([i]) for i in range(5000)]
NODES = {i: Node(i) for i in range(5000)}


@pytest.mark.filterwarnings("ignore:.*finds more than 4096 objects")
def test_what_nothing_has_led_to_stays_itself_if_something_else_holds_it():
    @flambeau.compile
    def run(x):
        return x * 2, RULES[4900], Node(NODES[4900]), Node([Plain([1])])

    _, rule, node, made = run(X)
    _, same_rule, same_node, other = run(X)
    assert rule is same_rule is RULES[4900]
    assert node.value is same_node.value is NODES[4900]
    assert node is not same_node
    assert made.value[0] is not other.value[0]


def test_garbage_does_not_pass_for_something_that_holds_an_object():
    @flambeau.compile
    def run(x):
        made = Plain([1])
        garbage = [made]
        garbage.append(garbage)
        return x * 2, made

    (_, first), (_, second) = run(X), run(X)
    assert first is not second
