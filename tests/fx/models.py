"""A model that tests of `flambeau.fx` trace."""

import flambeau
from flambeau import fx, nn
from flambeau.nn import functional as F


@fx.wrap
def doubled_if_positive(x):
    return flambeau.where(x.sum() > 0, x * 2, x)


def checked(x):
    # In a file whose assertions pytest leaves as they are.
    assert x.sum() > 0
    return x + 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.weight = nn.Parameter(flambeau.ones(4))
        self.register_buffer("mean", flambeau.zeros(4))

    def forward(self, x):
        y = self.block(self.linear(x)) * self.weight - self.mean
        return F.softmax(doubled_if_positive(y), dim=-1)
