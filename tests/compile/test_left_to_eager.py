"""Containers from outside that a function changes: each call does what the eager call does.

No program follows such changes. With ``fullgraph=True`` the function is refused, and the refused
call changes nothing.
"""

import array
import collections
import copy
import functools
import operator
import types

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileError
from tests.compile.following import (
    MAY_RUN_EAGERLY,
    check_as_eagerly,
    check_refusal,
    course,
    eager,
)

pytestmark = MAY_RUN_EAGERLY

Pair = collections.namedtuple("Pair", ["left", "right"])
X = flambeau.ones(2, 2)


class Row(list):
    """A list with attributes of its own."""


class Plain:
    def __init__(self, value):
        self.value = value


def layers():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))


class Net(nn.Module):
    """Layers with containers of every kind."""

    def __init__(self):
        super().__init__()
        self.layers = layers()
        self.list, self.dict, self.deque = [], {}, collections.deque(maxlen=2)
        self.lists = collections.defaultdict(list)
        self.dicts = collections.defaultdict(lambda: collections.defaultdict(list))
        self.ordered = collections.OrderedDict()
        self.nested = {"a": [], "b": ([], [])}
        self.row, self.set, self.counter = Row(), set(), collections.Counter()
        self.numbers, self.bytes, self.array = np.zeros(1), bytearray(), array.array("d")
        self.named, self.space = collections.UserDict(), types.SimpleNamespace(seen=[])

    def containers(self):
        named = {name: each for name, each in vars(self).items() if not name.startswith("_")}
        del named["training"]
        return named


def cleared_and_filled(net, y):
    net.list.clear()
    net.list.append(y)
    net.list.append(net.list[0] + len(net.list))
    net.list[-1] = net.list[-1] * 2


def deleted_and_filled(net, y):
    del net.list[:]
    net.list[:] = [y, y + 1]


def filled_again(net, y):
    net.dict.clear()
    net.dict["k"] = y
    net.dict.update(v=net.dict["k"] * 2)


def set_and_removed(net, y):
    net.dict["k"] = net.dict["v"] = y
    del net.dict["k"]
    net.dict["last"] = net.dict.pop("v")


def nested(net, y):
    net.dict["step"] = {"y": [y, (y.sum(), "label", None)]}
    net.dict["step"]["more"] = collections.OrderedDict(z=y * 2)


def the_same_new_container_twice(net, y):
    new = [y]
    net.list.append(new)
    net.dict["y"] = new
    new.append(y * 2)


def a_container_that_contains_itself(net, y):
    new = {"y": y}
    new["self"] = new
    net.list.append(new)


def created_on_demand(net, y):
    net.dict.setdefault("a", []).append(y)
    net.dict.setdefault("b", {})["c"] = y
    net.dict.setdefault("b", {})["d"] = y * 2


def flushed(net, y):
    net.list.append(y)
    net.dict["total"] = total(net.list).detach()
    net.list = []


def flushed_by_clear(net, y):
    net.list.append(y)
    net.dict["total"] = total(net.list).detach()
    net.list.clear()


def flushed_by_pop(net, y):
    net.list.append(y)
    while net.list:
        net.dict["last"] = net.list.pop()


def lists_flushed(net, y):
    net.lists["loss"].append(y)
    net.dict["mean"] = total(net.lists["loss"]).detach() / len(net.lists["loss"])
    net.lists = collections.defaultdict(list)


def a_cache_that_grows(net, y):
    before = net.dict.get("k")
    net.dict["k"] = y.detach() if before is None else flambeau.cat([before, y.detach()])


def moved_on(net, y):
    net.dict["old"], net.dict["now"] = [net.dict.get("now")], y


def counted(net, y):
    net.counter["calls"] += 1
    net.numbers[0] += net.counter["calls"]
    net.set.add(len(net.set))
    net.bytes.append(7)
    net.array.append(len(net.bytes))


def objects(net, y):
    net.list.append(Plain([y]))
    net.named["y"] = types.SimpleNamespace(y=y * 2)
    net.set.add(Plain("text").value)


WRITES = {
    "append": lambda net, y: net.list.append(y),
    "add in place": lambda net, y: operator.iadd(net.list, [y, y * 2]),
    "extend": lambda net, y: net.list.extend(each for each in (y, y.sum())),
    "insert": lambda net, y: net.list.insert(0, y),
    "full deque": lambda net, y: (net.deque.append(y), net.deque.appendleft(y + 1)),
    "set": lambda net, y: net.dict.__setitem__("y", y),
    "ordered": lambda net, y: net.ordered.update(more=y, less=-y),
    "defaultdict": lambda net, y: (net.lists["a"].append(y), net.lists["b"].append(y.sum())),
    "defaultdicts": lambda net, y: net.dicts["a"]["b"].append(y),
    "nested from outside": lambda net, y: (net.nested["a"].append(y), net.nested["b"][1].append(y)),
    "named tuple": lambda net, y: net.list.append(Pair(y, [y * 2])),
    "twice": lambda net, y: (net.list.append(y), net.dict.update(y=y)),
    "one in the other": lambda net, y: (net.list.append(y), net.dict.update(all=net.list)),
    "row": lambda net, y: (net.row.append(y), setattr(net.row, "last", y)),
    "UserDict": lambda net, y: net.named.update(y=y),
    "namespace": lambda net, y: net.space.seen.append(y),
    "numbers": lambda net, y: net.list.append((y, len(net.list) * 0.5)),
    **{
        function.__name__: function
        for function in (
            cleared_and_filled, deleted_and_filled, filled_again, set_and_removed, nested,
            the_same_new_container_twice, a_container_that_contains_itself, created_on_demand,
            flushed, flushed_by_clear, flushed_by_pop, lists_flushed, a_cache_that_grows, moved_on,
            counted, objects,
        )
    },
}  # fmt: skip


def total(value):
    """The sum of the elements of the tensors in a container."""
    if isinstance(value, flambeau.Tensor):
        return value.sum()
    if isinstance(value, dict):
        value = [each for key, each in value.items() if key != "self"]
    return sum(map(total, value)) if isinstance(value, list | tuple) else 0.0


def change_outside(net, call):
    """Two changes from outside between the calls."""
    if call == 1:
        for name in ("list", "dict", "deque", "lists", "ordered", "set", "space"):
            setattr(net, name, copy.copy(getattr(net, name)))
    elif call == 2:
        net.list.append(flambeau.full((2, 2), 5.0))
        net.dict["y"] = flambeau.full((2, 2), 7.0)


def writing(write, backward):
    """A scene for `course` in which ``write`` changes the containers of a module."""

    def make():
        net = Net()

        def step(x):
            y = net.layers(x)
            before = total(net.list) + total(net.dict)
            write(net, y)
            if backward == "inside":
                net.zero_grad()
                y.sum().backward()
            held = before.detach() if isinstance(before, flambeau.Tensor) else before
            return y, held + x, len(net.list), bool(net.dict)

        def state():
            return net.containers(), [each.grad for each in net.parameters()]

        return step, state, lambda call: change_outside(net, call)

    return make


@pytest.mark.parametrize("backward", ["none", "inside"])
@pytest.mark.parametrize("name", WRITES)
def test_containers_are_as_they_are_eagerly(name, backward):
    check_as_eagerly(writing(WRITES[name], backward))


@pytest.mark.parametrize("name", WRITES)
def test_a_refused_call_changes_nothing(name):
    check_refusal(writing(WRITES[name], "none"))


# Ways to a container: each gives a function that is called as the forward hook of a layer, and
# the containers.


def closure():
    kept = []
    return lambda module, args, output: kept.append(output), kept


def partial():
    first, second = {}, []

    def keep(store, name, module, args, output, *, others):
        store[name] = output
        others.append(output.sum())

    return functools.partial(functools.partial(keep, first), "out", others=second), [first, second]


def default_argument():
    kept = {}

    def keep(module, args, output, kept=kept, *, others=kept):
        kept["x"], others["y"] = output, output * 2

    return keep, kept


class Recorder:
    def __init__(self):
        self.features, self.order = {}, []

    def hook(self, module, args, output):
        self.features[type(module).__name__] = output
        self.order.append(("out", output))

    def __call__(self, module, args, output):
        self.hook(module, args, output)
        self.of_class.append(output)


def bound_method():
    recorder = Recorder()
    return recorder.hook, vars(recorder)


def callable_object():
    cls = type("Own", (Recorder,), {"of_class": []})
    recorder = cls()
    return recorder, [vars(recorder), cls.of_class]


class Slotted:
    __slots__ = ("features",)

    def hook(self, module, args, output):
        self.features.append(output)


def slot():
    recorder = Slotted()
    recorder.features = []
    return recorder.hook, recorder


def attribute_of_the_module():
    def hook(module, args, output):
        vars(module).setdefault("kept", []).append(output)

    return hook, None


def hook_on_a_tensor():
    kept = []

    def keep(module, args, output):
        if output.requires_grad:
            output.register_hook(lambda grad: kept.append(grad))

    return keep, kept


def hook_on_a_parameter():
    kept = []

    def keep(module, args, output):
        if not module.weight._hooks:
            module.weight.register_hook(lambda grad: kept.append(grad.norm()))

    return keep, kept


WAYS = [
    closure, partial, default_argument, bound_method, callable_object, slot,
    attribute_of_the_module, hook_on_a_tensor, hook_on_a_parameter,
]  # fmt: skip


def hooked(way, register, backward):
    def make():
        net, (hook, kept) = layers(), way()
        register(net, hook)

        def step(x):
            y = net(x)
            if backward:
                net.zero_grad()
                y.sum().backward()
            return y

        grads = [each.grad for each in net.parameters()]
        return step, lambda: (kept, vars(net[0]).get("kept"), grads)

    return make


def on_a_layer(net, hook):
    net[0].register_forward_hook(hook)


@pytest.mark.parametrize("backward", [False, True], ids=["", "backward"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_hooks_fill_containers_as_eagerly(way, backward):
    check_as_eagerly(hooked(way, on_a_layer, backward))
    if backward or way not in (hook_on_a_tensor, hook_on_a_parameter):
        check_refusal(hooked(way, on_a_layer, backward))


@pytest.mark.parametrize("of", ["all modules", "gradients"])
def test_hooks_of_modules_fill_containers_as_eagerly(of):
    handles = []

    def way():
        kept = []
        return lambda module, args, output: kept.append(output), kept

    def register(net, hook):
        if of == "gradients":
            net[2].register_full_backward_hook(hook)
        else:
            handles.append(nn.modules.module.register_module_forward_hook(hook))

    try:
        make = hooked(way, register, True)
        expected = course(make, eager)
        while handles:
            handles.pop().remove()
        assert course(make, flambeau.compile) == expected
    finally:
        for handle in handles:
            handle.remove()


def test_hooks_of_gradients_that_fill_a_container_need_backward_inside():
    hook, kept = hook_on_a_tensor()
    net = layers()
    net[1].register_forward_hook(hook)
    y = flambeau.compile(lambda x: net(x), fullgraph=True)(X)
    with pytest.raises(CompileError, match=r"changes .*kept.* while .*compile the whole step"):
        y.sum().backward()
    assert not kept
