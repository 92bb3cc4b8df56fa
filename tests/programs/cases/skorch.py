"""a classifier fitted as scikit-learn's are, without shuffling; its probabilities and history"""

import time

import numpy as np
import torch

PACKAGE = "skorch"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        import driver

        self.layers = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
        )
        driver.fill(self)

    def forward(self, values):
        return torch.softmax(self.layers(values), -1)


def main():
    from sklearn.model_selection import cross_val_score
    from skorch import NeuralNetClassifier
    from skorch.callbacks import Callback, EpochScoring, GradientNormClipping

    seconds = []

    class Clock(Callback):
        # skorch takes attributes without an underscore at their end for arguments.
        def on_batch_begin(self, net, training=False, **more):
            self.began_ = time.perf_counter()

        def on_batch_end(self, net, training=False, **more):
            if training:
                seconds.append(time.perf_counter() - self.began_)

    rng = np.random.default_rng(0)
    values = rng.standard_normal((30, 6)).astype("float32")
    labels = values[:, :3].argmax(1).astype("int64")

    def fitted(**more):
        net = NeuralNetClassifier(
            Net, max_epochs=6, lr=0.3, batch_size=10, verbose=0, iterator_train__shuffle=False,
            callbacks=[
                EpochScoring("accuracy", name="known", on_train=True), GradientNormClipping(1.0),
                Clock(),
            ], **more,
        )  # fmt: skip
        taken = len(seconds)
        net.fit(values, labels)
        return net, seconds[taken:]

    net, eager_seconds = fitted()
    compiled, compiled_seconds = fitted(compile=True)
    return {
        "probabilities": torch.as_tensor(net.predict_proba(values)),
        "losses": torch.tensor(net.history[:, "train_loss"]),
        "known": torch.tensor(net.history[:, "known"]),
        "seconds": eager_seconds,
        "compiled losses": torch.tensor(compiled.history[:, "train_loss"]),
        "compiled seconds": compiled_seconds,
        "scores": torch.as_tensor(cross_val_score(net, values, labels, cv=2)),
    }
