"""a network of 4-bit weights and activations: loss; other quantizers, layers, and their integers"""

import numpy as np
import torch

PACKAGE = "brevitas"


def build():
    from brevitas import nn, quant

    model = torch.nn.Sequential(
        nn.QuantIdentity(bit_width=8, return_quant_tensor=True),
        nn.QuantConv2d(
            1, 4, 3, weight_bit_width=4, bias_quant=quant.Int32Bias, return_quant_tensor=True
        ),
        nn.QuantReLU(bit_width=4, return_quant_tensor=True),
        torch.nn.Flatten(),
        nn.QuantLinear(64, 3, weight_quant=quant.Int8WeightPerChannelFloat, bias=True),
    )
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.random((4, 1, 6, 6)).astype("float32"))

    def loss(model, images, labels):
        return torch.nn.functional.cross_entropy(model(images), labels)

    return model, (images, torch.arange(4) % 3), loss


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)


def more(model, inputs):
    import driver
    from brevitas import nn, quant

    images, _ = inputs
    model.eval()
    found = {"logits": model(images)}
    conv = model[1]
    weight = conv.quant_weight()
    found["weight"], found["integers"] = weight.value, weight.int()
    found["scale"], found["bits"] = weight.scale, weight.bit_width
    rng = np.random.default_rng(1)
    values = torch.from_numpy(rng.standard_normal((4, 5, 6)).astype("float32"))
    for name in (
        "Int8WeightPerTensorFloat", "Int4WeightPerTensorFloatDecoupled",
        "Int8WeightPerTensorFixedPoint", "SignedBinaryWeightPerTensorConst",
        "SignedTernaryWeightPerTensorConst", "ShiftedUint8WeightPerTensorFloat",
        "Int8WeightPerTensorFloatMSE", "Int8WeightNormL2PerChannelFixedPoint",
    ):  # fmt: skip
        layer = nn.QuantLinear(6, 3, bias=False, weight_quant=getattr(quant, name))
        driver.fill(layer)
        out = layer(values)
        out.square().sum().backward()
        found[name] = out
        found[f"gradient by {name}"] = layer.weight.grad
    for name in (
        "Int8ActPerTensorFloat", "Uint8ActPerTensorFloat", "Int8ActPerTensorFixedPoint",
        "ShiftedUint8ActPerTensorFloat", "Int8ActPerTensorFloatMinMaxInit",
        "SignedBinaryActPerTensorConst",
    ):  # fmt: skip
        bounds = {"min_val": -2.0, "max_val": 2.0}
        layer = nn.QuantIdentity(act_quant=getattr(quant, name), **bounds)
        x = values.clone().requires_grad_()
        layer.train()
        for _ in range(3):
            out = layer(x)
        out.sum().backward()
        found[name], found[f"gradient by {name}"] = out, x.grad
    for layer in (
        nn.QuantLSTM(6, 4, batch_first=True), nn.QuantRNN(6, 4, batch_first=True),
        nn.QuantMultiheadAttention(6, 2, batch_first=True),
        nn.QuantConv1d(5, 3, 3, weight_bit_width=3), nn.QuantConvTranspose1d(5, 3, 3),
        nn.QuantTanh(), nn.QuantSigmoid(bit_width=6), nn.QuantHardTanh(min_val=-1.0, max_val=1.0),
    ):  # fmt: skip
        driver.fill(layer)
        name = type(layer).__name__
        out = layer(values, values, values) if "Attention" in name else layer(values)
        found[name] = out[0] if isinstance(out, tuple) else out
    embedding = nn.QuantEmbedding(9, 4, weight_bit_width=4)
    driver.fill(embedding)
    found["embedding"] = embedding(torch.tensor([[1, 2], [3, 8]]))
    first = nn.QuantIdentity(return_quant_tensor=True)
    second = nn.QuantReLU(return_quant_tensor=True)
    added = first(values) + first(values)
    found["added"], found["scale of sums"] = added.value, added.scale
    found["relu"] = second(first(values)).value
    return found
