"""Each family of layers gives the CPU's results and gradients, eager and compiled."""

import pytest

import flambeau
from flambeau import nn


def normal(*shape):
    return lambda: flambeau.randn(shape)


def integers(high, *shape):
    return lambda: flambeau.randint(high, shape)


def attention():
    layer = nn.MultiheadAttention(16, 4, batch_first=True)
    return Applied(layer, lambda x: layer(x, x, x)[0])


class Applied(nn.Module):
    """A module that is called in another way."""

    def __init__(self, module, call):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *args):
        return self.call(*args)


IMAGES, LINES, VOLUMES, ROWS = (
    normal(2, 4, 8, 8), normal(2, 4, 9), normal(2, 2, 4, 4, 4), normal(6, 16),
)  # fmt: skip
STEPS = normal(5, 3, 16)

LAYERS = {
    "Linear": (lambda: nn.Linear(16, 8), ROWS),
    "Bilinear": (lambda: nn.Bilinear(16, 16, 3), ROWS, ROWS),
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1), LINES),
    "Conv2d": (lambda: nn.Conv2d(4, 6, 3, padding=1), IMAGES),
    "Conv2d, strides": (lambda: nn.Conv2d(4, 6, 3, 2, 1, dilation=2), IMAGES),
    "Conv2d, groups": (lambda: nn.Conv2d(4, 8, 3, groups=2), IMAGES),
    "Conv2d, depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4), IMAGES),
    "Conv2d, reflected": (lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), IMAGES),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 3, padding=1), VOLUMES),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 3, 4, 2, 1), LINES),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 3, 4, 2, 1), IMAGES),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(2, 3, 2, 2), VOLUMES),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, 2, 1), IMAGES),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), VOLUMES),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), IMAGES),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), IMAGES),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(3), IMAGES),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d(3), IMAGES),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(16), ROWS),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), IMAGES),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True), IMAGES),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), IMAGES),
    "LayerNorm": (lambda: nn.LayerNorm(16), ROWS),
    "RMSNorm": (lambda: nn.RMSNorm(16), ROWS),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3), IMAGES),
    "ReLU": (nn.ReLU, ROWS),
    "GELU": (nn.GELU, ROWS),
    "SiLU": (nn.SiLU, ROWS),
    "Mish": (nn.Mish, ROWS),
    "PReLU": (nn.PReLU, ROWS),
    "GLU": (nn.GLU, ROWS),
    "Softmax": (lambda: nn.Softmax(-1), ROWS),
    "LogSoftmax": (lambda: nn.LogSoftmax(-1), ROWS),
    "Embedding": (lambda: nn.Embedding(20, 8), integers(20, 3, 5)),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(20, 8), integers(20, 3, 5)),
    "RNN": (lambda: nn.RNN(16, 8), STEPS),
    "LSTM": (lambda: nn.LSTM(16, 8, 2, bidirectional=True), STEPS),
    "GRU": (lambda: nn.GRU(16, 8), STEPS),
    "LSTMCell": (lambda: nn.LSTMCell(16, 8), ROWS),
    "MultiheadAttention": (attention, STEPS),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0), STEPS),
    "TransformerDecoderLayer": (
        lambda: nn.TransformerDecoderLayer(16, 4, 32, dropout=0.0), STEPS, STEPS,
    ),
    "CrossEntropyLoss": (nn.CrossEntropyLoss, ROWS, integers(16, 6)),
    "NLLLoss": (nn.NLLLoss, ROWS, integers(16, 6)),
    "MSELoss": (nn.MSELoss, ROWS, ROWS),
    "SmoothL1Loss": (nn.SmoothL1Loss, ROWS, ROWS),
    "BCEWithLogitsLoss": (nn.BCEWithLogitsLoss, ROWS, lambda: flambeau.rand(6, 16)),
    "TripletMarginLoss": (nn.TripletMarginLoss, ROWS, ROWS, ROWS),
    "CTCLoss": (
        lambda: Applied(nn.CTCLoss(), lambda x, y: nn.functional.ctc_loss(
            x.log_softmax(-1), y + 1, [5, 5, 5], [2, 2, 2]
        )),
        STEPS, integers(15, 3, 2),
    ),
    "Upsample nearest": (lambda: nn.Upsample(scale_factor=2), IMAGES),
    "Upsample bilinear": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGES),
    "Upsample bicubic": (lambda: nn.Upsample(size=(5, 11), mode="bicubic"), IMAGES),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), IMAGES),
    "Unfold": (lambda: nn.Unfold(3, padding=1), IMAGES),
    "Fold": (lambda: nn.Fold((4, 4), 2), normal(2, 16, 9)),
    "ReplicationPad2d": (lambda: nn.ReplicationPad2d(1), IMAGES),
    "CosineSimilarity": (nn.CosineSimilarity, ROWS, ROWS),
    "PairwiseDistance": (nn.PairwiseDistance, ROWS, ROWS),
    "Conv2d, weight norm": (
        lambda: nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 4, 3)), IMAGES,
    ),
    "Linear, spectral norm": (
        lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(16, 8)), ROWS,
    ),
}  # fmt: skip


def results(name, device, compiles):
    """The output and the gradients by inputs and parameters, on the CPU."""
    build, *inputs = LAYERS[name]
    flambeau.manual_seed(0)
    layer = build().to(device)
    inputs = [each().to(device) for each in inputs]
    leaves = [each.requires_grad_() for each in inputs if each.is_floating_point()]
    leaves += layer.parameters()

    def step():
        output = layer(*inputs)
        output = output[0] if isinstance(output, tuple) else output
        (output * output.detach().cos()).sum().backward()
        return output.detach()

    output = (flambeau.compile(step) if compiles else step)()
    assert output.device.type == flambeau.device(device).type
    assert all(each.grad.device == each.device for each in leaves)
    buffers = [each for each in layer.buffers() if each.is_floating_point()]
    return [each.to("cpu:0") for each in (output, *(leaf.grad for leaf in leaves), *buffers)]


@pytest.mark.parametrize("compiles", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_gives_the_cpus_numbers(accelerator, name, compiles):
    flambeau.testing.assert_close(
        results(name, accelerator, compiles), results(name, "cpu", False), rtol=2e-4, atol=2e-5
    )
