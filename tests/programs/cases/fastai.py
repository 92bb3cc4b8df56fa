"""a `Learner` by one-cycle: losses, rates, metrics; saved weights, predictions, four optimizers"""

import tempfile
import time

import numpy as np
import torch

PACKAGE = "fastai"


def batches(count, seed):
    from fastai.data.load import DataLoader

    rng = np.random.default_rng(seed)
    values = torch.from_numpy(rng.standard_normal((count, 6)).astype("float32"))
    pairs = list(zip(values, values[:, :3].argmax(1), strict=True))
    return DataLoader(pairs, bs=8, shuffle=False, num_workers=0)


def made(folder, compiled=False, **more):
    import driver
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    from fastai.losses import CrossEntropyLossFlat
    from fastai.metrics import accuracy

    net = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
    )
    driver.fill(net)
    if compiled:
        net = torch.compile(net)
    loaders = DataLoaders(batches(32, 0), batches(16, 1), device=torch.device("cpu"))
    loss = CrossEntropyLossFlat()
    return Learner(loaders, net, loss_func=loss, metrics=accuracy, path=folder, **more)


def main():
    from fastai.callback.core import Callback
    from fastai.callback.schedule import SchedCos  # noqa: F401 (patches `Learner`)
    from fastai.callback.training import GradientAccumulation, GradientClip
    from fastai.layers import PoolFlatten, SigmoidRange
    from fastai.losses import LabelSmoothingCrossEntropy
    from fastai.optimizer import SGD, RMSProp, ranger

    class Clock(Callback):
        def before_batch(self):
            self.began = time.perf_counter()

        def after_batch(self):
            if self.training:
                seconds.append(time.perf_counter() - self.began)

    seconds, found = [], {}
    with tempfile.TemporaryDirectory() as folder:
        learner = made(folder, cbs=[Clock()])
        with learner.no_bar(), learner.no_logging():
            learner.fit_one_cycle(3, 1e-2)
            found["losses"] = torch.stack(
                [torch.as_tensor(each) for each in learner.recorder.losses]
            )
            found["recorded"] = torch.tensor([list(row) for row in learner.recorder.values])
            found["rates"] = torch.tensor(learner.recorder.hps["lr"])
            learner.save("first")
            found["predicted"], found["targets"] = learner.get_preds()
            other = made(folder).load("first")
            with other.no_bar(), other.no_logging():
                found["loaded"] = other.get_preds()[0]
                other.fit(1, 1e-3)
                found["goes on"] = torch.stack(
                    [torch.as_tensor(each) for each in other.recorder.losses]
                )
            found["seconds"] = list(seconds)
            seconds.clear()
            compiled = made(folder, compiled=True, cbs=[Clock()])
            with compiled.no_bar(), compiled.no_logging():
                compiled.fit_one_cycle(3, 1e-2)
            found["compiled seconds"] = seconds
            found["compiled losses"] = torch.stack(
                [torch.as_tensor(each) for each in compiled.recorder.losses]
            )
        for name, optimizer in {"SGD": SGD, "RMSProp": RMSProp, "ranger": ranger}.items():
            one = made(
                folder, opt_func=optimizer, cbs=[GradientClip(0.5), GradientAccumulation(16)]
            )
            with one.no_bar(), one.no_logging():
                one.fit(1, 1e-2)
            found[name] = torch.stack([torch.as_tensor(each) for each in one.recorder.losses])
    images = torch.linspace(-1, 1, 32).reshape(2, 4, 2, 2)
    found["pooled"] = PoolFlatten()(images)
    found["in a range"] = SigmoidRange(0, 5)(images)
    found["smoothed"] = LabelSmoothingCrossEntropy()(images[:, :, 0, 0], torch.tensor([1, 3]))
    return found
