"""The models that train on many devices as on one, with the styles that divide their layers."""

import numpy as np

import flambeau
from flambeau import nn
from flambeau.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from flambeau.nn import functional as F


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        # A bias of keys has no gradient but rounding, which AdamW would make large.
        self.qkv = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(3))
        self.out = nn.Linear(16, 16)
        self.mlp_norm, self.dropout = nn.LayerNorm(16), nn.Dropout(0.2)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        y = self.norm(x)
        q, k, v = (each(y).unflatten(-1, (4, 4)).transpose(1, 2) for each in self.qkv)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.dropout(self.down(F.gelu(self.up(self.mlp_norm(x)))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(16, 16), nn.Embedding(4, 16)
        self.blocks = nn.ModuleList([Block()])
        self.head = nn.Linear(16, 8)

    def forward(self, x):
        x = self.tokens(x) + self.positions(flambeau.arange(4))
        for block in self.blocks:
            x = block(x)
        return self.head(x).mean(1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 8)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Experts(nn.Module):
    """A mixture of eight experts: each token goes through the two that its router prefers."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, 8, bias=False)
        self.up = nn.Parameter(flambeau.randn(8, 8, 16) / 4)
        self.down = nn.Parameter(flambeau.randn(8, 16, 8) / 4)

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        shares = flambeau.zeros(len(x), 8).scatter(1, chosen, weights)
        hidden = F.gelu(flambeau.einsum("bi,eih->ebh", x, self.up))
        return flambeau.einsum("ebh,eho,be->bo", hidden, self.down, shares)


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 8),
    )


def numbers(*shape):
    return np.sin(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


MODELS = {
    "perceptron": (Perceptron, lambda: numbers(16, 8)),
    "convolutional": (convolutional, lambda: numbers(16, 3, 6, 6)),
    "transformer": (Transformer, lambda: np.arange(64).reshape(16, 4) * 7 % 16),
    "recurrent": (Recurrent, lambda: numbers(16, 4, 8)),
    "experts": (Experts, lambda: numbers(16, 8)),
}
STYLES = {
    "*up": ColwiseParallel(), "*down": RowwiseParallel(), "*.qkv.*": ColwiseParallel(),
    "*.out": RowwiseParallel(),
}  # fmt: skip
