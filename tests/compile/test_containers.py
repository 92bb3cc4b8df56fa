"""What a trace asks of containers from outside counts at each call, and what it changes as well."""

import collections
import copy
import operator
import types
import warnings

import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileError, CompileWarning
from tests.compile.following import check_refused

pytestmark = pytest.mark.filterwarnings("error")


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
            # Numbers that are kept, and many programs.
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


def test_a_container_that_is_bound_anew_needs_no_other_program():
    net = nn.Identity()
    net.kept = first = []
    run = flambeau.compile(lambda x: net.kept.append(net(x) * 2))
    x = flambeau.ones(1)
    run(x)
    net.kept = second = []
    run(x)
    net.kept = [None]
    run(x)
    assert (len(first), len(second), len(net.kept), run.program_count) == (1, 1, 2, 1)
    net.kept = collections.deque()
    run(x)
    assert (len(net.kept), run.program_count) == (1, 2)


ONE, OTHER = [], []


def test_two_names_of_one_container_may_part(monkeypatch):
    monkeypatch.setitem(globals(), "ONE", OTHER)

    def run(x):
        ONE.append(x)
        OTHER.append(x * 2)
        return x * len(OTHER)

    compiled, x = flambeau.compile(run), flambeau.ones(1)
    assert compiled(x).item() == 2.0
    assert ONE is OTHER
    monkeypatch.setitem(globals(), "ONE", [])
    assert compiled(x).item() == 3.0
    assert (len(ONE), len(OTHER)) == (1, 3)
    monkeypatch.setitem(globals(), "ONE", OTHER)
    OTHER.clear()
    assert compiled(x).item() == 2.0
    OTHER.clear()


def test_two_containers_may_become_one():
    first, second = {}, {}
    net = nn.Identity()
    net.first, net.second = first, second

    @flambeau.compile
    def run(x):
        net.first["x"] = x
        found = net.second.get("x", 0.0)
        net(x)
        return x + found

    x = flambeau.ones(1)
    assert [run(x).item(), run(x).item()] == [1.0, 1.0]
    net.second = first
    assert run(x).item() == 2.0


def test_one_tensor_in_two_places_may_become_two():
    cache = {"a": flambeau.ones(1)}
    cache["b"] = cache["a"]

    @flambeau.compile
    def run(x):
        cache["out"] = x * cache["a"] + cache["b"]

    x = flambeau.full((1,), 2.0)
    run(x)
    cache["b"] = flambeau.zeros(1)
    run(x)
    assert cache["out"].item() == 2.0


def test_a_parameter_in_a_container_is_still_the_parameter():
    layer = nn.Linear(1, 1, bias=False)
    layer.cache = {"w": layer.weight}

    @flambeau.compile
    def run(x):
        y = layer(x) + layer.cache["w"]
        layer.cache["y"] = y
        return y

    with flambeau.no_grad():
        layer.weight.fill_(2.0)
        x = flambeau.ones(1, 1)
        assert run(x).item() == 4.0
        layer.cache["w"] = flambeau.full((1, 1), 5.0)
        assert run(x).item() == 7.0
        layer.weight.fill_(3.0)
        assert run(x).item() == 8.0


def test_a_view_in_a_container_is_seen_and_so_is_another_one():
    base, cache = flambeau.tensor([1.0, 2.0]), {}
    cache["k"] = base[0]

    @flambeau.compile
    def run(x):
        y = x * cache["k"]
        cache["last"] = y
        return y

    x = flambeau.ones(())
    assert run(x).item() == 1.0
    base[0] = 5.0
    assert run(x).item() == 5.0
    cache["k"] = base[1]
    assert run(x).item() == 2.0
    cache["k"] = flambeau.full((), 7.0)
    assert run(x).item() == 7.0
    cache["k"] = flambeau.full((), 8.0)
    assert run(x).item() == 8.0


def test_the_tensor_that_stands_there_is_returned_and_moved():
    cache = {"now": flambeau.ones(1), "old": [flambeau.zeros(1)]}

    @flambeau.compile
    def run(x):
        old = cache["now"]
        cache["old"][0] = old
        cache["now"] = x * 2
        return old

    x = flambeau.ones(1)
    for _ in range(3):
        before = cache["now"]
        assert run(x) is before
        assert cache["old"][0] is before
    assert run.program_count == 1


def test_a_changed_attribute_gives_back_what_stood_there():
    class Delayed(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = flambeau.zeros(1)

        def forward(self, x):
            last, self.last = self.last, x * 1
            return last

    model = Delayed()
    run = flambeau.compile(model)
    assert [run(flambeau.full((1,), float(i))).item() for i in range(4)] == [0.0, 0.0, 1.0, 2.0]


def test_a_cache_that_grows_is_a_program_for_each_length():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = {}

        def forward(self, k):
            if "k" in self.cache:
                k = flambeau.cat([self.cache["k"], k])
            self.cache["k"] = k
            return k.sum()

    model = Attention()
    run = flambeau.compile(model)
    for _ in range(2):
        model.cache.clear()
        for i in range(3):
            assert run(flambeau.full((1,), float(i))).item() == sum(range(i + 1))


def test_numbers_that_a_container_counts_are_refused_by_name():
    stats, seen = {"n": 0, "loss": None}, [0]

    def run(x):
        stats["n"] += 1
        seen[0] = seen[0] + 1
        stats["loss"] = x * 2

    check_refused(run, r"changes seen, stats\['n'\]", flambeau.ones(1))
    assert (stats["n"], seen) == (2, [2])


def test_what_is_not_changed_is_compared_as_a_whole():
    scales = collections.deque([2.0])
    run, x = flambeau.compile(lambda x: x * scales[0]), flambeau.ones(1)
    assert run(x).item() == 2.0
    scales[0] = 3.0
    assert run(x).item() == 3.0


def test_a_container_that_is_changed_behind_its_name_is_refused(monkeypatch):
    kept = ["before"]
    # Containers in modules of libraries are not followed.
    monkeypatch.setattr(operator, "kept", kept, raising=False)

    def run(x):
        operator.kept.append(x * 2)
        return x * len(kept)

    with pytest.raises(CompileError, match="into kept by another way"):
        flambeau.compile(run, fullgraph=True)(flambeau.ones(1))
    assert kept == ["before"]


def test_attributes_of_modules_that_are_not_called_are_seen():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rate, self.sizes, self.losses = 2.0, [1], []
            self.scale = nn.Parameter(flambeau.ones(1))
            self.double = nn.Identity()

        def training_step(self, x):
            loss = x * self.rate * len(self.sizes) * self.scale
            self.losses.append(loss)
            return loss

    model, x = Model(), flambeau.ones(1)
    run = flambeau.compile(model.training_step)
    assert run(x).item() == 2.0
    model.rate = 3.0
    assert run(x).item() == 3.0
    model.sizes.append(1)
    assert run(x).item() == 6.0
    model.scale = nn.Parameter(flambeau.full((1,), 2.0))
    assert run(x).item() == 12.0
    assert [each.item() for each in model.losses] == [2.0, 3.0, 6.0, 12.0]


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


@pytest.mark.parametrize("begin", [list, lambda: [flambeau.ones(1)]])
def test_an_attribute_that_is_emptied_before_hooks_fill_it(begin):
    net = nn.Sequential(nn.Identity())
    recorder = types.SimpleNamespace(features=begin())

    def run(x):
        recorder.features = []
        net(x)
        return len(recorder.features)

    net[0].register_forward_hook(lambda module, args, output: recorder.features.append(output * 2))
    compiled = flambeau.compile(run)
    for i in range(3):
        assert compiled(flambeau.full((1,), float(i))) == 1
        assert [each.item() for each in recorder.features] == [2.0 * i]


def test_modules_in_a_list_are_looked_at_as_well():
    collectors = [Collector(), {"second": Collector()}]

    @flambeau.compile
    def run(x, i):
        return collectors[1]["second"](collectors[0](x)) * i

    for i in range(3):
        run(flambeau.full((1,), float(i)), 1)
    for collector in (collectors[0], collectors[1]["second"]):
        assert [each.item() for each in collector.found] == [0.0, 2.0, 4.0]
    assert run.program_count == 1


def test_stand_ins_pass_for_what_they_stand_for():
    net = nn.Identity()
    net.kept, net.table = [], collections.OrderedDict()

    def run(x):
        assert isinstance(net.kept, list)
        net.table["x"] = x
        net.kept += [x, x * 2]
        copies = [copy.copy(net.kept), net.kept * 2, net.kept[:], net.kept.copy()]
        assert all(type(each) is list for each in copies)
        assert type(net.table.copy()) is type(copy.copy(net.table)) is collections.OrderedDict
        assert [*net.table] == ["x"]
        assert {**net.table}["x"] is x
        return sum(net.kept[:2])

    assert flambeau.compile(run)(flambeau.ones(1)).item() == 3.0


def test_two_functions_share_a_container():
    kept = []
    write = flambeau.compile(lambda x: kept.append(x * 2))
    read = flambeau.compile(lambda x: x + sum(kept))
    x = flambeau.ones(1)
    for i in range(3):
        write(x)
        assert read(x).item() == 1.0 + 2.0 * (i + 1)
    assert write.program_count == 1


Pair = collections.namedtuple("Pair", ["left", "right"])


def test_stand_ins_are_taken_apart_and_returned_as_what_they_stand_for():
    net = nn.Identity()
    net.kept, net.weights = [], {"w": flambeau.ones(2), "v": [flambeau.zeros(2)]}

    @flambeau.compile
    def run(x):
        net.kept.append(x)
        net.weights["new"] = x
        rows = flambeau.func.vmap(lambda weights: weights["w"] + weights["v"][0])(net.weights)
        doubled = jax.tree.map(lambda each: each * 2, net.kept)
        ordered = collections.OrderedDict(kept=net.kept)
        return rows, doubled, Pair(net.kept, (net.weights,)), ordered

    for i in range(2):
        rows, doubled, pair, ordered = run(flambeau.full((2,), 3.0))
        assert rows.tolist() == [1.0, 1.0]
        assert [each.tolist() for each in doubled] == [[6.0, 6.0]] * (i + 1)
        assert pair.left is net.kept is ordered["kept"]
        assert pair.right[0] is net.weights


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
