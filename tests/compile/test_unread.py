"""Attributes of modules that no code in a compiled function reads cause no recompilation."""

import threading

import pytest

import flambeau
from flambeau import nn

X = flambeau.ones(2, 4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out, self.scale, self.history, self.meta = nn.Linear(4, 3), 1.0, [], {}

    def forward(self, x):
        return self.out(x) * self.scale


UNREAD = {
    "a number": lambda net, i: setattr(net, "epoch", i),
    "of a layer": lambda net, i: setattr(net.out, "calls", i),
    "a list": lambda net, i: net.history.append(i),
    "a dictionary": lambda net, i: net.meta.update({i: i}),
    "a tensor": lambda net, i: setattr(net, "last", X * i),
    "an object": lambda net, i: setattr(net, "trainer", object()),
    "past setattr": lambda net, i: vars(net).update({f"name{i}": i}),
    "deleted": lambda net, i: (setattr(net, "x", 1), delattr(net, "x")),
}


@pytest.mark.parametrize("name", UNREAD)
def test_an_attribute_that_is_not_read_may_change(name):
    net = Net()
    run = flambeau.compile(net)
    for i in range(4):
        UNREAD[name](net, i)
        run(X)
    assert run.program_count == 1


def scaled(read):
    """A class of modules that read ``gain`` in this way."""

    class Scaled(Net):
        def forward(self, x):
            return self.out(x) * read(self)

    return Scaled


def by_thread(module):
    found = []
    thread = threading.Thread(target=lambda: found.append(module.gain))
    thread.start()
    thread.join()
    return found[0]


READ = {
    "attribute": lambda module: module.gain,
    "getattr": lambda module: getattr(module, "ga" + "in"),
    "vars": lambda module: vars(module)["gain"],
    "__dict__": lambda module: module.__dict__["gain"],
    "object": lambda module: object.__getattribute__(module, "gain"),
    "dir": lambda module: module.gain if "gain" in dir(module) else 0,
    "default": lambda module: getattr(module, "gain", 1.0),
    "thread": by_thread,
}


@pytest.mark.parametrize("name", READ)
def test_an_attribute_that_is_read_in_any_way_is_compared(name):
    net = scaled(READ[name])()
    net.gain = 2.0
    run = flambeau.compile(net)
    for gain in (2.0, 3.0):
        net.gain = gain
        assert flambeau.equal(run(X), net(X))
    if name != "thread":
        vars(net)["gain"] = 5.0
        assert flambeau.equal(run(X), net(X))


@pytest.mark.parametrize(
    "add", [setattr, object.__setattr__, lambda net, *to: vars(net).update([to])]
)
def test_an_attribute_that_was_absent_is_compared(add):
    net = scaled(lambda module: getattr(module, "gain", 1.0))()
    run = flambeau.compile(net)
    assert flambeau.equal(run(X), net(X))
    add(net, "gain", 4.0)
    assert flambeau.equal(run(X), net(X))
    del net.gain
    assert flambeau.equal(run(X), net(X))
    assert run.program_count == 2
