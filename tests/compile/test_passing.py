"""Gradients that enter a compiled function from outside: the program depends on what hooks read."""

import pytest

import flambeau
from flambeau import nn
from flambeau.autograd import Function
from flambeau.compile import CompileError
from flambeau.compile.errors import CompileWarning


class Scene:
    """A weight, a function of it, and the values that its backward reads."""

    def __init__(self):
        self.weight = flambeau.ones(2, requires_grad=True)
        self.factor, self.options = 1.0, {"mask": flambeau.ones(2), "scales": [1.0]}
        self.calls = 0

    def hooked(self, x):
        product = x * self.weight
        product.register_hook(
            lambda grad: grad * self.factor * self.options["mask"] * self.options["scales"][0]
        )
        return product.sum()

    def reversed(self, x):
        return reversing(self).apply(x * self.weight).sum()

    def of_a_module(self, x):
        layer = nn.Identity()
        layer.register_full_backward_hook(
            lambda module, inputs, outputs: (
                inputs[0] * self.factor * self.options["mask"] * self.options["scales"][0],
            )
        )
        return layer(x * self.weight).sum()

    def keeping(self, x):
        product = x * self.weight
        product.register_hook(lambda grad: setattr(self, "kept", grad))
        return product.sum()

    def counting(self, x):
        def hook(grad):
            self.calls += 1
            return grad * self.calls

        product = x * self.weight
        product.register_hook(hook)
        return product.sum()


def reversing(scene):
    class Reversing(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * scene.factor * scene.options["mask"] * scene.options["scales"][0]

    return Reversing


def gradient(scene, function):
    scene.weight.grad = None
    function(flambeau.ones(2)).backward()
    return scene.weight.grad.tolist()


@pytest.mark.parametrize("name", ["hooked", "reversed", "of_a_module"])
def test_values_that_backward_reads_are_compared(name):
    scene = Scene()
    run = flambeau.compile(getattr(scene, name))
    assert gradient(scene, run) == [1, 1]
    scene.factor = 2.0
    assert gradient(scene, run) == [2, 2]
    scene.options["mask"] = flambeau.tensor([0.0, 1.0])
    assert gradient(scene, run) == [0, 2]
    scene.options["scales"][0] = 5.0
    assert gradient(scene, run) == [0, 10]
    count = run.program_count
    scene.options["mask"].fill_(3.0)
    assert gradient(scene, run) == [30, 30]
    assert run.program_count == count


def test_a_replaced_backward_is_another_program():
    class Doubling(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    scene = Scene()
    run = flambeau.compile(lambda x: Doubling.apply(x * scene.weight).sum())
    assert gradient(scene, run) == [2, 2]
    Doubling.backward = staticmethod(lambda ctx, grad: grad * 7)
    assert gradient(scene, run) == [7, 7]


@pytest.mark.parametrize("name", ["keeping", "counting"])
def test_a_hook_that_sets_an_attribute_needs_backward_inside(name):
    scene = Scene()
    run = flambeau.compile(getattr(scene, name), fullgraph=True)
    with pytest.raises(CompileError, match=r"changes Scene\.\w+ while its gradient"):
        gradient(scene, run)
    assert scene.calls == 0
    assert not hasattr(scene, "kept")
    run = flambeau.compile(getattr(scene, name), fullgraph=False)
    with pytest.warns(CompileWarning, match="backward hook"):
        gradient(scene, run)
    assert gradient(scene, run) == ([1, 1] if name == "keeping" else [2, 2])
