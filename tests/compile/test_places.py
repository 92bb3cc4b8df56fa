"""One quick look says whether many places hold the same objects."""

import copy
from types import SimpleNamespace

import pytest

import flambeau
from flambeau import nn
from flambeau.compile.guarding import guard
from flambeau.compile.guarding.places import MISSING, Outside, Sizes, check_of


def cell_of(value):
    return (lambda: value).__closure__[0]


def test_no_place_is_always_the_same():
    assert check_of([])()


@pytest.mark.parametrize(
    ("place", "change"),
    [
        (lambda box: Outside(vars(box), "a"), lambda box: setattr(box, "a", 2.0)),
        (lambda box: Outside(vars(box), "a"), lambda box: delattr(box, "a")),
        (lambda box: Outside(box, None, ("a",)), lambda box: setattr(box, "a", 2.0)),
        (lambda box: Outside(box, None, ("a",)), lambda box: delattr(box, "a")),
        (lambda box: Outside(box, None, ("b", "c")), lambda box: setattr(box.b, "c", 2.0)),
        (lambda box: Outside(box, None, ("not a name",)), lambda box: vars(box).clear()),
        (lambda box: Outside(box, None, ("class",)), lambda box: vars(box).clear()),
        (lambda box: Outside(box.cell, "a"), lambda box: setattr(box.cell, "cell_contents", 2.0)),
        (lambda box: Outside(box.cell, "a"), lambda box: delattr(box.cell, "cell_contents")),
        (lambda box: Outside(vars(box), "new"), lambda box: setattr(box, "new", 1)),
        (lambda box: Outside(box, None, ("new",)), lambda box: setattr(box, "new", 1)),
        (lambda box: Outside(box, None, ("b", "new")), lambda box: setattr(box.b, "new", 1)),
        (
            lambda box: Outside(box, None, ("b", "no name")),
            lambda box: vars(box.b).update({"no name": 1}),
        ),
        (lambda box: Sizes([vars(box), vars(box.b)]), lambda box: setattr(box.b, "new", 1)),
    ],
)
def test_a_change_of_one_place_among_others_is_seen(place, change):
    box = SimpleNamespace(a=1.0, b=SimpleNamespace(c=3.0), cell=cell_of(4.0))
    vars(box).update({"not a name": 5.0, "class": 6.0})
    other = SimpleNamespace(steady=1.0)
    places = [Outside(other, None, ("steady",)), place(box), Outside(vars(other), "steady")]
    check = check_of([(each, each.get()) for each in places])
    assert check()
    change(box)
    assert not check()


def test_equal_objects_are_not_the_same():
    box = {"a": [1]}
    check = check_of([(Outside(box, "a"), box["a"])])
    box["a"] = [1]
    assert not check()


def test_what_is_not_there_is_missing():
    class Strange:
        def __getattr__(self, name):
            raise KeyError(name)

    assert Outside({}, "a").get() is MISSING
    assert Outside(Strange(), None, ("a",)).get() is MISSING


def test_a_place_is_called_by_its_way():
    assert str(Outside({}, "config", ("model", "width"))) == "config.model.width"
    assert str(Outside(cell_of, None, ("__code__",))) == "cell_of.__code__"
    assert str(Outside(SimpleNamespace, None, ("width",))) == "SimpleNamespace.width"
    assert str(Outside(SimpleNamespace(), None, ("width",))) == "SimpleNamespace.width"


def count_looks(monkeypatch):
    """How many contents are frozen from now on."""
    looks = []
    real = guard.freeze
    monkeypatch.setattr(guard, "freeze", lambda value: looks.append(value) or real(value))
    return looks


CONTAINERS = {
    "list": ([1.0, 2.0], lambda each: each.append(3.0)),
    "dictionary of lists": ({"a": [1.0, 2.0]}, lambda each: each["a"].append(3.0)),
    "another key": ({"a": [1.0], "b": 2.0}, lambda each: each.update(c=each.pop("b"))),
    "list in a tuple in a list": ([(1.0, [2.0])], lambda each: each[0][1].append(3.0)),
    "set in a list": ([{1.0}, 2.0], lambda each: each[0].add(3.0)),
    "the same list twice": ([[1.0]] * 2, lambda each: each[1].append(3.0)),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_in_containers_are_compared_by_their_members(name, monkeypatch):
    value, change = copy.deepcopy(CONTAINERS[name][0]), CONTAINERS[name][1]
    rest = {"value": value}

    @flambeau.compile
    def total(x):
        return x * len(str(rest["value"]))

    x = flambeau.ones(2)
    assert total(x).tolist() == total(x).tolist() == [len(str(value))] * 2
    looks = count_looks(monkeypatch)
    assert total(x).tolist() == [len(str(value))] * 2
    assert not looks
    change(value)
    assert total(x).tolist() == [len(str(value))] * 2
    assert total.program_count == 2


def test_a_step_compares_no_containers_of_the_optimizer_itself():
    model = nn.Linear(2, 2)
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)

    @flambeau.compile
    def step(x):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step(flambeau.ones(1, 2))
    (program,) = next(iter(step.kinds.values())).programs
    watched = {
        type(place.root).__name__ for place in program.guard.outside.watched if place.key is None
    }
    assert not watched & {"ParameterGroup", "OptimizerState", "AnnouncedList", "Structure"}


def test_a_place_in_an_object_that_has_any_attribute_is_called_by_its_class():
    class Anything:
        def __getattr__(self, name):
            return 3.0

    assert str(Outside(Anything(), None, ("rate",))) == "Anything.rate"
