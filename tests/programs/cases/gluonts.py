"""DeepAR on series: loss, samples; three estimators by their trainer, forecasts, their scores"""

import logging
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch

PACKAGE = "gluonts[torch]"


def build():
    from gluonts.torch.distributions import NormalOutput
    from gluonts.torch.model.deepar.module import DeepARModel

    model = DeepARModel(
        freq="D", context_length=6, prediction_length=3, num_feat_dynamic_real=2, cardinality=[2],
        hidden_size=8, dropout_rate=0.0, lags_seq=[1, 2, 4], distr_output=NormalOutput(),
        num_parallel_samples=5,
    )  # fmt: skip
    rng = np.random.default_rng(0)

    def drawn(*shape):
        return torch.from_numpy(rng.standard_normal(shape).astype("float32"))

    past = model._past_length
    inputs = (
        torch.tensor([[0], [1]]), drawn(2, 1), drawn(2, past, 2), drawn(2, past),
        torch.ones(2, past), drawn(2, 3, 2),
    )  # fmt: skip

    def loss(model, target, *inputs):
        return model.loss(*inputs, target, torch.ones(2, 3)).mean()

    return model, (drawn(2, 3), *inputs), loss


def more(model, inputs):
    torch.manual_seed(0)
    model.eval()
    with torch.no_grad():
        return {"samples": model(*inputs[1:])} | estimated()


def estimated():
    """What three estimators forecast of sines, and how well."""
    from gluonts.dataset.common import ListDataset
    from gluonts.evaluation import Evaluator, make_evaluation_predictions
    from gluonts.model.predictor import Predictor
    from gluonts.torch import DLinearEstimator, PatchTSTEstimator, SimpleFeedForwardEstimator
    from gluonts.torch.distributions import NormalOutput

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    times = np.arange(40)
    series = ListDataset(
        [{"start": "2024-01-01", "target": np.sin(times / 3 + phase) + 2} for phase in range(3)],
        freq="D",
    )
    found = {}
    for kind, options in {
        SimpleFeedForwardEstimator: {"hidden_dimensions": [8, 8]},
        DLinearEstimator: {"hidden_dimension": 8},
        PatchTSTEstimator: {"patch_len": 4, "d_model": 8, "nhead": 2, "dim_feedforward": 8},
    }.items():
        np.random.seed(0)  # noqa: NPY002 (windows are drawn by it)
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory() as folder:
            quiet = {"enable_progress_bar": False, "logger": False, "default_root_dir": folder}
            estimator = kind(
                prediction_length=4, context_length=8, distr_output=NormalOutput(), batch_size=4,
                num_batches_per_epoch=3, trainer_kwargs={"max_epochs": 2, **quiet}, **options,
            )  # fmt: skip
            with torch.enable_grad():
                predictor = estimator.train(series)
            (Path(folder) / "kept").mkdir()
            predictor.serialize(Path(folder) / "kept")
            predictor = Predictor.deserialize(Path(folder) / "kept")
        torch.manual_seed(0)
        forecasts, truths = make_evaluation_predictions(series, predictor, num_samples=20)
        forecasts = list(forecasts)
        name = kind.__name__
        found[name] = torch.from_numpy(np.stack([each.mean for each in forecasts]))
        scores, _ = Evaluator(num_workers=0)(truths, iter(forecasts))
        found[f"scores of {name}"] = torch.tensor([scores["MASE"], scores["mean_wQuantileLoss"]])
    return found
