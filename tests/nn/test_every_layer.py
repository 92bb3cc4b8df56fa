"""What every layer of `flambeau.nn` can do, whatever it computes.

A class that is new in `flambeau.nn` needs an entry in `EXAMPLES`.
"""

import copy
import inspect
import pickle
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.core.programs.gears import held
from flambeau.nn.parameter import is_lazy
from flambeau.nn.utils import skip_init

# What holds other modules, or is the base of other layers and computes nothing itself.
CONTAINERS = {
    "Container", "Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "RNNBase",
    "RNNCellBase", "Sequential",
}  # fmt: skip
RANDOM = {
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "RReLU", "Transformer", "TransformerDecoder",
    "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
}  # fmt: skip
# Which windows they take depends on the precision of the numbers that are drawn.
SAMPLED_IN_ITS_DTYPE = {"FractionalMaxPool2d", "FractionalMaxPool3d"}
# Stacks of copies of a layer that they are given, and that has been made where it is wanted.
STACKS = {"TransformerDecoder", "TransformerEncoder"}


class Example(NamedTuple):
    """Arguments of the constructor, and what the layer is called with."""

    args: tuple[Any, ...]
    inputs: tuple[Any, ...]


def ramp(*shape):
    """Numbers between 0 and 1, no two the same, in no order."""
    count = int(np.prod(shape))
    return flambeau.tensor(((np.arange(count) * 7 % 31 + 0.5) / 32).astype("f4").reshape(shape))


def whole(*values):
    return flambeau.tensor(values)


EXAMPLES: dict[str, Example] = {
    "AdaptiveLogSoftmaxWithLoss": Example((16, 6, [2, 4]), (ramp(3, 16), whole(0, 3, 5))),
    "Bilinear": Example((3, 2, 2), (ramp(2, 3), ramp(2, 2))),
    "CTCLoss": Example((), (ramp(4, 1, 3).log(), whole([1, 2]), whole(4), whole(2))),
    "ChannelShuffle": Example((2,), (ramp(1, 4, 2, 2),)),
    "CosineEmbeddingLoss": Example((), (ramp(2, 3), ramp(2, 3) * 2, whole(1, -1))),
    "CosineSimilarity": Example((), (ramp(2, 3), ramp(2, 3) * 2 - 1)),
    "CrossEntropyLoss": Example((), (ramp(2, 3), whole(0, 2))),
    "CrossMapLRN2d": Example((3,), (ramp(1, 4, 2, 2),)),
    "Embedding": Example((4, 3), (whole([0, 3], [1, 1]),)),
    "EmbeddingBag": Example((4, 3), (whole([0, 3], [1, 1]),)),
    "Flatten": Example((), (ramp(2, 2, 3),)),
    "Fold": Example(((3, 3), 2), (ramp(1, 8, 4),)),
    "FractionalMaxPool2d": Example((2, 2), (ramp(1, 2, 4, 4),)),
    "FractionalMaxPool3d": Example((2, 2), (ramp(1, 1, 4, 4, 4),)),
    "GRU": Example((3, 4), (ramp(2, 1, 3),)),
    "GRUCell": Example((3, 4), (ramp(2, 3),)),
    "GaussianNLLLoss": Example((), (ramp(2, 3), ramp(2, 3) * 2, ramp(2, 3))),
    "GroupNorm": Example((2, 4), (ramp(2, 4, 2),)),
    "Identity": Example((), (ramp(2),)),
    "KLDivLoss": Example((None, None, "batchmean"), (-ramp(2, 3), 1 - ramp(2, 3))),
    "LSTM": Example((3, 4), (ramp(2, 1, 3),)),
    "LSTMCell": Example((3, 4), (ramp(2, 3),)),
    "LayerNorm": Example((3,), (ramp(2, 3),)),
    "LinearCrossEntropyLoss": Example((3, 4), (ramp(2, 3), whole(0, 3))),
    "LocalResponseNorm": Example((3,), (ramp(1, 4, 2),)),
    "LogSoftmax": Example((1,), (ramp(2, 3),)),
    "MarginRankingLoss": Example((), (ramp(2), 1 - ramp(2), whole(1, -1))),
    "MultiLabelMarginLoss": Example((), (ramp(1, 4), whole([3, 0, -1, 1]))),
    "MultiMarginLoss": Example((), (ramp(2, 3), whole(0, 2))),
    "MultiheadAttention": Example((4, 2), (ramp(2, 1, 4), ramp(3, 1, 4), 1 - ramp(3, 1, 4))),
    "NLLLoss": Example((), (ramp(2, 3).log(), whole(0, 2))),
    "NLLLoss2d": Example((), (ramp(1, 3, 2, 2).log(), whole([[0, 2], [1, 1]]))),
    "PReLU": Example((3,), (ramp(2, 3) - 0.5,)),
    "PairwiseDistance": Example((), (ramp(2, 3), 1 - ramp(2, 3))),
    "PixelShuffle": Example((2,), (ramp(1, 4, 2, 2),)),
    "PixelUnshuffle": Example((2,), (ramp(1, 1, 4, 4),)),
    "RMSNorm": Example((3,), (ramp(2, 3),)),
    "RNN": Example((3, 4), (ramp(2, 1, 3),)),
    "RNNCell": Example((3, 4), (ramp(2, 3),)),
    "Softmax": Example((1,), (ramp(2, 3),)),
    "Softmax2d": Example((), (ramp(1, 3, 2, 2),)),
    "Softmin": Example((1,), (ramp(2, 3),)),
    "SyncBatchNorm": Example((3,), (ramp(2, 3, 2, 2),)),
    "Threshold": Example((0.5, 2.0), (ramp(2, 3),)),
    "Transformer": Example((4, 2, 1, 1, 5), (ramp(3, 1, 4), 1 - ramp(2, 1, 4))),
    "TransformerDecoder": Example(
        (nn.TransformerDecoderLayer(4, 2, 5), 2), (ramp(2, 1, 4), 1 - ramp(3, 1, 4))
    ),
    "TransformerDecoderLayer": Example((4, 2, 5), (ramp(2, 1, 4), 1 - ramp(3, 1, 4))),
    "TransformerEncoder": Example((nn.TransformerEncoderLayer(4, 2, 5), 2), (ramp(3, 1, 4),)),
    "TransformerEncoderLayer": Example((4, 2, 5), (ramp(3, 1, 4),)),
    "TripletMarginLoss": Example((), (ramp(2, 3), 1 - ramp(2, 3), ramp(2, 3) * 2)),
    "TripletMarginWithDistanceLoss": Example((), (ramp(2, 3), 1 - ramp(2, 3), ramp(2, 3) * 2)),
    "Unflatten": Example((1, (2, 2)), (ramp(2, 4),)),
    "Unfold": Example((2,), (ramp(1, 2, 3, 3),)),
    "Upsample": Example((None, 2), (ramp(1, 2, 3),)),
    "UpsamplingBilinear2d": Example((None, 2), (ramp(1, 1, 2, 2),)),
    "UpsamplingNearest2d": Example((None, 2), (ramp(1, 1, 2, 2),)),
}
for name in (
    "CELU", "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "Mish", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus",
    "Softshrink", "Softsign", "Tanh", "Tanhshrink",
):  # fmt: skip
    EXAMPLES[name] = Example((), (4 * ramp(2, 4) - 2,))
EXAMPLES["GLU"] = Example((), (ramp(2, 4),))
for name in ("AlphaDropout", "Dropout"):
    EXAMPLES[name] = Example((), (ramp(2, 4),))
EXAMPLES["FeatureAlphaDropout"] = Example((), (ramp(2, 4, 2),))
for name in (
    "BCELoss", "BCEWithLogitsLoss", "HingeEmbeddingLoss", "HuberLoss", "L1Loss",
    "MSELoss", "MultiLabelSoftMarginLoss", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss",
):  # fmt: skip
    EXAMPLES[name] = Example((), (ramp(2, 3), 1 - ramp(2, 3)))
for name, args in {"": (3, 2), "Lazy": (2,)}.items():
    EXAMPLES[f"{name}Linear"] = Example(args, (ramp(2, 3),))
for n, sizes in {1: (4,), 2: (4, 4), 3: (4, 4, 4)}.items():
    image, small = ramp(1, 2, *sizes), ramp(1, 2, *(2,) * n)
    for name, args in {"Conv": (2, 2, 2), "LazyConv": (2, 2)}.items():
        EXAMPLES[f"{name}{n}d"] = Example(args, (image,))
        EXAMPLES[f"{name}Transpose{n}d"] = Example(args, (small,))
    for name in ("BatchNorm", "InstanceNorm"):
        EXAMPLES[f"{name}{n}d"] = Example((2,), (image,))
        EXAMPLES[f"Lazy{name}{n}d"] = Example((), (image,))
    for name in ("AdaptiveAvgPool", "AdaptiveMaxPool", "AvgPool", "MaxPool"):
        EXAMPLES[f"{name}{n}d"] = Example((2,), (image,))
    EXAMPLES[f"LPPool{n}d"] = Example((2, 2), (image,))
    indices = flambeau.arange(2**n).mul(2**n - 1).remainder(2**n).reshape(small.shape[2:])
    EXAMPLES[f"MaxUnpool{n}d"] = Example((2,), (small, indices.expand(small.shape)))
    for name in ("CircularPad", "ReflectionPad", "ReplicationPad", "ZeroPad"):
        EXAMPLES[f"{name}{n}d"] = Example((1,), (small,))
    EXAMPLES[f"ConstantPad{n}d"] = Example((1, 0.5), (small,))
    EXAMPLES[f"Dropout{n}d"] = Example((), (image,))


def layer_names():
    return sorted(
        name
        for name, value in vars(nn).items()
        if isinstance(value, type) and issubclass(value, nn.Module) and name not in CONTAINERS
    )


NAMES = [name for name in layer_names() if name in EXAMPLES]


@pytest.fixture(autouse=True)
def _ignore_deprecation():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def build(name, **options):
    return getattr(nn, name)(*EXAMPLES[name].args, **options)


def used(name):
    """The layer after a first call, which gives a lazy one its shape, in evaluation."""
    flambeau.manual_seed(1)
    layer = build(name)
    layer(*EXAMPLES[name].inputs)
    return layer.eval()


def results(layer, name):
    flambeau.manual_seed(2)
    return flat(layer(*EXAMPLES[name].inputs))


def flat(outputs):
    """All tensors of nested tuples."""
    if not isinstance(outputs, tuple):
        return [outputs]
    return [leaf for each in outputs for leaf in flat(each)]


def assert_same(found, expected, tolerance=0.0):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype is other.dtype
        np.testing.assert_allclose(
            one.detach().numpy(), other.detach().numpy(), rtol=tolerance, atol=tolerance
        )


def takes(name, argument):
    return argument in inspect.signature(getattr(nn, name)).parameters


def test_there_is_an_example_of_every_layer():
    assert layer_names() == NAMES
    assert sorted(EXAMPLES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_layer_with_tensors_takes_device_and_dtype(name):
    assert takes(name, "device") is takes(name, "dtype")
    # Without tensors of their own in this example, but affine ones have them.
    bare = {"InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"}
    has_tensors = bool(build(name).state_dict()) and name not in STACKS
    assert takes(name, "device") is (has_tensors or name in bare)


@pytest.mark.parametrize("name", [each for each in NAMES if takes(each, "device")])
def test_tensors_are_made_on_the_device_and_of_the_dtype(name):
    options = {"affine": True} if name.startswith("Instance") else {}
    layer = build(name, device="meta", dtype=flambeau.float64, **options)
    assert layer.state_dict()
    for each in layer.state_dict().values():
        assert each.is_meta
        assert each.dtype in (flambeau.float64, flambeau.int64)


@pytest.mark.parametrize("name", [each for each in NAMES if takes(each, "device")])
def test_layer_survives_skip_init(name):
    flambeau.manual_seed(1)
    before = flambeau.get_rng_state()
    layer = skip_init(getattr(nn, name), *EXAMPLES[name].args)
    assert (flambeau.get_rng_state() == before).all()
    expected = build(name)
    for module in (layer, expected):
        module(*EXAMPLES[name].inputs)
    state, expected_state = layer.state_dict(), expected.state_dict()
    assert list(state) == list(expected_state)
    for key, value in state.items():
        assert value.device.type == "cpu"
        assert value.shape == expected_state[key].shape
        assert value.dtype is expected_state[key].dtype


@pytest.mark.parametrize("name", NAMES)
def test_layer_built_on_meta_materializes_as_it_would_have_been_built(name):
    flambeau.manual_seed(3)
    with flambeau.device("meta"):
        layer = build(name)
    flambeau.manual_seed(3)
    expected = build(name)
    found = layer.materialize().state_dict(keep_vars=True)
    assert list(found) == list(expected.state_dict())
    for key, value in expected.state_dict(keep_vars=True).items():
        assert found[key].device == value.device
        assert found[key].dtype is value.dtype
        assert is_lazy(found[key]) is is_lazy(value)
        if not is_lazy(value):
            assert flambeau.equal(found[key], value)


@pytest.mark.parametrize("name", NAMES)
def test_layer_can_be_copied_and_pickled(name):
    for layer in (build(name), used(name)):
        copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
        assert [repr(each) for each in copies] == [repr(layer)] * 2
        assert [type(each) for each in copies] == [type(layer)] * 2
    for each in copies:
        assert list(each.state_dict()) == list(layer.state_dict())
        with held():
            assert_same(results(each, name), results(layer, name))


@pytest.mark.parametrize("name", NAMES)
def test_state_goes_round(name):
    layer = used(name)
    with flambeau.no_grad():
        for each in layer.state_dict().values():
            each += 1
    flambeau.manual_seed(5)
    other = build(name)
    for key, value in other.state_dict().items():
        assert is_lazy(value) or not flambeau.equal(value, layer.state_dict()[key])
    assert str(other.load_state_dict(layer.state_dict())) == "<All keys matched successfully>"
    assert_same(list(other.state_dict().values()), list(layer.state_dict().values()))
    assert_same(results(other.eval(), name), results(layer, name))


@pytest.mark.parametrize("name", NAMES)
def test_layer_can_be_cast_to_bfloat16(name):
    layer = used(name)
    wide = results(layer, name)
    layer = layer.to(flambeau.bfloat16)
    for each in layer.state_dict().values():
        assert each.dtype is (flambeau.bfloat16 if each.is_floating_point() else flambeau.int64)
    inputs = [
        each.to(flambeau.bfloat16) if each.is_floating_point() else each
        for each in EXAMPLES[name].inputs
    ]
    flambeau.manual_seed(2)
    for each, expected in zip(flat(layer(*inputs)), wide, strict=True):
        if each.is_floating_point():
            assert each.dtype is flambeau.bfloat16
            if name not in SAMPLED_IN_ITS_DTYPE:
                np.testing.assert_allclose(
                    each.detach().float().numpy(), expected.detach().numpy(), rtol=0.1, atol=0.1
                )
            assert each.float().isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_layer_on_meta_gives_shapes(name):
    layer = build(name, device="meta") if takes(name, "device") else build(name).to("meta")
    outputs = flat(layer(*[each.to("meta") for each in EXAMPLES[name].inputs]))
    for found, expected in zip(outputs, results(used(name), name), strict=True):
        assert found.is_meta
        assert found.shape == expected.shape
        assert found.dtype is expected.dtype
    for each in layer.state_dict().values():
        assert each.is_meta


@pytest.mark.parametrize("name", NAMES)
def test_compiled_layer_gives_the_eager_result(name):
    layer = used(name).train(name not in RANDOM)
    other = copy.deepcopy(layer)
    compiled = flambeau.compile(layer)
    for _ in range(2):
        found, expected = results(compiled, name), results(other, name)
        if name.startswith("Fractional"):
            assert [each.shape for each in found] == [each.shape for each in expected]
            continue
        assert_same(found, expected, 2e-6)
    assert_same(list(layer.buffers()), list(other.buffers()), 2e-6)
