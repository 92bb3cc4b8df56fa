"""What `flambeau.compile` gives for a module is another handle on that module."""

import copy
import pickle
from collections import OrderedDict

import pytest

import flambeau
from flambeau import nn

X = flambeau.ones(1, 2)


@pytest.fixture
def layer():
    flambeau.manual_seed(0)
    return nn.Linear(2, 2)


def test_it_is_a_module_of_its_class(layer):
    compiled = flambeau.compile(layer)
    assert isinstance(compiled, nn.Linear)
    assert type(compiled).__name__ == "Linear"
    assert repr(compiled) == repr(layer)
    assert compiled._orig_mod is layer


def test_its_calls_are_programs(layer):
    compiled = flambeau.compile(layer)
    assert flambeau.allclose(compiled(X), layer(X))
    compiled(X)
    assert compiled.program_count == 1
    compiled(X).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_members_and_attributes_are_shared_both_ways(layer):
    compiled = flambeau.compile(layer)
    compiled.weight = nn.Parameter(flambeau.zeros(2, 2))
    layer.bias = nn.Parameter(flambeau.full((2,), 3.0))
    compiled.note = "shared"
    assert layer.weight is compiled.weight
    assert compiled(X).tolist() == [[3.0, 3.0]]
    assert layer.note == "shared"
    del compiled.bias
    assert not hasattr(layer, "bias")


def test_an_attribute_set_on_it_reaches_its_calls():
    class Scale(nn.Module):
        factor = 1.0

        def forward(self, x):
            return x * self.factor

    compiled = flambeau.compile(Scale())
    assert compiled(X).tolist() == [[1.0, 1.0]]
    compiled.factor = 3.0
    assert compiled(X).tolist() == [[3.0, 3.0]]


def test_methods_that_return_the_module_return_the_compiled_one(layer):
    compiled = flambeau.compile(layer)
    for result in (compiled.train(), compiled.eval(), compiled.to("cpu"), compiled.double()):
        assert result is compiled
    assert not layer.training
    assert layer.weight.dtype is flambeau.float64


@pytest.mark.parametrize("container", [nn.Sequential, lambda *layers: nn.ModuleList(layers)])
def test_it_stands_among_the_members_of_other_modules(layer, container):
    model = container(layer, nn.Linear(2, 1))
    names = list(model.state_dict())
    for i, each in enumerate(model):
        model[i] = flambeau.compile(each)
    assert len(list(model.parameters())) == 4
    assert list(model.state_dict()) == names
    assert [type(each).__name__ for each in model] == ["Linear", "Linear"]


def test_a_member_of_a_module_is_trained_compiled_or_not():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = flambeau.compile(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
            self.head = nn.Linear(2, 1)

        def forward(self, x):
            self.last = self.body(x)
            return self.head(self.last)

    results = []
    x = flambeau.tensor([[1.0, 2.0], [3.0, 5.0]])
    for wrap in (lambda step: step, flambeau.compile):
        flambeau.manual_seed(0)
        model = Model()
        optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        step = wrap(step)
        losses = [step(x).item() for _ in range(3)]
        results.append([*losses, *model.body[1].running_mean.tolist(), *model.last[0].tolist()])
    assert results[0] == pytest.approx(results[1], rel=1e-4)
    assert results[0][0] > results[0][2]


def test_hooks_get_the_module_that_was_compiled(layer):
    compiled = flambeau.compile(layer)
    handle = compiled.register_forward_hook(
        lambda module, args, output: output * (2 if module is layer else 1)
    )
    doubled = compiled(X)
    handle.remove()
    assert flambeau.allclose(doubled, compiled(X) * 2)


def test_methods_of_ones_own_call_the_module_that_was_compiled():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(x)

        def train(self, mode=True):
            super().train(mode)
            self.layer.eval()
            return self

        def generate(self, x):
            return self(self(x))

    compiled = flambeau.compile(Model())
    assert compiled.generate(X).shape == (1, 2)
    assert compiled.program_count == 0
    assert compiled.generate.__self__ is compiled._orig_mod
    assert type(compiled).generate is Model.generate
    assert compiled.train() is compiled
    assert (compiled.training, compiled.layer.training) == (True, False)


def test_containers_stay_containers(layer):
    compiled = flambeau.compile(nn.Sequential(layer, nn.ReLU()))
    assert len(compiled) == 2
    assert compiled[0] is layer
    compiled.append(nn.Tanh())
    assert compiled(X).shape == (1, 2)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_are_compiled_and_their_own(layer, copied):
    compiled = flambeau.compile(layer)
    twin = copied(compiled)
    assert twin.weight is not layer.weight
    assert flambeau.allclose(twin(X), compiled(X))
    assert twin.program_count == 1


def test_what_is_compiled_already_can_be_compiled(layer):
    twice = flambeau.compile(flambeau.compile(layer))
    assert flambeau.allclose(twice(X), layer(X))
    assert twice.program_count == 1


def test_names_that_pytorch_gives_compiled_modules_are_taken():
    model = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
    saved = model.state_dict()
    for part, prefix in ((model, "_orig_mod."), (model[0], "0._orig_mod.")):
        other = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
        loaded = {}
        for name, each in saved.items():
            is_part = part is model or name.startswith("0.")
            loaded[prefix + name[0 if part is model else 2 :] if is_part else name] = each + 1
        with pytest.raises(RuntimeError, match=r"have '_orig_mod\.', as PyTorch's compile"):
            other.load_state_dict(loaded)
        if part is model:
            other = flambeau.compile(other)
        else:
            other[0] = flambeau.compile(other[0])
        assert not any(other.load_state_dict(loaded))
        assert flambeau.equal(other[0].weight, saved["0.weight"] + 1)
        assert not any(other.load_state_dict(saved))
        # The own name comes first.
        with pytest.raises(RuntimeError, match=r'Unexpected.*\n.*"(0\.)?_orig_mod\.'):
            other.load_state_dict({**saved, **loaded})


def test_versions_of_compiled_modules_are_those_of_the_modules():
    norm = nn.BatchNorm1d(1)
    loaded = OrderedDict((f"_orig_mod.{name}", each) for name, each in norm.state_dict().items())
    del loaded["_orig_mod.num_batches_tracked"]
    for version in (1, 2):
        loaded._metadata = {"": {"version": 1}, "_orig_mod": {"version": version}}
        missing = flambeau.compile(norm).load_state_dict(loaded, strict=False).missing_keys
        assert missing == (["num_batches_tracked"] if version == 2 else [])
