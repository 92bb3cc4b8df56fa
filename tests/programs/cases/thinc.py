"""a network as a layer of thinc, thinc's optimizer: losses, bytes, averages, texts"""

import time

import numpy as np
import torch

PACKAGE = "thinc"


def trained(compiled):
    """A chain of layers of both libraries, with losses and seconds of six steps."""
    import driver
    from thinc import api

    api.fix_random_seed(0)
    inner = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 8))
    driver.fill(inner)
    if compiled:
        inner.compile()
    model = api.chain(api.Linear(6), api.PyTorchWrapper_v2(inner), api.LayerNorm(), api.Softmax())
    rng = np.random.default_rng(0)
    values = rng.standard_normal((16, 5)).astype("float32")
    labels = np.eye(3, dtype="float32")[values[:, :3].argmax(1)]
    model.initialize(values, labels)
    optimizer = api.Adam(0.01, L2=1e-4, grad_clip=1.0, use_averages=True)
    measured = api.CategoricalCrossentropy(normalize=True)
    losses, seconds = [], []
    for _ in range(6):
        began = time.perf_counter()
        guesses, backprop = model.begin_update(values)
        gradients, loss = measured(guesses, labels)
        found = backprop(gradients)
        # It writes into the arrays that `numpy()` gives of weights and gradients.
        model.finish_update(optimizer)
        losses.append(float(loss))
        seconds.append(time.perf_counter() - began)
    return model, optimizer, values, torch.tensor(losses), seconds, found


def main():
    import driver
    from thinc import api

    model, optimizer, values, losses, seconds, gradient = trained(False)
    found = {
        "losses": losses, "seconds": seconds, "gradient": gradient,
        "guesses": model.predict(values),
    }  # fmt: skip
    other = trained(False)[0]
    other.from_bytes(model.to_bytes())
    found["loaded"] = other.predict(values)
    with model.use_params(optimizer.averages):
        found["averaged"] = model.predict(values)
    found["not averaged"] = model.predict(values)
    found["copied"] = model.copy().predict(values)
    *_, compiled_losses, compiled_seconds, _ = trained(True)
    found |= {"compiled losses": compiled_losses, "compiled seconds": compiled_seconds}
    recurrent = torch.nn.LSTM(4, 5, batch_first=False)
    driver.fill(recurrent)
    texts = api.with_padded(api.PyTorchRNNWrapper(recurrent))
    rng = np.random.default_rng(1)
    given = [rng.standard_normal((length, 4)).astype("float32") for length in (3, 1, 4)]
    texts.initialize(X=given)
    states, backprop = texts(given, is_train=True)
    found["states"] = np.concatenate(states)
    found["gradients of texts"] = np.concatenate(backprop(states))
    found["gradients of weights"] = recurrent.weight_ih_l0.grad.norm()
    return found
