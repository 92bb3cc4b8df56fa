"""a `LightningModule` by `Trainer`: a schedule, clipping, validation, checkpoints, prediction"""

import logging
import tempfile
import time
import warnings

import numpy as np
import torch

PACKAGE = "lightning"


def data():
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal((24, 6)).astype("float32"))
    return torch.utils.data.TensorDataset(values, values[:, :3].argmax(1))


def main():
    import driver
    import lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    # About workers, devices and where checkpoints go.
    warnings.simplefilter("ignore")

    class Classifier(lightning.LightningModule):
        def __init__(self, hidden=8, rate=0.05):
            super().__init__()
            self.save_hyperparameters()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(6, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 3)
            )
            self.losses, self.seconds = [], []

        def training_step(self, batch, number):
            values, labels = batch
            loss = torch.nn.functional.cross_entropy(self.net(values), labels)
            self.log("train", loss)
            self.losses.append(loss.detach())
            return loss

        def on_train_batch_start(self, batch, number):
            self.began = time.perf_counter()

        def on_train_batch_end(self, outputs, batch, number):
            self.seconds.append(time.perf_counter() - self.began)

        def validation_step(self, batch, number):
            values, labels = batch
            outputs = self.net(values)
            self.log("loss", torch.nn.functional.cross_entropy(outputs, labels))
            self.log("accuracy", (outputs.argmax(-1) == labels).float().mean())

        def predict_step(self, batch, number):
            return self.net(batch[0])

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.rate)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
            return {"optimizer": optimizer, "lr_scheduler": schedule}

    def trainer(folder, epochs, **more):
        return lightning.Trainer(
            accelerator="cpu", max_epochs=epochs, enable_progress_bar=False, logger=False,
            enable_model_summary=False, default_root_dir=folder, gradient_clip_val=1.0,
            num_sanity_val_steps=1, accumulate_grad_batches=2, **more,
        )  # fmt: skip

    lightning.seed_everything(0, verbose=False)
    loader = torch.utils.data.DataLoader(data(), batch_size=6)
    with tempfile.TemporaryDirectory() as folder:
        keeping = lightning.pytorch.callbacks.ModelCheckpoint(
            folder, monitor="loss", save_last=True
        )
        stopping = lightning.pytorch.callbacks.EarlyStopping("loss", patience=3)
        model = Classifier(rate=0.02)
        driver.fill(model)
        first = trainer(folder, 3, callbacks=[keeping, stopping])
        first.fit(model, loader, loader)
        best = keeping.best_model_score
        (found,) = first.validate(model, loader, verbose=False)
        before = torch.cat(first.predict(model, loader))
        loaded = Classifier.load_from_checkpoint(keeping.last_model_path)
        after = torch.cat(trainer(folder, 1).predict(loaded, loader))
        # Two more epochs, from the checkpoint.
        again = Classifier(rate=0.02)
        trainer(folder, 5, enable_checkpointing=False).fit(
            again, loader, loader, ckpt_path=keeping.last_model_path
        )
        compiled = Classifier(rate=0.02)
        driver.fill(compiled)
        compiled.net.compile()
        trainer(folder, 3, enable_checkpointing=False).fit(compiled, loader, loader)
    return {
        "losses": torch.stack(model.losses), "losses that follow": torch.stack(again.losses),
        "seconds": model.seconds, "compiled losses": torch.stack(compiled.losses),
        "compiled seconds": compiled.seconds, "best": best,
        "accuracy": found["accuracy"], "before": before, "after": after,
        "hyperparameters": torch.tensor([loaded.hparams.hidden, loaded.hparams.rate]),
    }  # fmt: skip
