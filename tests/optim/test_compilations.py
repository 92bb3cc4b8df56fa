"""Training compiles what it needs in its first steps, and nothing from then on."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.nn import functional as F
from flambeau.optim import lr_scheduler
from flambeau.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn

RANDOM = np.random.default_rng(0)
LABELS = np.array([0, 2, 1, 1])


def drawn():
    return flambeau.randn(4, 1, 4, 4), flambeau.tensor([0, 2, 1, 1])


def from_numpy():
    images = RANDOM.standard_normal((4, 1, 4, 4)).astype(np.float32)
    return flambeau.from_numpy(images), flambeau.from_numpy(LABELS)


def moved():
    """Batches that were put on a device by name."""
    images, labels = from_numpy()
    return images.to("cpu"), labels.to("cpu")


def from_jax():
    """Batches whose place JAX was told."""
    images, labels = from_numpy()
    device = jax.devices("cpu")[0]
    return tuple(flambeau.as_tensor(jax.device_put(x.numpy(), device)) for x in (images, labels))


def sgd(parameters):
    return optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def rate_in_a_tensor(parameters):
    return optim.Adam(parameters, lr=flambeau.tensor(0.1))


# Optimizer, scheduler, averaging function, batches.
COURSES = {
    "sgd": (sgd, lambda o: lr_scheduler.StepLR(o, 2), None, drawn),
    "adamw": (optim.AdamW, lambda o: lr_scheduler.OneCycleLR(o, 0.1, 20), None, from_numpy),
    "rate in a tensor": (
        rate_in_a_tensor, lambda o: lr_scheduler.CosineAnnealingLR(o, 9), None, moved,
    ),
    "averaged": (sgd, lambda o: SWALR(o, 0.05, 9), get_ema_multi_avg_fn(0.9), from_jax),
}  # fmt: skip


class Training:
    """A model of the usual layers, and what trains it."""

    def __init__(self, name, compiled):
        make, schedule, average, self.batch = COURSES[name]
        self.net = nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(),
            nn.Linear(8, 3),
        )  # fmt: skip
        self.optimizer = make(self.net.parameters())
        self.scheduler = schedule(self.optimizer)
        self.average = average and AveragedModel(self.net, multi_avg_fn=average)
        self.step = flambeau.compile(self.one_step) if compiled else self.one_step
        self.predict = flambeau.compile(self.net) if compiled else self.net

    def one_step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def train(self):
        self.net.train()
        loss = self.step(*self.batch())
        if self.average:
            self.average.update_parameters(self.net)
        self.scheduler.step()
        return loss.item()

    def evaluate(self):
        self.net.eval()
        with flambeau.no_grad():
            x, y = self.batch()
            return (self.predict(x).argmax(1) == y).sum().item()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", COURSES)
def test_nothing_is_compiled_after_the_second_step(name, compiled, compilations):
    training = Training(name, compiled)
    for _ in range(2):
        training.train()
        training.evaluate()
    rates = set()
    compilations.reset()
    for _ in range(4):
        training.train()
        rates.add(float(training.optimizer.param_groups[0]["lr"]))
        training.evaluate()
    assert (compilations.count, compilations.traced) == (0, 0)
    assert len(rates) > 1
    # What would have been counted.
    jax.jit(lambda x: x * 2)(1.0)
    assert compilations.count == compilations.traced == 1


def test_a_change_of_rate_by_hand_compiles_nothing(compilations):
    training = Training("sgd", compiled=False)
    training.train()
    training.train()
    compilations.reset()
    training.optimizer.param_groups[0]["lr"] = 0.031
    training.optimizer.param_groups[0]["momentum"] = 0.7
    training.train()
    assert (compilations.count, compilations.traced) == (0, 0)


def test_a_state_loaded_again_compiles_nothing(compilations):
    training = Training("adamw", compiled=False)
    training.train()
    states = training.net.state_dict(), training.optimizer.state_dict()
    # What is loaded is shared with the dictionaries, so the next step copies it first, which is a
    # program for each shape.
    for _ in range(2):
        compilations.reset()
        training.net.load_state_dict(states[0])
        training.optimizer.load_state_dict(states[1])
        training.train()
    assert (compilations.count, compilations.traced) == (0, 0)
