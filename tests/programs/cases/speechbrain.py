"""ECAPA-TDNN tells speakers apart: loss; a CRDNN with its CTC loss and gradient, filter banks"""

import numpy as np
import torch

PACKAGE = "speechbrain"
REQUIRES = ["torchaudio"]


def features(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def build():
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN

    model = ECAPA_TDNN(
        20, channels=[16, 16, 16, 16, 48], kernel_sizes=[5, 3, 3, 3, 1], dilations=[1, 2, 3, 4, 1],
        attention_channels=8, res2net_scale=4, se_channels=8, lin_neurons=12,
    )  # fmt: skip

    def loss(model, frames, lengths, targets):
        return torch.nn.functional.cross_entropy(model(frames, lengths)[:, 0], targets)

    return (
        model,
        (features(0, 4, 30, 20), torch.tensor([1.0, 0.9, 0.8, 0.7]), torch.arange(4)),
        loss,
    )


def optimizer(model):
    # Not Adam: some gradients are zero but for rounding, and it would give each a whole step.
    return torch.optim.SGD(model.parameters(), lr=0.05)


def more(model, inputs):
    import driver
    from speechbrain.lobes.features import Fbank
    from speechbrain.lobes.models.CRDNN import CRDNN
    from speechbrain.nnet.losses import ctc_loss

    net = CRDNN(
        input_shape=[None, None, 20], cnn_blocks=1, cnn_channels=[4], rnn_layers=1, rnn_neurons=8,
        dnn_blocks=1, dnn_neurons=8, dropout=0.0,
    )  # fmt: skip
    driver.fill(net)
    frames = features(1, 2, 24, 20).requires_grad_()
    scores = net(frames)
    lengths = torch.ones(2)
    targets = torch.tensor([[1, 2, 3], [2, 5, 1]])
    cost = ctc_loss(scores.log_softmax(-1), targets, lengths, lengths, blank_index=0)
    cost.backward()
    with torch.no_grad():
        banks = Fbank(n_mels=20)(0.1 * features(2, 1, 4800))
    return {"scores": scores, "ctc": cost, "gradient": frames.grad, "banks": banks}
