"""One quick look says whether many places hold the same objects."""

from types import SimpleNamespace

import pytest

from flambeau.compile.places import MISSING, Outside, Sizes, check_of


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
