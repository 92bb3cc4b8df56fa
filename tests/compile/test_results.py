"""What a compiled function creates and returns, or leaves in attributes, is new at each call.

Containers, dataclasses and arrays are followed. Other objects leave the call to eager code; with
``fullgraph=True`` they are refused.
"""

import array
import collections
import dataclasses
import itertools
import types
from typing import Any

import jax
import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileError, CompileWarning
from tests.compile.following import MAY_RUN_EAGERLY, check_as_eagerly, check_refused, tracers

pytestmark = MAY_RUN_EAGERLY
X = flambeau.ones(2)


@dataclasses.dataclass(eq=False)
class Node:
    value: Any = None
    other: Any = None


@dataclasses.dataclass(frozen=True)
class Key:
    name: str
    numbers: tuple = ()


@dataclasses.dataclass(frozen=True)
class Output:
    first: flambeau.Tensor
    count: int = 0
    inner: Any = None

    def __post_init__(self):
        object.__setattr__(self, "more", self.first + 1)


@dataclasses.dataclass(slots=True)
class SlottedOutput:
    first: flambeau.Tensor
    count: int = 0


@dataclasses.dataclass
class Raised(Exception):
    first: flambeau.Tensor


class Plain:
    def __init__(self, value=0):
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value=0):
        self.value = value


class Deeper(Plain):
    more = ()

    def __init__(self, value=0):
        super().__init__(value)
        self.more = [value, len(self.more)]

    @property
    def twice(self):
        return self.value * 2


class Row(list):
    """A list with attributes of its own."""


Pair = collections.namedtuple("Pair", ["left", "right"])


@jax.tree_util.register_pytree_node_class
class Registered:
    def __init__(self, first, second):
        self.first, self.second = first, second

    def tree_flatten(self):
        return (self.first, self.second), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


HOLDER = Plain()
RULES = [Plain([i]) for i in range(5000)]
NODES = {i: Node(i) for i in range(5000)}

FOLLOWED = {
    "dataclass": lambda y: Node(0, ["a"]),
    "dataclass with tensors": lambda y: Output(y, 3, Node([y * 2, {"y": y}])),
    "dataclass with slots": lambda y: SlottedOutput(y, 1),
    "set": lambda y: {1, "a"},
    "set with a tensor": lambda y: {y},
    "set of objects with a hash": lambda y: {Key("a")},
    "set of objects": lambda y: {Plain()},
    "plain object": lambda y: Plain({"a": [1]}),
    "plain object with a tensor": lambda y: Plain(Plain([y])),
    "plain object in a dataclass": lambda y: Node(Plain(y)),
    "object with slots": lambda y: Slotted([1, y]),
    "object of a subclass": lambda y: Deeper(y),
    "UserDict": lambda y: collections.UserDict(a=[1, y]),
    "distribution": lambda y: flambeau.distributions.Normal(y, 1.0),
    "NumPy array": lambda y: np.zeros(2),
    "bytearray": lambda y: bytearray(b"ab"),
    "list in a dictionary": lambda y: {"a": [1, y]},
    "list of a class of its own": lambda y: Row([[1]]),
    "deque": lambda y: collections.deque([y, []], 3),
    "OrderedDict": lambda y: collections.OrderedDict(b=y, a=[y]),
    "defaultdict": lambda y: collections.defaultdict(list, y=[y]),
    "named tuple": lambda y: Pair(y, [y * 2]),
    "registered": lambda y: Registered(y, [Registered(y * 2, 1)]),
    "garbage": lambda y: (garbage := [[1]], garbage.append(garbage))[0][0],
}
LEFT_TO_EAGER = {
    "array": lambda y: array.array("d", [1.0]),
    "namespace": lambda y: types.SimpleNamespace(a=[1, y]),
}


def scene(create, where):
    def make():
        HOLDER.value = 0

        def step(x):
            new = create(x * 2)
            if where == "attribute":
                HOLDER.value = (new, new)
                return None
            return Node(new, new) if where == "in a dataclass" else [x * 3, new, new]

        return step, lambda: HOLDER.value

    return make


@pytest.mark.parametrize("kind", [*FOLLOWED, *LEFT_TO_EAGER])
@pytest.mark.parametrize("where", ["returned", "in a dataclass", "attribute"])
def test_what_a_call_creates_is_new_at_each_call(kind, where):
    create = {**FOLLOWED, **LEFT_TO_EAGER}[kind]
    check_as_eagerly(scene(create, where), programs=int(kind in FOLLOWED))


# Other results


def cycle():
    def step(x):
        node = Node(x * 2)
        node.other = node
        return node

    return step, lambda: None


def objects_that_hold_each_other():
    def step(x):
        first = Node(x * 2)
        first.other = Node([x * 3], {"back": first})
        return first.other

    return step, lambda: None


def a_container_that_contains_itself():
    def step(x):
        new = [x * 2]
        new.append(new)
        HOLDER.value = new
        return new

    return step, lambda: HOLDER.value


def one_of_thousands_of_objects():
    return lambda x: (RULES[4900], Node(NODES[4900]), x), lambda: (RULES[4900], NODES[4900])


def replaced(replace):
    """A scene with dataclasses in attributes that are read, and replaced at each call."""

    def make():
        net = Plain()
        net.state = net.same = Node(flambeau.zeros(2, 2), [])
        net.log, before = [], net.state

        def step(x):
            replace(net)
            return x * net.state.value

        def change(call):
            if call == 2:
                net.state = Node(flambeau.full((2, 2), 5.0), [])

        return step, lambda: (net, before), change

    make.__name__ = replace.__name__
    return make


@replaced
def follow(net):
    net.state = Node(net.state.value + 1, net.state.other)


@replaced
def keep_the_last(net):
    net.last = [net.state]
    net.state = Node(net.state.value + 1, net.state.value)
    net.last.append(net.state)


@replaced
def change_and_replace(net):
    net.state.value = net.state.value * 2
    net.state = Node(net.state.value + 1, net.state.value)


@replaced
def link(net):
    net.state = Node(net.state.value + 1, net.state)


@replaced
def exchange(net):
    net.state, net.same = Node(net.same.value + 1), Node(net.state.value * 2)


@replaced
def log(net):
    net.log.append(net.state)
    net.state = Node(net.state.value + 1, (net.state.value, [net.state.value]))


@replaced
def fill_the_list(net):
    net.state.other.append(net.state.value)
    net.state = Node(net.state.value + 1, [])


OTHERS = [
    cycle, objects_that_hold_each_other, a_container_that_contains_itself,
    one_of_thousands_of_objects, follow, keep_the_last,
    change_and_replace, link, exchange, log, fill_the_list,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*finds more than 4096 objects")
@pytest.mark.parametrize("make", OTHERS, ids=lambda make: make.__name__)
def test_results_that_no_program_follows_are_the_eager_ones(make):
    check_as_eagerly(make)


def test_gradients_pass_through_a_dataclass():
    layer = nn.Linear(2, 2)
    run = flambeau.compile(lambda x: Output(layer(x), 1, [x]))
    for scale in (1.0, 2.0, 3.0):
        x = flambeau.full((1, 2), scale)
        layer.weight.grad = None
        run(x).more.sum().backward()
        assert flambeau.allclose(layer.weight.grad, x.expand(2, 2))
    assert run.program_count == 1


class Single:
    """There is one object of this class."""

    def __new__(cls):
        return SINGLE


SINGLE = object.__new__(Single)


def test_what_was_there_before_stays_itself():
    box, table, numbers, node = Plain([1]), {1, 2}, np.ones(1), Node([X])

    @flambeau.compile
    def run(x, given):
        node.other = x * 2
        return [box, table, numbers, Single(), node], Node(box.value, given)

    for given in ({1}, {1}):
        found, new = run(X, given)
        before = [box, table, numbers, SINGLE, node]
        assert all(a is b for a, b in zip(found, before, strict=True))
        assert new.value is box.value
        assert new.other is given
        assert node.other.tolist() == [2.0, 2.0]
    assert run.program_count == 1


def chain(new, count):
    def function(x):
        inner = x * 2
        for _ in range(count):
            inner = new(inner)
        return inner

    return function


@pytest.mark.parametrize(
    ("new", "count"),
    [(lambda each: [each], 20_000), (Node, 2000), (lambda each: (each,), 100_000)],
    ids=["list", "dataclass", "tuple"],
)
def test_what_is_nested_beyond_what_python_can_follow_is_left_to_eager(new, count):
    function = chain(new, count)
    run = flambeau.compile(function)
    for scale in (1.0, 2.0):
        found, depth = run(X * scale), 0
        while not isinstance(found, flambeau.Tensor):
            found = found.value if isinstance(found, Node) else found[0]
            depth += 1
        assert (depth, found.tolist()) == (count, [2.0 * scale] * 2)
    with pytest.raises(CompileError, match="too deeply"):
        flambeau.compile(function, fullgraph=True)(X)


# Objects that would keep a tensor without a value


def caught(y):
    try:
        raise ValueError(y)
    except ValueError as error:
        return error


def array_of(y):
    objects = np.empty(1, object)
    objects[0] = y
    return objects


HOLDING = {
    "namespace": lambda y: types.SimpleNamespace(value=y),
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
    "exception of a dataclass": lambda y: Raised(y),
    "exception with its traceback": caught,
    "bound method": lambda y: [y].append,
    "object array": array_of,
}


@pytest.mark.parametrize("kind", HOLDING)
@pytest.mark.parametrize("where", ["returned", "attribute", "in a dataclass"])
def test_what_would_keep_a_tensor_without_a_value_is_refused_and_runs_eagerly(kind, where):
    create = HOLDING[kind]
    HOLDER.value = 0

    def run(x):
        new = create(x * 2)
        if where == "attribute":
            HOLDER.value = new
            return x
        return new if where == "returned" else Node(new)

    with pytest.raises(CompileError, match=r"leaves (an object of class \w+|a tensor) in"):
        flambeau.compile(run, fullgraph=True)(X)
    assert HOLDER.value == 0
    with pytest.warns(CompileWarning, match="runs eagerly"):
        assert type(flambeau.compile(run)(X)) is type(run(X))


def test_the_attribute_that_would_keep_a_tensor_is_named():
    with pytest.raises(CompileError, match="as its attribute 'value'"):
        flambeau.compile(lambda x: types.SimpleNamespace(value=x * 2), fullgraph=True)(X)


def generator(x):
    for i in range(2):
        yield x * i


async def coroutine(x):
    return x * 2


@pytest.mark.parametrize("function", [generator, coroutine])
def test_functions_that_wait_are_refused_and_run_eagerly(function):
    with pytest.raises(CompileError, match=r"leaves an object of class \w+ in"):
        flambeau.compile(function, fullgraph=True)(X)
    with pytest.warns(CompileWarning, match="runs eagerly"):
        found = flambeau.compile(function)(X)
    if function is generator:
        assert [each.tolist() for each in found] == [[0.0, 0.0], [1.0, 1.0]]
    else:
        with pytest.raises(StopIteration) as end:
            found.send(None)
        assert end.value.value.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("make", [lambda: iter([1]), lambda: (i for i in range(2)), lambda: zip()])
def test_an_iterator_that_the_first_call_would_use_up_is_refused(make):
    with pytest.raises(CompileError, match=r"leaves an object of class \w+ in its result"):
        flambeau.compile(lambda x: (x, make()), fullgraph=True)(X)


class Net(nn.Module):
    def __init__(self, cls):
        super().__init__()
        self.cls = cls
        self.state = cls(flambeau.zeros(2))

    def forward(self, x):
        self.state = self.cls(self.state.value + x)
        return x


def test_an_object_that_cannot_be_created_again_leaves_an_attribute_as_it_was():
    net = Net(Plain)
    check_refused(net, r"changes Net\.state", X)
    assert net.state.value.tolist() == [2.0, 2.0]
    assert not tracers()
    fast = flambeau.compile(net)
    fast(X)
    fast(X)
    with pytest.warns(CompileWarning, match="runs eagerly"):
        fast(X)
    assert net.state.value.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("fullgraph", [True, False])
def test_an_object_that_the_first_call_creates_for_later_ones_comes_from_an_eager_call(fullgraph):
    class Trainer:
        def __init__(self):
            self.weight = nn.Parameter(flambeau.ones(()))
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
