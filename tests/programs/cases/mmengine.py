"""a `Runner`: hooks, a schedule, clipping, validation, checkpoints; wrapped optimizers, averages"""

import functools
import logging
import tempfile
import time
import warnings

import numpy as np
import torch

PACKAGE = "mmengine"


def parts():
    """The classes of the program, which registries know by name."""
    from mmengine.evaluator import BaseMetric
    from mmengine.hooks import Hook
    from mmengine.model import BaseModel

    class Net(BaseModel):
        def __init__(self, hidden=8):
            super().__init__()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(6, hidden, bias=False), torch.nn.BatchNorm1d(hidden),
                torch.nn.ReLU(), torch.nn.Linear(hidden, 3),
            )  # fmt: skip

        def forward(self, values, labels, mode="tensor"):
            outputs = self.net(values)
            if mode == "loss":
                return {"loss": torch.nn.functional.cross_entropy(outputs, labels)}
            return (outputs, labels) if mode == "predict" else outputs

    class Accuracy(BaseMetric):
        def process(self, data_batch, data_samples):
            outputs, labels = data_samples
            self.results.append((int((outputs.argmax(1) == labels).sum()), len(labels)))

        def compute_metrics(self, results):
            right, of = zip(*results, strict=True)
            return {"accuracy": sum(right) / sum(of)}

    class Notes(Hook):
        def __init__(self):
            self.losses, self.seconds, self.rates = [], [], []

        def before_train_iter(self, runner, batch_idx, data_batch=None):
            self.began = time.perf_counter()

        def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
            self.losses.append(float(outputs["loss"]))
            self.seconds.append(time.perf_counter() - self.began)
            self.rates.append(runner.optim_wrapper.get_lr()["lr"][0])

    return Net, Accuracy, Notes


def data():
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal((24, 6)).astype("float32"))
    return torch.utils.data.TensorDataset(values, values[:, :3].argmax(1))


def trained(folder, epochs=3, net=None, **more):
    import driver
    from mmengine.runner import Runner

    Net, Accuracy, Notes = parts()
    notes = Notes()
    model = net or Net()
    if net is None:
        driver.fill(model)
    loader = {
        "batch_size": 6, "sampler": {"type": "DefaultSampler", "shuffle": False},
        "dataset": data(), "collate_fn": {"type": "default_collate"},
    }  # fmt: skip
    optimizer = {"type": "AdamW", "lr": 0.02, "weight_decay": 0.01}
    given = {
        "optim_wrapper": {"optimizer": optimizer, "clip_grad": {"max_norm": 1.0}},
        "param_scheduler": [
            {"type": "LinearLR", "start_factor": 0.1, "by_epoch": False, "end": 4},
            {"type": "CosineAnnealingLR", "T_max": epochs, "by_epoch": True},
        ],
        "default_hooks": {"checkpoint": {"type": "CheckpointHook", "save_best": "accuracy"}},
    }
    runner = Runner(
        model=model, work_dir=folder, train_dataloader=loader, val_dataloader=loader,
        train_cfg={"by_epoch": True, "max_epochs": epochs, "val_interval": 1}, val_cfg={},
        val_evaluator=[Accuracy()], custom_hooks=[notes], log_level="ERROR",
        randomness={"seed": 0}, experiment_name=f"run-{time.time_ns()}", **(given | more),
    )  # fmt: skip
    runner.train()
    return runner, notes


def main():
    import driver
    from mmengine.model import (
        ExponentialMovingAverage,
        StochasticWeightAverage,
        initialize,
        revert_sync_batchnorm,
    )
    from mmengine.optim import OptimWrapper, build_optim_wrapper
    from mmengine.structures import InstanceData

    # Checkpoints have objects of mmengine's.
    torch.load = functools.partial(torch.load, weights_only=False)
    logging.disable(logging.WARNING)
    # About folders, and sums of gradients.
    warnings.simplefilter("ignore")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        runner, notes = trained(folder)
        found["losses"], found["rates"] = torch.tensor(notes.losses), torch.tensor(notes.rates)
        found["seconds"] = notes.seconds
        found["accuracy"] = torch.tensor(runner.val_loop.run()["accuracy"])
        values = data().tensors[0]
        found["before"] = runner.model.eval()(values, None)
        _, again = trained(folder, 5, load_from=f"{folder}/epoch_3.pth", resume=True)
        found["resumed losses"] = torch.tensor(again.losses)
    with tempfile.TemporaryDirectory() as folder:
        _, notes = trained(folder, cfg={"compile": True})
        found["compiled losses"], found["compiled seconds"] = (
            torch.tensor(notes.losses), notes.seconds,
        )  # fmt: skip
    yield found

    for name, more in {
        "accumulated": {"accumulative_counts": 2},
        "by value": {"clip_grad": {"type": "value", "clip_value": 0.05}},
        "by layer": {"paramwise_cfg": {"norm_decay_mult": 0.0, "bias_lr_mult": 2.0}},
    }.items():
        with tempfile.TemporaryDirectory() as folder:
            wrapper = {"type": "OptimWrapper"} | more
            wrapper["optimizer"] = {"type": "SGD", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}
            _, notes = trained(folder, 1, optim_wrapper=wrapper)
            found[name] = torch.tensor(notes.losses)
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3, bias=False), torch.nn.BatchNorm2d(3))
    driver.fill(net)
    averages = [
        ExponentialMovingAverage(net, momentum=0.1),
        StochasticWeightAverage(net, interval=1),
    ]
    wrapper = build_optim_wrapper(
        net, {"optimizer": {"type": "Adam", "lr": 0.01}, "type": "OptimWrapper"}
    )
    assert isinstance(wrapper, OptimWrapper)
    images = torch.from_numpy(np.random.default_rng(3).standard_normal((2, 2, 5, 5))).float()
    aims = torch.linspace(-1, 1, 54).reshape(2, 3, 3, 3)
    for _ in range(3):
        wrapper.update_params((net(images) - aims).square().mean())
        for each in averages:
            each.update_parameters(net)
    for each in averages:
        found[type(each).__name__] = torch.cat([v.flatten() for v in each.module.parameters()])
    initialize(net, {"type": "Constant", "layer": "Conv2d", "val": 0.5})
    found["initialized"] = net(images)
    found["reverted"] = revert_sync_batchnorm(torch.nn.Sequential(torch.nn.SyncBatchNorm(2)))(
        images
    )
    objects = InstanceData(boxes=torch.arange(12.0).reshape(3, 4), labels=torch.tensor([2, 0, 1]))
    found["boxes"] = objects[objects.labels > 0].boxes
    found["joined"] = InstanceData.cat([objects, objects[:1]]).labels
    yield found
