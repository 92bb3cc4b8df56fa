"""Converting a tree changes what its members hold, never which objects they are."""

import pytest

import flambeau
from flambeau import nn


class Layer(nn.Module):
    """A tied parameter, a buffer and an integer buffer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.tensor([1.0, 2.0]))
        self.register_buffer("mean", flambeau.zeros(2))
        self.register_buffer("count", flambeau.tensor(3))


def tied():
    model = nn.Sequential(Layer(), Layer())
    model[1].weight = model[0].weight
    return model


CONVERSIONS = {
    "double": lambda model: model.double(),
    "half": lambda model: model.half(),
    "bfloat16": lambda model: model.bfloat16(),
    "to": lambda model: model.to("cpu", flambeau.float64),
    "type": lambda model: model.type(flambeau.float64),
    "meta": lambda model: model.to("meta"),
    "to_empty": lambda model: model.to("meta").to_empty(device="cpu"),
    "cpu": lambda model: model.cpu(),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_parameters_stay_the_same_objects_and_tied(name):
    model = tied()
    weight = model[0].weight
    assert CONVERSIONS[name](model) is model
    assert model[0].weight is weight
    assert model[1].weight is weight
    assert weight.requires_grad
    assert weight.is_leaf


@pytest.mark.parametrize("name", ["double", "half", "bfloat16", "to", "meta"])
def test_integers_keep_their_dtype(name):
    assert CONVERSIONS[name](tied())[0].count.dtype is flambeau.int64


def test_gradients_are_converted_with_their_parameters():
    model = tied()
    (model[0].weight * 3).sum().backward()
    grad = model[0].weight.grad
    model.double()
    assert model[0].weight.grad is grad
    assert grad.dtype is flambeau.float64
    assert grad.tolist() == [3.0, 3.0]


def test_an_optimizer_still_sees_converted_parameters():
    model = tied()
    optimizer = flambeau.optim.SGD(model.parameters(), lr=1.0)
    model.double()
    (model[0].weight * 3).sum().backward()
    optimizer.step()
    assert model[1].weight.tolist() == [-2.0, -1.0]


def test_failure_in_a_gradient_leaves_the_parameter_as_it_was():
    model = Layer()
    (model.weight * 3).sum().backward()
    seen = []

    def fail_on_second(tensor):
        seen.append(tensor)
        if len(seen) == 2:
            raise ValueError("no")
        return tensor.double()

    with pytest.raises(ValueError, match="no"):
        model._apply(fail_on_second)
    assert model.weight.dtype is flambeau.float32
    assert model.weight.grad.dtype is flambeau.float32


def test_another_class_of_tensor_becomes_a_new_parameter():
    class Special(flambeau.Tensor):
        pass

    model = Layer()
    model._apply(lambda tensor: tensor.as_subclass(Special))
    assert type(model.weight) is Special
    assert isinstance(model.weight, nn.Parameter)
    assert model._parameters["weight"].requires_grad


@pytest.mark.parametrize(
    ("action", "error", "facts"),
    [
        (lambda m: m.to(flambeau.int64), TypeError, ["int64", "floating point or complex"]),
        (lambda m: m.to("cpu", copy=True), RuntimeError, ["copy"]),
        (lambda m: m.to([1]), TypeError, ["list"]),
        (lambda m: m.to(flambeau.float64, "cpu"), TypeError, ["cpu", "non_blocking"]),
        (lambda m: m.to("cpu", tensor=1), TypeError, ["tensor", "to(device, dtype)"]),
        (lambda m: m._apply(lambda tensor: None), TypeError, ["'weight'", "NoneType"]),
        (lambda m: m.to("meta").to("cpu"), NotImplementedError, ["meta", "to_empty"]),
        (lambda m: m.xpu(), RuntimeError, ["xpu", "cpu", "cuda", "tpu"]),
        (lambda m: m.share_memory(), NotImplementedError, ["processes", "state dict"]),
        (lambda m: m.train(1), ValueError, ["True or False", "1"]),
        (lambda m: m.train("yes"), ValueError, ["'yes'"]),
    ],
)
def test_error_says_what_to_do(action, error, facts):
    with pytest.raises(error) as raised:
        action(Layer())
    for fact in facts:
        assert fact in str(raised.value)


def test_complex_dtype_warns():
    with pytest.warns(UserWarning, match="complex parameters"):
        model = Layer().to(flambeau.complex64)
    assert model.weight.dtype is flambeau.complex64
    assert model.count.dtype is flambeau.int64


def test_to_empty_can_leave_the_modules_below():
    model = nn.Sequential(Layer())
    model.register_buffer("top", flambeau.zeros(1))
    model.to("meta").to_empty(device="cpu", recurse=False)
    assert not model.top.is_meta
    assert model[0].weight.is_meta


def test_modes_reach_every_module_and_respect_overrides():
    class Frozen(Layer):
        def train(self, mode=True):
            return super().train(False)

    model = nn.Sequential(Layer(), Frozen())
    assert model.train() is model
    assert [module.training for module in model.modules()] == [True, True, False]
    assert model.eval() is model
    assert not any(module.training for module in model.modules())


def test_zero_grad_forgets_or_fills():
    model = tied()
    (model[0].weight * 3).sum().backward()
    grad = model[0].weight.grad
    model.zero_grad(set_to_none=False)
    assert model[0].weight.grad is grad
    assert grad.tolist() == [0.0, 0.0]
    model.zero_grad()
    assert model[0].weight.grad is None


def test_zero_grad_takes_a_recorded_gradient_off_the_tape():
    model = Layer()
    (gradient,) = flambeau.autograd.grad((model.weight**2).sum(), model.weight, create_graph=True)
    model.weight.grad = gradient
    model.zero_grad(set_to_none=False)
    assert model.weight.grad.grad_fn is None
    assert not model.weight.grad.requires_grad


def test_requires_grad_freezes_a_tree():
    model = tied()
    assert model.requires_grad_(False) is model
    assert not any(each.requires_grad for each in model.parameters())


def test_memory_format_is_for_members_of_four_and_five_dimensions():
    seen = {}

    class Watched(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is flambeau.Tensor.to:
                seen[args[0].dim()] = dict(kwargs or {})
            return super().__torch_function__(func, types, args, kwargs or {})

    model = nn.ParameterList(flambeau.ones((1,) * n).as_subclass(Watched) for n in range(2, 7))
    model.to(memory_format=flambeau.channels_last)
    given = {"memory_format": flambeau.channels_last}
    assert seen == {2: {}, 3: {}, 4: given, 5: given, 6: {}}
