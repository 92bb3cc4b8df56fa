"""Modes see every function that is called inside them, and cost nothing elsewhere."""

import inspect
import threading

import pytest

import flambeau
import flambeau.nn.functional as F
from flambeau import overrides
from flambeau.core.operators import dispatch, op
from flambeau.overrides import TorchFunctionMode


class Seen(TorchFunctionMode):
    """Notes the names of functions."""

    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_operators_functions_methods_subscripts_and_factories_are_seen():
    x = flambeau.ones(2, 3)
    with Seen() as seen:
        y = flambeau.zeros(2, 3) + x
        y[0], y[0, 1]
        y.view(-1).mul_(2)
        y[0] = 3.0
        F.softmax(F.relu(y), -1)
        flambeau.cat([y, y])
        flambeau.tensor([1.0])
    assert seen.names == [
        "zeros", "add", "__getitem__", "__getitem__", "view", "mul_", "__setitem__", "relu",
        "softmax", "cat", "tensor",
    ]  # fmt: skip


def test_functions_are_the_same_objects_inside_and_outside():
    relu, zeros, add = F.relu, flambeau.zeros, flambeau.add
    given = []

    class Given(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            given.append((func, types, args, kwargs or {}))
            return func(*args, **(kwargs or {}))

    with Given():
        x = zeros(2)
        add(relu(x), x, alpha=2)
        assert inspect.signature(F.relu) == inspect.signature(relu)
    assert [func for func, *_ in given] == [zeros, relu, add]
    assert given[-1][3] == {"alpha": 2}
    assert "input" in inspect.signature(F.relu).parameters


def test_nothing_is_asked_outside():
    run, code = op.run, F.softmax.__code__
    assert run is dispatch.run
    with Seen(), Seen():
        assert op.run is not run
    assert op.run is run
    assert F.softmax.__code__ is code
    with pytest.raises(ZeroDivisionError), Seen():
        raise ZeroDivisionError
    assert op.run is run


def test_a_mode_decides_what_a_function_gives():
    class Halves(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result / 2 if func is flambeau.add else result

    with Halves():
        assert (flambeau.ones(1) + 1).item() == 1


def test_the_innermost_mode_is_asked_first_and_those_around_it_by_what_it_calls():
    order = []

    class Named(TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append(self.name)
            return func(*args, **(kwargs or {}))

    x = flambeau.ones(1)
    with Named("outer"), Named("inner"):
        x.exp()
    assert order == ["inner", "outer"]


def test_what_a_function_is_made_of_is_not_seen():
    with Seen() as seen:
        F.cross_entropy(flambeau.ones(2, 3), flambeau.tensor([0, 1]))
    assert seen.names == ["ones", "tensor", "cross_entropy"]


def test_subclasses_are_asked_after_modes():
    class Sub(flambeau.Tensor):
        pass

    kinds = []

    class Kinds(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kinds.append(types)
            return func(*args, **(kwargs or {}))

    x = flambeau.ones(1).as_subclass(Sub)
    with Kinds():
        assert type(x + 1) is Sub
    assert kinds == [(Sub,)]


def test_a_mode_belongs_to_its_thread():
    seen, inside = Seen(), []
    x = flambeau.ones(1)

    def other():
        inside.append((F.softmax(x, 0) + x[0]).item())

    with seen:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert inside == [2.0]
    assert seen.names == []


def test_compiled_functions_run_eagerly_inside_and_modes_open_inside_of_them():
    @flambeau.compile
    def double(x):
        with Seen() as seen:
            result = x * 2
        assert seen.names == ["mul"]
        return result

    x = flambeau.ones(1)
    double(x)
    with Seen() as seen:
        assert double(x).item() == 2
    assert seen.names == ["mul"]
    assert double(x).item() == 2
    assert double.program_count == 1


def test_a_training_step_is_the_same_inside_a_mode():
    results = []
    for mode in (None, overrides.BaseTorchFunctionMode()):
        flambeau.manual_seed(0)
        model = flambeau.nn.Sequential(flambeau.nn.Linear(3, 3), flambeau.nn.ReLU())
        optimizer = flambeau.optim.Adam(model.parameters())

        def step(model=model, optimizer=optimizer):
            F.mse_loss(model(flambeau.ones(2, 3)), flambeau.zeros(2, 3)).backward()
            optimizer.step()
            return model[0].weight.detach()

        if mode is None:
            results.append(step())
        else:
            with mode:
                results.append(step())
    assert results[0].equal(results[1])


def test_who_refuses_is_named():
    class Refusing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match=r"no implementation of ones.*mode Refusing"), Refusing():
        flambeau.ones(1)
    undefined = pytest.raises(NotImplementedError, match="TorchFunctionMode does not define")
    with undefined, TorchFunctionMode():
        flambeau.ones(1)
