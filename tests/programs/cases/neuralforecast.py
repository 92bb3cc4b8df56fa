"""NHITS, LSTM, iTransformer and seven others fitted to series, forecasts, intervals, kept models"""

import logging
import os
import tempfile
import time
import warnings

import numpy as np
import torch

PACKAGE = "neuralforecast"


def series():
    import pandas as pd

    times = np.arange(48)
    return pd.concat(
        pd.DataFrame(
            {
                "unique_id": name,
                "ds": pd.date_range("2024-01-01", periods=48, freq="D"),
                "y": (np.sin(times / 3 + phase) + 0.02 * times).astype("float32"),
            }
        )
        for phase, name in enumerate("abc")
    )


def main():
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    os.environ["NIXTLA_ID_AS_COL"] = "1"
    import pytorch_lightning
    from neuralforecast import NeuralForecast, models
    from neuralforecast.losses.pytorch import DistributionLoss, HuberLoss, MQLoss

    class Clock(pytorch_lightning.Callback):
        # Of the class: callbacks are copied.
        losses, seconds = [], []

        def on_train_batch_start(self, *_):
            self.began = time.perf_counter()

        def on_train_batch_end(self, trainer, model, outputs, *_):
            self.losses.append(outputs["loss"].detach())
            self.seconds.append(time.perf_counter() - self.began)

    quiet = {
        "accelerator": "cpu", "logger": False, "enable_progress_bar": False,
        "enable_model_summary": False, "enable_checkpointing": False,
    }  # fmt: skip
    common = {
        "h": 4, "input_size": 12, "max_steps": 4, "batch_size": 2, "windows_batch_size": 8,
        "random_seed": 1, **quiet,
    }  # fmt: skip
    small = {"hidden_size": 8}
    chosen = [
        models.NHITS(**common, mlp_units=3 * [[8, 8]], callbacks=[Clock()]),
        models.NBEATS(**common, mlp_units=3 * [[8, 8]], loss=HuberLoss()),
        models.MLP(**common, **small, loss=MQLoss(level=[80])),
        models.DLinear(**common, scaler_type="standard"),
        models.LSTM(**common, encoder_hidden_size=8, decoder_hidden_size=8),
        models.TCN(**common, encoder_hidden_size=8, decoder_hidden_size=8),
        models.TFT(**common, **small, n_head=2, dropout=0.0, attn_dropout=0.0),
        models.PatchTST(**common, **small, n_heads=2, linear_hidden_size=8, dropout=0.0,
                        fc_dropout=0.0, attn_dropout=0.0, patch_len=4, encoder_layers=1),
        models.iTransformer(**common, n_series=3, **small, n_heads=2, d_ff=8, dropout=0.0),
        models.TiDE(**common, **small, decoder_output_dim=4, temporal_decoder_dim=8, dropout=0.0,
                    loss=DistributionLoss("Normal", level=[80], return_params=True)),
    ]  # fmt: skip
    data = series()
    forecaster = NeuralForecast(chosen, freq="D")
    forecaster.fit(data, val_size=4)
    forecasts = forecaster.predict()
    with tempfile.TemporaryDirectory() as folder:
        forecaster.save(folder, save_dataset=True, overwrite=True)
        loaded = NeuralForecast.load(folder).predict()
    checked = NeuralForecast([models.NLinear(**common)], freq="D").cross_validation(
        data, n_windows=2
    )
    columns = [each for each in forecasts if each not in ("unique_id", "ds")]
    found = {each: torch.from_numpy(forecasts[each].to_numpy("float32")) for each in columns}
    found["loaded"] = torch.from_numpy(loaded[columns].to_numpy("float32"))
    found["checked"] = torch.from_numpy(checked[["y", "NLinear"]].to_numpy("float32"))
    return found | {"losses": torch.stack(Clock.losses), "seconds": Clock.seconds}
