"""message passing along bonds of molecules: loss; other layers and losses, a `Trainer`, a file"""

import logging
import tempfile
import warnings

import numpy as np
import torch

PACKAGE = "chemprop"
MOLECULES = ["CCO", "c1ccccc1O", "CC(=O)N", "C1CCNCC1", "CC(C)C#N", "O=S(=O)(C)c1ccncc1"]


def points(columns=1, classes=0):
    from chemprop.data import MoleculeDatapoint

    rng = np.random.default_rng(0)
    values = rng.standard_normal((len(MOLECULES), columns))
    if classes:
        values = rng.integers(0, classes, (len(MOLECULES), columns)).astype("float64")
    return [
        MoleculeDatapoint.from_smi(name, row) for name, row in zip(MOLECULES, values, strict=True)
    ]


def a_batch(columns=1, classes=0):
    from chemprop.data import MoleculeDataset, collate_batch

    dataset = MoleculeDataset(points(columns, classes))
    return collate_batch([dataset[each] for each in range(len(dataset))])


def made(passing="BondMessagePassing", aggregation="MeanAggregation", head="RegressionFFN", **more):
    from chemprop import nn
    from chemprop.models import MPNN

    layers = getattr(nn, passing)(d_h=12, depth=3)
    size = {"output_size": 12} if aggregation == "AttentiveAggregation" else {}
    ending = getattr(nn, head)(input_dim=12, hidden_dim=8, **more)
    return MPNN(layers, getattr(nn, aggregation)(**size), ending, batch_norm=False)


def build():
    graph, _, _, targets, *_ = a_batch()

    def loss(model, *inputs):
        graph.V, graph.E, targets = inputs
        return torch.nn.functional.mse_loss(model(graph), targets)

    return made(), (graph.V, graph.E, targets.float()), loss


def more(model, inputs):
    import driver
    import lightning.pytorch
    from chemprop import nn
    from chemprop.data import MoleculeDataset, build_dataloader
    from chemprop.models import MPNN, load_model, save_model

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    # About workers, devices and where checkpoints go.
    warnings.simplefilter("ignore")
    graph, *_ = a_batch()
    found = {"features": graph.V, "edges": graph.E, "fingerprints": model.fingerprint(graph)}
    for passing, aggregation, head, options, classes in (
        ("AtomMessagePassing", "SumAggregation", "MveFFN", {}, 0),
        ("BondMessagePassing", "NormAggregation", "EvidentialFFN", {}, 0),
        ("BondMessagePassing", "AttentiveAggregation", "QuantileFFN", {}, 0),
        ("AtomMessagePassing", "MeanAggregation", "BinaryClassificationFFN", {}, 2),
        ("BondMessagePassing", "MeanAggregation", "MulticlassClassificationFFN",
         {"n_classes": 3}, 3),
        ("BondMessagePassing", "MeanAggregation", "BinaryDirichletFFN", {}, 2),
    ):  # fmt: skip
        other = made(passing, aggregation, head, n_tasks=2, **options)
        driver.fill(other)
        value = other.training_step(a_batch(2, classes), 0)
        value.backward()
        found[head] = torch.stack([value, *(each.grad.norm() for each in other.parameters())])
        found[f"said by {head}"] = other.eval()(graph)
    rng = np.random.default_rng(1)
    said, aims = (torch.from_numpy(rng.random((6, 2))).float() for _ in range(2))
    ones = torch.ones(6, 2), torch.ones(6, 1), torch.ones(2)
    none = torch.zeros(6, 2, dtype=torch.bool)
    mask = torch.ones(6, 2, dtype=torch.bool)
    for name in ("MSE", "MAE", "RMSE", "R2Score", "BoundedMSE", "SID", "Wasserstein"):
        metric = getattr(nn.metrics, name)()
        metric.update(said, aims, mask, ones[1], none, none)
        found[name] = metric.compute()

    # Without a norm, before which the gradient of a bias is rounding, of which Adam makes steps.
    train = MoleculeDataset(points())
    scaler = train.normalize_targets()
    found["scale"] = torch.tensor([scaler.mean_[0], scaler.scale_[0]])
    unscale = nn.UnscaleTransform.from_standard_scaler(scaler)
    fitted = MPNN(
        nn.BondMessagePassing(d_h=12), nn.MeanAggregation(),
        nn.RegressionFFN(input_dim=12, hidden_dim=8, output_transform=unscale),
        batch_norm=False, metrics=[nn.metrics.RMSE(), nn.metrics.MAE()], warmup_epochs=1,
        max_lr=1e-2,
    )  # fmt: skip
    driver.fill(fitted)
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.pytorch.Trainer(
            accelerator="cpu", max_epochs=3, enable_progress_bar=False, logger=False,
            enable_model_summary=False, default_root_dir=folder, enable_checkpointing=False,
        )  # fmt: skip
        loader = build_dataloader(train, batch_size=3, shuffle=False)
        trainer.fit(fitted, loader, loader)
        found["validation loss"] = trainer.callback_metrics["val_loss"]
        found["training loss"] = trainer.callback_metrics["train_loss"]
        found["predictions"] = torch.cat(trainer.predict(fitted, loader))
        save_model(f"{folder}/model.pt", fitted)
        loaded = load_model(f"{folder}/model.pt", multicomponent=False)
        found["loaded"] = torch.cat(trainer.predict(loaded, loader))
    return found
