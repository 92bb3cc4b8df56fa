"""Where code finds its values is read off its bytecode."""

from typing import Any

import pytest

from flambeau.compile.reading import RESULT, Call, Path, reading_of

CONFIG: Any = None


class Config:
    """Stands for a class outside."""


def apply(*args, **kwargs):
    """Stands for a function outside."""


def ways(function):
    """The ways that a function goes, as text."""
    return {written(each) for each in reading_of(function.__code__).paths}


def written(path):
    return ".".join((path.kind, path.name, *path.steps))


def attributes(self):
    return self.model.width + CONFIG.depth


def other_name(self):
    config = self.config
    return config.width


def either(self, config=None):
    config = config or self.config
    return config.width


def by_choice(self, flag):
    config = self.one if flag else self.other
    return config.width


def loop(self):
    for block in self.blocks:
        block.width  # noqa: B018


def numbered_loop(self):
    for i, block in enumerate(self.blocks):
        block.width + i


def loop_over_a_part(self):
    for block in self.blocks[:-1]:
        block.width  # noqa: B018


def comprehension(self):
    return [block.width for block in self.blocks]


def generator(self):
    return sum(block.width for block in self.blocks)


def index(self):
    return self.blocks[0].width


def of_a_dictionary(self):
    return self.blocks.get("a").width


def by_text(self):
    return getattr(self.config, "width", 0)


def handed_down(self):
    def inside():
        return self.config.width

    return inside()


def parts(self):
    first, _ = self.pair
    return first.width


class Inherits:
    def inherited(self):
        return super().width


def imported():
    from package.module import thing

    return thing.width


def imported_whole():
    import package.module

    return package.module.width


def one_of_three(self, a, b):
    return (a or b or self.config).width


def put_together(self):
    return [each.width for each in [*self.first, *self.second, self.last]]


def made(self):
    return Config().width


def entered(self):
    with self.config:
        pass


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (attributes, {"local.self.model.width", "global.CONFIG.depth"}),
        (other_name, {"local.self.config.width"}),
        (either, {"local.self.config.width", "local.config.width"}),
        (by_choice, {"local.self.one.width", "local.self.other.width"}),
        (loop, {"local.self.blocks.width"}),
        (numbered_loop, {"local.self.blocks.width"}),
        (loop_over_a_part, {"local.self.blocks.width"}),
        (comprehension, {"local.self.blocks.width"}),
        (generator, {"local.self.blocks.width"}),
        (index, {"local.self.blocks.width", "local.self.blocks.__getitem__"}),
        (of_a_dictionary, {f"local.self.blocks.get.{RESULT}.width"}),
        (by_text, {"local.self.config.width"}),
        (handed_down, {"local.self.config.width"}),
        (parts, {"local.self.pair.width"}),
        (Inherits.inherited, {"super..width"}),
        (imported, {"import.package.module.thing.width"}),
        (imported_whole, {"import.package.module.width"}),
        (one_of_three, {"local.a.width", "local.b.width", "local.self.config.width"}),
        (put_together, {f"local.self.{name}.width" for name in ("first", "second", "last")}),
        (made, {f"global.Config.{RESULT}.width"}),
        (entered, {"local.self.config.__enter__"}),
    ],
)
def test_where_values_come_from(function, expected):
    assert expected <= ways(function)


def test_what_a_closure_gives():
    config = None

    def reads():
        return config.width

    assert "closure.config.width" in ways(reads)


def test_arguments_of_calls():
    def calls(self, x):
        return apply(self.config, x, width=self.width)

    (call,) = reading_of(calls.__code__).calls
    args = tuple({written(each) for each in value} for value in call.args)
    assert written(call.callee) == "global.apply"
    assert args == ({"local.self.config"}, {"local.x"}, {"local.self.width"})
    assert call.keywords == ("width",)


def test_arguments_that_are_passed_on():
    function = None

    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    assert reading_of(wrapper.__code__).calls == (
        Call(Path("closure", "function"), (), (), passes_on=True),
    )


def test_what_a_call_gives_is_not_what_it_is_given():
    def computes(x):
        y = apply(x)
        return y.width

    assert {each for each in ways(computes) if "width" in each} == {f"global.apply.{RESULT}.width"}
