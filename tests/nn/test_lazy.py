"""Uninitialized tensors, and the modules that give them a shape at their first call."""

import copy
import pickle

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
    is_lazy,
)

KINDS = (UninitializedParameter, UninitializedBuffer)


@pytest.mark.parametrize("kind", KINDS)
def test_materialize_turns_the_very_object_into_an_ordinary_one(kind):
    tensor = kind(dtype=flambeau.float16)
    tensor.note = "kept"
    again = tensor
    tensor.materialize((2, 3))
    assert again is tensor
    assert type(tensor) is kind.cls_to_become
    assert tensor.shape == (2, 3)
    assert tensor.dtype is flambeau.float16
    assert tensor.note == "kept"
    assert not is_lazy(tensor)
    assert (tensor + 1).sum().item() == 6


def test_materialize_takes_another_device_and_dtype():
    tensor = UninitializedParameter(requires_grad=False, device="meta")
    tensor.materialize((2,), device="cpu", dtype=flambeau.float64)
    assert tensor.device.type == "cpu"
    assert tensor.dtype is flambeau.float64
    assert not tensor.requires_grad


@pytest.mark.parametrize("kind", KINDS)
def test_shape_and_shared_memory_are_runtime_errors(kind):
    tensor = kind()
    with pytest.raises(RuntimeError, match="has no shape"):
        _ = tensor.shape
    with pytest.raises(RuntimeError, match="no memory to share"):
        tensor.share_memory_()


USES = {
    "method": lambda t: t.sum(),
    "function": lambda t: flambeau.add(t, 1),
    "operator": lambda t: 1 + t,
    "in place": lambda t: t.zero_(),
    "comparison": lambda t: t == 1,
    "subscript": lambda t: t[0],
    "len": len,
    "bool": bool,
    "numpy": lambda t: t.numpy(),
    "item": lambda t: t.item(),
    "numel": lambda t: t.numel(),
    "dim": lambda t: t.dim(),
    "detach": lambda t: t.detach(),
    "requires_grad_": lambda t: t.requires_grad_(),
    "register_hook": lambda t: t.register_hook(print),
    "backward": lambda t: t.backward(),
    "empty_like": flambeau.empty_like,
    "functional": lambda t: nn.functional.linear(flambeau.ones(1, 1), t),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_everything_else_is_refused_by_name(kind, use):
    with pytest.raises(ValueError, match=f"not possible on an {kind.__name__}"):
        use(kind())


def test_what_does_not_depend_on_a_shape_is_answered():
    tensor = UninitializedParameter(dtype=flambeau.float64)
    assert repr(tensor) == "<UninitializedParameter>"
    assert tensor.dtype is flambeau.float64
    assert tensor.device.type == "cpu"
    assert tensor.requires_grad
    assert tensor.is_leaf
    assert tensor.grad is None
    assert tensor.is_floating_point()
    assert not tensor.is_complex()
    assert tensor.get_device() == -1
    assert tensor.size() == (0,)
    assert len({tensor, tensor}) == 1
    assert isinstance(tensor, Parameter)
    assert isinstance(UninitializedBuffer(), Buffer)


def test_conversions_give_a_tensor_or_the_same_object():
    tensor = UninitializedParameter()
    assert tensor.to(flambeau.float32) is tensor
    assert tensor.float() is tensor
    assert tensor.cpu() is tensor
    assert tensor.double().dtype is flambeau.float64
    buffer = UninitializedBuffer(persistent=False).half()
    assert type(buffer) is UninitializedBuffer
    assert buffer.dtype is flambeau.float16
    assert not buffer.persistent


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
@pytest.mark.parametrize("kind", KINDS)
def test_copies_keep_what_is_known(kind, copied):
    tensor = kind(False, "meta", flambeau.float16)
    tensor.note = "kept"
    made = copied(tensor)
    assert type(made) is kind
    assert made is not tensor
    assert (made.device.type, made.dtype, made.requires_grad) == ("meta", flambeau.float16, False)
    assert made.note == "kept"
    assert is_lazy(tensor)


def test_deepcopy_keeps_ties():
    tensor = UninitializedParameter()
    one, other = copy.deepcopy([tensor, tensor])
    assert one is other


def test_first_call_turns_a_lazy_layer_into_its_base():
    flambeau.manual_seed(3)
    layer = nn.LazyLinear(3)
    weight = layer.weight
    flambeau.manual_seed(4)
    output = layer(flambeau.ones(2, 5))
    flambeau.manual_seed(4)
    expected = nn.Linear(5, 3)
    assert type(layer) is nn.Linear
    assert layer.weight is weight
    assert repr(layer) == "Linear(in_features=5, out_features=3, bias=True)"
    assert (output == expected(flambeau.ones(2, 5))).all()
    assert not layer._forward_pre_hooks
    assert not layer._load_state_dict_pre_hooks
    assert "_initialize_hook" not in vars(layer)
    assert "_load_hook" not in vars(layer)


def test_optimizer_made_before_the_first_call_trains_the_parameters():
    layer = nn.LazyLinear(1, bias=False)
    parameters = list(layer.parameters())
    layer(flambeau.ones(1, 2)).sum().backward()
    assert parameters[0].grad.tolist() == [[1.0, 1.0]]


def test_state_of_an_ordinary_layer_gives_shapes():
    source = nn.Linear(2, 3)
    layer = nn.LazyLinear(3)
    layer.load_state_dict(source.state_dict())
    assert type(layer) is nn.LazyLinear
    assert type(layer.weight) is Parameter
    x = flambeau.ones(1, 2)
    assert (layer(x) == source(x)).all()
    assert layer.in_features == 2


def test_loaded_state_of_another_size_is_told_at_the_first_call():
    layer = nn.LazyLinear(3)
    layer.load_state_dict(nn.Linear(2, 3).state_dict())
    with pytest.raises(AssertionError, match=r"5 features.*for 2"):
        layer(flambeau.ones(1, 5))


def test_uninitialized_state_loads_into_uninitialized_layers_only():
    state = nn.LazyBatchNorm1d().state_dict()
    assert is_lazy(state["running_mean"])
    other = nn.LazyBatchNorm1d()
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>"
    assert other.has_uninitialized_params()
    with pytest.raises(RuntimeError, match=r"has no shape"):
        nn.BatchNorm1d(2).load_state_dict(state)


def test_state_can_be_assigned():
    layer = nn.LazyLinear(3)
    state = nn.Linear(2, 3).state_dict()
    layer.load_state_dict(state, assign=True)
    assert layer.weight.shape == (3, 2)


def test_failed_load_leaves_everything_uninitialized():
    model = nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 2))
    state = nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 2)).state_dict()
    with pytest.raises(RuntimeError, match=r"1\.weight"):
        model.load_state_dict(state)
    assert is_lazy(model[0].weight)
    assert is_lazy(model[0].bias)
    assert model(flambeau.ones(1, 7)).shape == (1, 2)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_a_lazy_layer_are_lazy_and_independent(copied):
    layer = nn.LazyBatchNorm1d()
    made = copied(layer)
    assert made(flambeau.ones(2, 3)).shape == (2, 3)
    assert type(made) is nn.BatchNorm1d
    assert type(layer) is nn.LazyBatchNorm1d
    assert layer(flambeau.ones(2, 4)).shape == (2, 4)


def test_conversions_of_a_lazy_layer_hold_after_the_first_call():
    layer = nn.LazyBatchNorm1d().to(flambeau.float64)
    assert layer.num_batches_tracked.dtype is flambeau.int64
    layer(flambeau.ones(2, 3, dtype=flambeau.float64))
    assert layer.weight.dtype is layer.running_var.dtype is flambeau.float64


def test_to_empty_moves_a_lazy_layer():
    layer = nn.LazyBatchNorm1d(device="meta").to_empty(device="cpu")
    assert is_lazy(layer.weight)
    assert is_lazy(layer.running_mean)
    assert layer(flambeau.ones(2, 3)).device.type == "cpu"


def test_lazy_layer_on_meta_takes_its_shape_there():
    layer = nn.LazyConv2d(2, 3, device="meta")
    assert layer(flambeau.ones(1, 4, 5, 5, device="meta")).shape == (1, 2, 3, 3)
    assert layer.weight.is_meta


def test_first_call_inside_compile_makes_real_parameters():
    model = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2))

    @flambeau.compile
    def run(x):
        return model(x)

    x = flambeau.ones(2, 4)
    first = run(x)
    assert type(model[0]) is nn.Linear
    assert model[0].weight.shape == (3, 4)
    for result in (first, run(x)):
        assert (result - model(x)).abs().max().item() < 1e-6
    assert run.program_count == 1


class Scale(LazyModuleMixin, nn.Module):
    """A lazy module as users write them, which keeps its class."""

    def __init__(self):
        super().__init__()
        self.factor = UninitializedParameter()
        self.register_buffer("offset", UninitializedBuffer(persistent=False), persistent=False)

    def initialize_parameters(self, input, *, extra=0):
        with flambeau.no_grad():
            self.factor.materialize(input.shape[-1:])
            self.offset.materialize(input.shape[-1:])
            nn.init.constant_(self.factor, 2.0)

    def forward(self, input, *, extra=0):
        return input * self.factor + self.offset + extra


def test_module_of_ones_own_keeps_its_class_and_takes_keywords():
    module = Scale()
    assert list(module.state_dict()) == ["factor"]
    assert module(flambeau.ones(2), extra=1).tolist() == [3.0, 3.0]
    assert type(module) is Scale
    assert list(module.state_dict()) == ["factor"]


class Nothing(LazyModuleMixin, nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = UninitializedParameter()


class TooLittle(Nothing):
    def initialize_parameters(self, input):
        pass


def test_mistakes_of_a_module_of_ones_own_are_told():
    with pytest.raises(NotImplementedError, match=r"Nothing does not define initialize_parameters"):
        Nothing()(1)
    with pytest.raises(RuntimeError, match="TooLittle has left parameters"):
        TooLittle()(1)
    with pytest.raises(RuntimeError, match="DataParallel"):
        Nothing()._replicate_for_data_parallel()


def test_convolution_checks_its_first_input():
    with pytest.raises(RuntimeError, match=r"LazyConv1d takes an input of 3 dimensions, or 2"):
        nn.LazyConv1d(2, 3)(flambeau.ones(4))
    with pytest.raises(ValueError, match="3 channels must be divisible by groups=2"):
        nn.LazyConv1d(2, 3, groups=2)(flambeau.ones(1, 3, 4))


def test_loaded_normalization_and_convolution_take_their_numbers_from_the_input():
    for lazy, base, shape in (
        (nn.LazyBatchNorm1d(), nn.BatchNorm1d(3), (2, 3)),
        (
            nn.LazyInstanceNorm1d(),
            nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
            (3, 4),
        ),
        (nn.LazyConv1d(2, 2), nn.Conv1d(3, 2, 2), (3, 4)),
    ):
        lazy.load_state_dict(base.state_dict())
        x = flambeau.arange(shape[0] * shape[1]).reshape(shape).float()
        assert (lazy(x) == base(x)).all()
        assert repr(lazy) == repr(base)


def test_instance_norm_without_a_batch_finds_its_channels():
    layer = nn.LazyInstanceNorm1d()
    assert layer(flambeau.ones(3, 4)).shape == (3, 4)
    assert layer.num_features == 3


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.LazyLinear(2), ()), (nn.LazyBatchNorm1d(), (3,)), (nn.LazyBatchNorm1d(), ())],
)
def test_an_input_without_the_dimension_leaves_the_layer_lazy(layer, shape):
    with pytest.raises(IndexError, match="dimension"):
        layer(flambeau.ones(shape))
    assert layer.has_uninitialized_params()
    assert layer(flambeau.ones(2, 3)).shape[0] == 2


def test_a_first_call_that_fails_leaves_all_uninitialized():
    class Halfway(LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = UninitializedParameter(), UninitializedParameter()

        def initialize_parameters(self, input):
            self.weight.materialize(input.shape)
            self.bias.materialize((input.shape[1],))

        def forward(self, input):
            return input * self.weight + self.bias

    layer = Halfway()
    with pytest.raises(IndexError):
        layer(flambeau.ones(2))
    assert is_lazy(layer.weight)
    assert is_lazy(layer.bias)
    layer(flambeau.ones(2, 3))
    assert layer.weight.shape == (2, 3)
    assert layer.bias.shape == (3,)
