"""Containers from outside: what a function asks of them counts at each call, and so do changes."""

import collections
import copy
import operator
import types
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileError, CompileWarning
from tests.compile.following import MAY_RUN_EAGERLY, check_as_eagerly, check_refused

pytestmark = MAY_RUN_EAGERLY
X = flambeau.ones(2, 2)


def layers():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))


def total(values):
    return sum((each.sum() for each in values if isinstance(each, flambeau.Tensor)), 0.0)


def rotate(c, y):
    c.reverse()
    if isinstance(c, collections.deque):
        c.rotate(1)


OF_LISTS = {
    "append": lambda c, y: c.append(y),
    "extend": lambda c, y: c.extend([y, "label"]),
    "add": lambda c, y: operator.iadd(c, (y,)) and None,
    "insert first": lambda c, y: c.insert(0, y) if getattr(c, "maxlen", None) is None else None,
    "insert second": lambda c, y: c.insert(1, y) if getattr(c, "maxlen", None) is None else None,
    "append left": lambda c, y: c.appendleft(y) if isinstance(c, collections.deque) else None,
    "clear": lambda c, y: c.clear(),
    "pop": lambda c, y: total([c.pop()]) if c else None,
    "set first": lambda c, y: c.__setitem__(0, y) if len(c) else None,
    "set all": lambda c, y: c.__setitem__(slice(None), [y]) if isinstance(c, list) else None,
    "delete first": lambda c, y: c.__delitem__(0) if c else None,
    "rotate": rotate,
    "last": lambda c, y: total([c[-1]]) if c else None,
    "second": lambda c, y: total([c[1]]) if len(c) > 1 else None,
    "length": lambda c, y: len(c),
    "truth": lambda c, y: 1.0 if c else 2.0,
    "sum": lambda c, y: total(c),
    "copy": lambda c, y: len(c.copy()) + total(reversed(c)),
    "repeat": lambda c, y: len(c * 2),
    "move": lambda c, y: c.append(c[0]) if c else None,
    "nest": lambda c, y: c.append([y, (y * 2, "label")]),
    "nested": lambda c, y: [e.append(y) for e in c if isinstance(e, list)].clear(),
}
OF_DICTIONARIES = {
    "set a": lambda c, y: c.__setitem__("a", y),
    "set b": lambda c, y: c.__setitem__("b", (y, y * 2)),
    "delete": lambda c, y: c.__delitem__("a") if "a" in c else None,
    "pop": lambda c, y: total([c.pop("b", None)]),
    "get": lambda c, y: total([c.get("a")]),
    "item": lambda c, y: total(c["b"]) if "b" in c else None,
    "default": lambda c, y: c.setdefault("c", []).append(y),
    "default tensor": lambda c, y: total([c.setdefault("a", y)]),
    "update": lambda c, y: c.update({"d": y}, a=y),
    "clear": lambda c, y: c.clear(),
    "pop item": lambda c, y: total([c.popitem()[1]]) if c else None,
    "length": lambda c, y: len(c),
    "truth": lambda c, y: 1.0 if c else 2.0,
    "sum": lambda c, y: total(c.values()) + len([*c.items()]),
    "keys": lambda c, y: "".join(c) == "ab",
    "union": lambda c, y: total((c | {"a": y}).values()),
    "move": lambda c, y: c.update(e=c["a"]) if "a" in c else None,
    "nested": lambda c, y: c["c"].append(y) if "c" in c else None,
}
STARTS = {
    "list": list,
    "deque": collections.deque,
    "short deque": lambda: collections.deque(maxlen=2),
    "dict": dict,
    "ordered": collections.OrderedDict,
    "default": lambda: collections.defaultdict(list),
}


def plain(value, seen):
    """``value`` in a form that compares, which objects are the same included."""
    if isinstance(value, flambeau.Tensor):
        return seen.setdefault(id(value), len(seen)), value.tolist()
    if isinstance(value, dict):
        return type(value), [(key, plain(each, seen)) for key, each in value.items()]
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value), [plain(each, seen) for each in value]
    return value


def play(kind, steps, between, compiled):
    box = types.SimpleNamespace(container=STARTS[kind]())
    table = OF_DICTIONARIES if isinstance(box.container, dict) else OF_LISTS

    def run(x):
        found = x * 1
        for i, step in enumerate(steps):
            answer = table[step](box.container, x + i)
            if answer is not None:
                found = found + answer
        return found

    function = flambeau.compile(run) if compiled else run
    seen = []
    for i in range(4):
        with warnings.catch_warnings():
            # Eager calls, and many programs.
            warnings.simplefilter("ignore", CompileWarning)
            y = function(flambeau.full((), float(i)))
        seen.append(plain([y, box.container], {}))
        if i == 1:
            table[between](box.container, flambeau.full((), -5.0))
        if i == 2:
            box.container = copy.copy(box.container)
    return seen


@st.composite
def plays(draw):
    kind = draw(st.sampled_from([*STARTS]))
    is_list = kind in ("list", "deque", "short deque")
    step = st.sampled_from([*(OF_LISTS if is_list else OF_DICTIONARIES)])
    return kind, draw(st.lists(step, min_size=1, max_size=5)), draw(step)


@settings(max_examples=60, deadline=None)
@given(plays())
def test_any_use_of_a_container_gives_what_it_gives_eagerly(play_of):
    assert play(*play_of, True) == play(*play_of, False)


# What the eager call guarantees of the objects in containers, whoever made them.


def two_names():
    """Two globals are one list, two lists, and one list again."""
    namespace = {"ONE": (both := [])}
    namespace["OTHER"] = both
    exec("def step(x):\n ONE.append(x)\n OTHER.append(x * 2)\n return x * len(OTHER)\n", namespace)

    def change(call):
        namespace["ONE"] = [] if call in (1, 2) else namespace["OTHER"]

    return namespace["step"], lambda: (namespace["ONE"], namespace["OTHER"]), change


def one_container_in_two_attributes():
    first, second = {}, {}
    space = types.SimpleNamespace(first=first, second=second)

    def step(x):
        space.first["x"] = x
        return x + space.second.get("x", 0.0)

    def change(call):
        space.second = first if call == 1 else {"x": X}

    return step, lambda: space, change


def a_parameter_in_a_container():
    layer = layers()[0]
    layer.cache = {"w": layer.weight}

    def step(x):
        layer.cache["y"] = y = layer(x) + layer.cache["w"]
        return y, layer.cache["w"]

    def change(call):
        if call == 1:
            layer.cache["w"] = flambeau.full((2, 2), 5.0)
        with flambeau.no_grad():
            layer.weight.fill_(3.0 + call)

    return step, lambda: layer.cache, change


def a_view_in_a_container():
    base, cache = flambeau.tensor([1.0, 2.0]), {}
    cache["k"] = base[0]

    def step(x):
        cache["last"] = x * cache["k"]
        cache["k"].add_(1)
        return cache["last"]

    def change(call):
        base[0] = 5.0
        cache["k"] = [base[0], base[1], flambeau.full((), 7.0), base[0], base[0]][call]

    return step, lambda: (base, cache), change


def tensors_that_stand_there():
    cache = {"now": flambeau.ones(1), "old": [flambeau.zeros(1)]}

    def step(x):
        old = cache["now"]
        cache["old"][0] = old
        cache["now"] = x * 2
        return old, cache

    return step, lambda: cache


def new_containers_with_one_from_outside():
    kept, present = [], []

    def step(x):
        kept.append((collections.OrderedDict(x=x * 2), present))
        return kept[-1], present

    return step, lambda: (kept, present)


def results_and_arguments():
    kept = []

    def step(x):
        y = x * 2
        kept.extend([y, x])
        return y, x, kept, [kept]

    return step, lambda: kept


def a_leaf_that_is_kept():
    kept = []

    def step(x):
        kept.append((x * 2).detach().requires_grad_())
        return kept[-1] * 3

    def change(call):
        (kept[-1] * 3).sum().backward()

    return step, lambda: kept, change


def history_that_reaches_back():
    weight, kept = flambeau.tensor([2.0], requires_grad=True), {}

    def step(x):
        kept["y"] = kept.get("y", 1.0) * weight * x.mean()

    def change(call):
        if call == 3:
            kept.pop("y").sum().backward()

    return step, lambda: (weight, kept), change


def a_tensor_in_a_container_that_is_written():
    cache = {"k": flambeau.zeros(4), "n": flambeau.zeros((), dtype=flambeau.int64)}

    def step(x):
        cache["k"][1:2] = x.mean()
        cache["n"].add_(1)
        cache["last"] = x * 2

    def change(call):
        if call == 2:
            cache["k"] = flambeau.ones(4)

    return step, lambda: cache, change


def modules_that_are_not_called():
    model = nn.Module()
    model.layer, model.rate, model.sizes, model.losses = layers()[0], 2.0, [1], []

    def step(x):
        loss = x * model.rate * len(model.sizes) * model.layer.weight
        model.losses.append(loss)
        return loss

    def change(call):
        if call == 1:
            model.rate = 3.0
        elif call == 2:
            model.sizes.append(1)
        elif call == 3:
            model.layer.weight = nn.Parameter(flambeau.full((2, 2), 2.0))

    return step, lambda: model.losses, change


def two_compiled_functions():
    kept = []
    read = flambeau.compile(lambda x: x + sum(each.detach() for each in kept))

    def step(x):
        kept.append(x * 2)

    return step, lambda: (kept, read(X))


def a_dictionary_of_an_argument():
    batch = {"count": 0, "seen": []}

    def run(x, batch):
        batch["count"] += 1
        batch["seen"].append(x)
        return x * batch["count"]

    return lambda x: run(x, batch), lambda: batch


SCENES = [
    two_names, one_container_in_two_attributes, a_parameter_in_a_container, a_view_in_a_container,
    tensors_that_stand_there, new_containers_with_one_from_outside, results_and_arguments,
    a_leaf_that_is_kept, history_that_reaches_back, a_tensor_in_a_container_that_is_written,
    modules_that_are_not_called, two_compiled_functions, a_dictionary_of_an_argument,
]  # fmt: skip


@pytest.mark.parametrize("make", SCENES, ids=lambda make: make.__name__)
def test_objects_in_containers_are_the_eager_ones(make):
    check_as_eagerly(make)


@pytest.mark.parametrize("error", ["inside", "of a value"])
def test_an_error_leaves_containers_as_they_were(error):
    net, inner = layers(), [1]
    net.kept, kept = {"inner": inner}, []
    net[1].register_forward_hook(lambda module, args, output: kept.append(output))

    def run(x):
        y = net(x)
        net.kept["y"] = y
        net.kept["inner"].append(x)
        if error == "inside":
            raise KeyError("mine")
        return x if x.sum() > 0 else -x

    compiled = flambeau.compile(run, fullgraph=True)
    with pytest.raises(KeyError if error == "inside" else CompileError):
        compiled(X)
    assert (net.kept, kept, inner) == ({"inner": inner}, [], [1])
    assert net.kept["inner"] is inner
    assert type(kept) is list


def test_the_containers_that_change_are_named():
    stats, seen = {"n": 0, "loss": None}, [0]

    def run(x):
        stats["n"] += 1
        seen[0] = seen[0] + 1
        stats["loss"] = x * 2

    check_refused(run, "the compiled function changes .*s", X)
    assert (stats["n"], seen) == (2, [2])


# Containers that only the function changes.


def test_what_is_not_changed_is_compared_as_a_whole():
    scales = collections.deque([2.0])
    run, x = flambeau.compile(lambda x: x * scales[0]), flambeau.ones(1)
    assert run(x).item() == 2.0
    scales[0] = 3.0
    assert run(x).item() == 3.0


def test_a_list_of_the_function_itself_is_its_own_affair():
    net = nn.Sequential(nn.Identity())

    @flambeau.compile
    def run(x):
        kept = []
        handle = net[0].register_forward_hook(lambda module, args, output: kept.append(output * 2))
        net(x)
        handle.remove()
        return kept

    for i in range(3):
        found = run(flambeau.full((1,), float(i)))
        assert [each.item() for each in found] == [2.0 * i]


class Collector(nn.Module):
    def __init__(self):
        super().__init__()
        self.found = []

    def forward(self, x):
        self.found.append(x * 2)
        return x


def test_a_module_of_the_function_itself_is_its_own_affair():
    @flambeau.compile
    def run(x):
        collector = Collector()
        collector(x)
        return collector.found

    for i in range(3):
        assert [each.item() for each in run(flambeau.full((1,), float(i)))] == [2.0 * i]


def test_a_tuple_whose_class_counts_otherwise_may_be_a_member():
    class Representation(tuple):
        __slots__ = ()

        def __len__(self):
            raise NotImplementedError("ask for its dimension")

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.kind = Representation((2, 3))

        def forward(self, x):
            return x * self.kind[1]

    assert flambeau.compile(Scaled())(flambeau.ones(2)).tolist() == [3.0, 3.0]
