"""Containers among the arguments and results of compiled functions keep their order and class."""

from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from types import MappingProxyType

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau

X, Y = flambeau.tensor([1.0, 2.0]), flambeau.tensor([3.0, 4.0])


class Outputs(dict):
    """Keys as attributes, and an attribute besides."""

    note = ""

    def __getattr__(self, name):
        return self[name]

    def __setitem__(self, key, value):
        raise AssertionError("containers are put together without their class's code")


class Namespace(dict):
    """Its keys are its attributes."""

    def __init__(self, **content):
        super().__init__(**content)
        self.__dict__ = self


class Ordered(OrderedDict):
    pass


class Members(list):
    pass


class Pair(tuple):
    __slots__ = ()


Fields = namedtuple("Fields", "b a")


@jax.tree_util.register_pytree_node_class
class Registered:
    """A class that JAX knows, with a dictionary in it."""

    def __init__(self, content):
        self.content = content

    def tree_flatten(self):
        return (self.content,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


def _outputs(**content):
    made = Outputs(**content)
    made.note = "kept"
    return made


def _default(**content):
    made = defaultdict(list)
    made.update(content)
    return made


KINDS = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "defaultdict": _default,
    "subclass of dict": Outputs,
    "subclass with attributes": _outputs,
    "its own attributes": Namespace,
    "subclass of OrderedDict": Ordered,
    "MappingProxyType": lambda **content: MappingProxyType(content),
    "Registered": lambda **content: Registered(content),
    "list": lambda **content: [*content.values()],
    "subclass of list": lambda **content: Members(content.values()),
    "deque": lambda **content: deque(content.values(), 7),
    "tuple": lambda **content: (*content.values(),),
    "subclass of tuple": lambda **content: Pair(content.values()),
    "named tuple": lambda **content: Fields(*content.values()),
    "dict in dict": lambda **content: {"z": content, "c": {"y": 3}},
    "dict in list": lambda **content: [content],
}


def walk(value, tensor):
    """What there is to see of ``value``, in order: classes, keys, options, and its tensors."""
    if isinstance(value, flambeau.Tensor):
        return tensor(value)
    kind = type(value).__name__
    if isinstance(value, Registered):
        return [kind, walk(value.content, tensor)]
    if isinstance(value, dict | MappingProxyType):
        content = [(key, walk(each, tensor)) for key, each in value.items()]
        return [kind, value.default_factory if kind == "defaultdict" else None, content]
    if isinstance(value, list | tuple | deque):
        names = getattr(value, "_fields", getattr(value, "maxlen", None))
        return [kind, names, [walk(each, tensor) for each in value]]
    return value


def doubled(value):
    return walk(value, lambda each: each * 2)


def seen(value):
    return walk(value, lambda each: each.tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_an_argument_is_as_the_caller_gave_it(kind):
    run = flambeau.compile(doubled)
    for b, a in ((X, Y), (Y, X)):
        given = KINDS[kind](b=b, a=a)
        assert seen(run(given)) == seen(doubled(given))
    assert run.program_count == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_is_as_the_function_gave_it(kind):
    def function(b, a):
        return KINDS[kind](b=b * 2, a=a * 3)

    run = flambeau.compile(function)
    for b, a in ((X, Y), (Y, X)):
        assert seen(run(b, a)) == seen(function(b, a))


@pytest.mark.parametrize("kind", ["subclass with attributes", "its own attributes"])
def test_attributes_of_containers_come_along(kind):
    def function(given):
        return given.b * 2, getattr(given, "note", None) == "kept"

    run = flambeau.compile(function)
    given = KINDS[kind](b=X, a=Y)
    result, kept = run(given)
    assert (result.tolist(), kept) == ([2.0, 4.0], function(given)[1])
    made = flambeau.compile(lambda b: KINDS[kind](b=b * 2, a=b))(X)
    assert made.b.tolist() == [2.0, 4.0]
    assert vars(made) == (made if kind == "its own attributes" else {"note": "kept"})


def test_keyword_arguments_come_in_the_order_of_the_call():
    run = flambeau.compile(lambda first, **named: flambeau.cat([first, *named.values()]))
    assert run(X, b=X, a=Y).tolist() == [1, 2, 1, 2, 3, 4]
    assert run(X, a=Y, b=X).tolist() == [1, 2, 3, 4, 1, 2]
    assert run(a=Y, first=X, b=X).tolist() == [1, 2, 3, 4, 1, 2]


def test_another_order_of_keys_is_another_program():
    run = flambeau.compile(lambda given: flambeau.cat([*given.values()]))
    assert run({"b": X, "a": Y}).tolist() == [1, 2, 3, 4]
    assert run({"a": Y, "b": X}).tolist() == [3, 4, 1, 2]
    assert run({"b": Y, "a": X}).tolist() == [3, 4, 1, 2]
    assert run.program_count == 2


def test_keys_that_cannot_be_sorted_and_keys_that_are_equal():
    run = flambeau.compile(lambda given: [type(key).__name__ for key in given])
    assert run({2: X, "a": Y}) == ["int", "str"]
    assert run({1: X}) == ["int"]
    assert run({True: X}) == ["bool"]
    assert run({1.0: X}) == ["float"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: X.shape, lambda: slice(0, 1), lambda: range(2), lambda: flambeau.device("cpu"),
        lambda: {1, 2}, lambda: np.int64(1), lambda: Counter("ab"), lambda: (slice(1), {"n": 1}),
    ],
)  # fmt: skip
def test_values_that_are_made_at_each_call_are_compared_by_what_they_are(make):
    run = flambeau.compile(lambda x, value: (x * 2, repr(value)))
    for _ in range(3):
        assert run(X, make())[1] == repr(make())
    assert run.program_count == 1


def test_a_set_that_changes_is_seen():
    run = flambeau.compile(lambda x, values: x * len(values))
    values = {1, 2}
    assert run(X, values).tolist() == [2.0, 4.0]
    values.add(3)
    assert run(X, values).tolist() == [3.0, 6.0]


def test_a_container_that_knows_what_it_is_in_is_an_argument_too():
    given = Outputs(a=X)
    given.owner = Members([given])
    run = flambeau.compile(lambda given: given["a"] * 2)
    assert run(given).tolist() == [2.0, 4.0]


tensors = st.sampled_from([X, Y])
keys = st.text("abc", max_size=2) | st.integers(0, 2)
containers = st.recursive(
    tensors | st.sampled_from([None, 1, "text"]),
    lambda inner: (
        st.dictionaries(keys, inner, max_size=3).flatmap(
            lambda made: st.sampled_from([made, OrderedDict(made), Outputs(made)])
        )
        | st.lists(inner, max_size=3).flatmap(
            lambda made: st.sampled_from([made, tuple(made), Members(made), deque(made)])
        )
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=30)
@given(containers)
def test_any_nesting_of_containers_goes_in_and_out_unchanged(value):
    run = flambeau.compile(lambda given: [given, doubled(given)])
    result, expected = run(value), [value, doubled(value)]
    assert seen(result) == seen(expected)
