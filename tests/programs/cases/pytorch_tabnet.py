"""a classifier and a regressor fitted, masks that explain, a saved model; pretraining, 3 tasks"""

import tempfile
import time

import numpy as np
import torch

PACKAGE = "pytorch-tabnet"
# Which it imports and does not ask for.
REQUIRES = ["pandas"]


def table(rows=32):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((rows, 5)).astype("float32")
    values[:, 4] = rng.integers(0, 3, rows)
    return values, (values[:, 0] + values[:, 1] > 0).astype(int)


def main():
    import driver
    from pytorch_tabnet import tab_network
    from pytorch_tabnet.callbacks import Callback
    from pytorch_tabnet.metrics import Metric
    from pytorch_tabnet.multitask import TabNetMultiTaskClassifier
    from pytorch_tabnet.pretraining import TabNetPretrainer
    from pytorch_tabnet.tab_model import TabNetClassifier, TabNetRegressor

    class Sure(Metric):
        _name, _maximize = "sure", True

        def __call__(self, truth, scores):
            return float(scores.max(1).mean())

    class Clock(Callback):
        def __init__(self, compiled):
            self.compiled, self.losses, self.seconds = compiled, [], []

        def on_train_begin(self, logs=None):
            driver.fill(self.trainer.network)
            if self.compiled:
                self.trainer.network = torch.compile(self.trainer.network)

        def on_batch_begin(self, batch, logs=None):
            self.began = time.perf_counter()

        def on_batch_end(self, batch, logs=None):
            self.losses.append(float(logs["loss"]))
            self.seconds.append(time.perf_counter() - self.began)

    values, labels = table()
    small = {"n_d": 4, "n_a": 4, "n_steps": 2, "verbose": 0, "device_name": "cpu"}
    small["optimizer_params"] = {"lr": 1e-3}
    columns = {"cat_idxs": [4], "cat_dims": [3], "cat_emb_dim": 2}
    epochs = {"max_epochs": 3, "batch_size": 16, "virtual_batch_size": 16, "drop_last": False}

    def classifier(compiled):
        clock = Clock(compiled)
        model = TabNetClassifier(
            **small, **columns, mask_type="entmax",
            scheduler_fn=torch.optim.lr_scheduler.StepLR,
            scheduler_params={"step_size": 2, "gamma": 0.9},
        )  # fmt: skip
        model.fit(
            values, labels, eval_set=[(values, labels)], eval_metric=["auc", "logloss", Sure],
            callbacks=[clock], **epochs,
        )  # fmt: skip
        return model, clock

    model, clock = classifier(False)
    explained, masks = model.explain(values)
    found = {
        "losses": torch.tensor(clock.losses), "seconds": clock.seconds,
        "history": torch.tensor([model.history[f"val_0_{name}"] for name in ("auc", "logloss")]),
        "sure": torch.tensor(model.history["val_0_sure"]),
        "probabilities": model.predict_proba(values), "classes": model.predict(values),
        "importance": model.feature_importances_, "explained": explained, "mask": masks[1],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        name = model.save_model(f"{folder}/model")
        loaded = TabNetClassifier(device_name="cpu")
        loaded.load_model(name)
    found["loaded"] = loaded.predict_proba(values)
    compiled = classifier(True)[1]
    found |= {
        "compiled losses": torch.tensor(compiled.losses), "compiled seconds": compiled.seconds,
    }  # fmt: skip
    regressor = TabNetRegressor(**small)
    regressor.fit(values, values[:, :2], eval_set=[(values, values[:, :2])], **epochs)
    found["regressed"] = regressor.predict(values)
    tasks = TabNetMultiTaskClassifier(**small)
    tasks.fit(values, np.stack([labels, 1 - labels, labels], 1), **epochs)
    found["tasks"] = np.stack(tasks.predict_proba(values))
    pretrained = TabNetPretrainer(**small, **columns)
    pretrained.fit(values, pretraining_ratio=0.5, **epochs)
    found["pretrained"], found["embedded"] = pretrained.predict(values)
    after = TabNetClassifier(**small, **columns)
    after.fit(values, labels, from_unsupervised=pretrained, **epochs)
    found["after"] = after.predict_proba(values)
    blocks = tab_network.GBN(3, virtual_batch_size=4)
    found["ghosts"] = blocks(torch.from_numpy(values[:, :3]))
    return found
