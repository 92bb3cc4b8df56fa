"""a trainer with a schedule, averages, saved checkpoints and evaluation; 16 metrics; rates"""

import logging
import tempfile
import time
import warnings

import numpy as np
import torch

PACKAGE = "pytorch-ignite"


def data():
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal((24, 6)).astype("float32"))
    dataset = torch.utils.data.TensorDataset(values, values[:, :3].argmax(1))
    return torch.utils.data.DataLoader(dataset, batch_size=6)


def a_model():
    import driver

    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    driver.fill(model)
    return model


def trained(folder, compiled):
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.handlers import (
        Checkpoint,
        CosineAnnealingScheduler,
        DiskSaver,
        EarlyStopping,
        EMAHandler,
        PiecewiseLinear,
        TerminateOnNan,
        create_lr_scheduler_with_warmup,
    )
    from ignite.metrics import Accuracy, Loss, RunningAverage

    model = a_model()
    run = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    loss = torch.nn.CrossEntropyLoss()
    trainer = create_supervised_trainer(
        run, optimizer, loss, deterministic=True, gradient_accumulation_steps=2
    )
    evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy(), "loss": Loss(loss)})
    RunningAverage(output_transform=float, alpha=0.9).attach(trainer, "average")
    schedule = create_lr_scheduler_with_warmup(
        CosineAnnealingScheduler(optimizer, "lr", 0.05, 0.001, 12),
        warmup_start_value=0.0, warmup_duration=4,
    )  # fmt: skip
    decay = PiecewiseLinear(optimizer, "weight_decay", [(0, 0.1), (10, 0.0)])
    trainer.add_event_handler(Events.ITERATION_STARTED, schedule)
    trainer.add_event_handler(Events.ITERATION_STARTED, decay)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
    averages = EMAHandler(model, momentum=0.1)
    averages.attach(trainer, event=Events.ITERATION_COMPLETED)
    found = {"losses": [], "rates": [], "averages": [], "scores": [], "seconds": []}

    @trainer.on(Events.ITERATION_STARTED)
    def begin(engine):
        engine.state.began = time.perf_counter()

    @trainer.on(Events.ITERATION_COMPLETED)
    def note(engine):
        found["losses"].append(float(engine.state.output))
        found["seconds"].append(time.perf_counter() - engine.state.began)
        found["rates"].append(optimizer.param_groups[0]["lr"])
        found["averages"].append(engine.state.metrics["average"])

    @trainer.on(Events.EPOCH_COMPLETED(every=1))
    def evaluate(engine):
        metrics = evaluator.run(data()).metrics
        found["scores"].append([metrics["accuracy"], metrics["loss"]])

    kept = {"model": model, "optimizer": optimizer, "trainer": trainer, "schedule": schedule}
    saver = Checkpoint(
        kept, DiskSaver(folder, require_empty=False), n_saved=2,
        score_function=Checkpoint.get_default_score_fn("loss", -1.0), score_name="loss",
    )  # fmt: skip
    evaluator.add_event_handler(
        Events.COMPLETED, EarlyStopping(3, lambda engine: -engine.state.metrics["loss"], trainer)
    )
    trainer.add_event_handler(Events.EPOCH_COMPLETED, Checkpoint(kept, DiskSaver(folder)))
    evaluator.add_event_handler(Events.COMPLETED, saver)
    trainer.run(data(), max_epochs=3)
    found["ema"] = torch.cat([each.flatten() for each in averages.ema_model.parameters()])
    return model, found, kept, saver


def main():
    from ignite import metrics
    from ignite.engine import create_supervised_trainer
    from ignite.handlers import FastaiLRFinder

    logging.disable(logging.WARNING)
    # About names of files, and sums of gradients.
    warnings.simplefilter("ignore")
    result = {}
    for kind in ("", "compiled "):
        with tempfile.TemporaryDirectory() as folder:
            model, found, kept, saver = trained(folder, bool(kind))
            before = model(data().dataset.tensors[0])
            result |= {
                f"{kind}{name}": each if name == "seconds" else torch.as_tensor(each)
                for name, each in found.items()
            }
            if not kind:
                with torch.no_grad():
                    for each in model.parameters():
                        each.zero_()
                saver.load_objects(kept, torch.load(saver.last_checkpoint, weights_only=False))
                result["before"] = before
                result["after"] = model(data().dataset.tensors[0])
                result["steps"] = torch.tensor(kept["trainer"].state.iteration)
    yield result

    model = a_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = create_supervised_trainer(model, optimizer, torch.nn.CrossEntropyLoss())
    finder = FastaiLRFinder()
    with finder.attach(
        trainer, to_save={"model": model, "optimizer": optimizer}, num_iter=8, end_lr=1.0
    ) as finding:
        finding.run(data(), max_epochs=2)
    result["searched"] = torch.tensor(finder.get_results()["loss"])

    rng = np.random.default_rng(1)
    chances = torch.from_numpy(rng.random((4, 6, 3)).astype("float32"))
    labels = torch.from_numpy(rng.integers(0, 3, (4, 6)))
    numbers = torch.from_numpy(rng.standard_normal((4, 6)).astype("float32"))
    images = torch.from_numpy(rng.random((4, 2, 3, 16, 16)).astype("float32"))

    def scored(metric, batches):
        for each in batches:
            metric.update(each)
        return torch.as_tensor(metric.compute())

    for name, metric in {
        "accuracy": metrics.Accuracy(), "top 2": metrics.TopKCategoricalAccuracy(2),
        "precision": metrics.Precision(average=False), "recall": metrics.Recall(average="macro"),
        "matrix": metrics.ConfusionMatrix(3),
        "entropy": metrics.Entropy(),
        "mutual": metrics.MutualInformation(),
    }.items():  # fmt: skip
        result[name] = scored(metric, zip(chances, labels, strict=True))
    for name, metric in {
        "MAE": metrics.MeanAbsoluteError(), "MSE": metrics.MeanSquaredError(),
        "RMSE": metrics.RootMeanSquaredError(), "R2": metrics.regression.R2Score(),
        "distance": metrics.MeanPairwiseDistance(),
        "correlation": metrics.regression.PearsonCorrelation(),
        "Canberra": metrics.regression.CanberraMetric(),
    }.items():  # fmt: skip
        pairs = zip(numbers, numbers.flip(1) * 0.5, strict=True)
        if name == "distance":
            pairs = ((one[None], two[None]) for one, two in pairs)
        result[name] = scored(metric, pairs)
    pairs = [(each, each.flip(-1)) for each in images]
    result["SSIM"] = scored(metrics.SSIM(data_range=1.0), pairs)
    result["PSNR"] = scored(metrics.PSNR(data_range=1.0), pairs)
    result["BLEU"] = scored(
        metrics.Bleu(ngram=2), [([["a", "b", "c", "d"]], [[["a", "b", "d", "d"], ["a", "c"]]])]
    )
    yield result
