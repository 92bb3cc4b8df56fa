"""A block that raises leaves every tensor of the module as it was."""

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.snapshot import all_or_nothing


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.ones(2))
        self.register_buffer("mean", flambeau.ones(2))
        self.plain = flambeau.ones(2)


CHANGES = {
    "write to a parameter": lambda m: m[0].weight.data.fill_(5.0),
    "write to a buffer": lambda m: m[0].mean.fill_(5.0),
    "write to a plain tensor": lambda m: m[0].plain.fill_(5.0),
    "new elements": lambda m: setattr(m[0].weight, "data", flambeau.zeros(7)),
    "new parameter": lambda m: setattr(m[0], "weight", nn.Parameter(flambeau.zeros(7))),
    "new buffer": lambda m: setattr(m[0], "mean", flambeau.zeros(7)),
    "new plain tensor": lambda m: setattr(m[0], "plain", flambeau.zeros(7)),
    "frozen": lambda m: m[0].weight.requires_grad_(False),
    "deleted parameter": lambda m: delattr(m[0], "weight"),
    "another member": lambda m: m[0].register_buffer("more", flambeau.ones(1)),
    "another module": lambda m: m.append(Layer()),
    "replaced module": lambda m: setattr(m, "0", Layer()),
}


def contents(model):
    layer = model[0]
    tensors = [*layer.named_parameters(), *layer.named_buffers(), ("plain", layer.plain)]
    return (
        id(layer),
        len(model),
        [(name, id(each), each.tolist(), each.requires_grad) for name, each in tensors],
    )


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("name", CHANGES)
def test_failure_undoes(name, error):
    model = nn.Sequential(Layer())
    before = contents(model)
    with pytest.raises(error), all_or_nothing(model):
        CHANGES[name](model)
        raise error
    assert contents(model) == before


@pytest.mark.parametrize("name", CHANGES)
def test_success_keeps(name):
    model = nn.Sequential(Layer())
    expected = nn.Sequential(Layer())
    CHANGES[name](expected)
    with all_or_nothing(model):
        CHANGES[name](model)
    assert repr(model) == repr(expected)
    assert str(model.state_dict()) == str(expected.state_dict())


def test_untouched_tensors_are_not_written():
    model = nn.Sequential(Layer())
    version = model[0].weight._version
    with pytest.raises(ValueError, match="no"), all_or_nothing(model):
        raise ValueError("no")
    assert model[0].weight._version == version
