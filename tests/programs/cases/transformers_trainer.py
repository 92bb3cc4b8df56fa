"""`Trainer`: shuffled batches, a schedule, evaluation, checkpoints, resuming, prediction"""

import tempfile
import time
import warnings

import numpy as np
import torch

PACKAGE = "transformers"
REQUIRES = ["accelerate"]


class Sentences(torch.utils.data.Dataset):
    """Rows of tokens of several lengths, each with the class that its tokens say."""

    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        self.rows = [rng.integers(3, 32, int(each)) for each in rng.integers(4, 9, count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        return {"input_ids": row.tolist(), "labels": int((row > 17).sum() * 2 > len(row))}


def padded(samples):
    length = max(len(each["input_ids"]) for each in samples)
    rows = [each["input_ids"] + [0] * (length - len(each["input_ids"])) for each in samples]
    tokens = torch.tensor(rows)
    labels = torch.tensor([each["labels"] for each in samples])
    return {"input_ids": tokens, "attention_mask": (tokens != 0).long(), "labels": labels}


def made():
    import driver
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
            num_attention_heads=2, max_position_embeddings=16, num_labels=2,
        )
    )  # fmt: skip
    driver.fill(model)
    return model


def main():
    from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    # About pinned memory, which needs a GPU.
    warnings.simplefilter("ignore")

    class Clock(TrainerCallback):
        def on_step_begin(self, args, state, control, **more):
            self.began = time.perf_counter()

        def on_step_end(self, args, state, control, **more):
            seconds.append(time.perf_counter() - self.began)

    seconds = []

    def trainer(folder, model, **more):
        arguments = {
            "output_dir": folder, "use_cpu": True, "report_to": "none", "disable_tqdm": True,
            "per_device_train_batch_size": 4, "per_device_eval_batch_size": 8,
            "num_train_epochs": 3, "learning_rate": 5e-3, "weight_decay": 0.01,
            "gradient_accumulation_steps": 2, "lr_scheduler_type": "cosine", "warmup_steps": 2,
            "logging_steps": 1, "eval_strategy": "epoch", "save_strategy": "epoch", "seed": 3,
        }  # fmt: skip
        return Trainer(
            model=model,
            args=TrainingArguments(**(arguments | more)),
            train_dataset=Sentences(24, 0),
            eval_dataset=Sentences(12, 1),
            data_collator=padded,
            compute_metrics=lambda found: {
                "accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())
            },
        )

    def logged(trained, key):
        return torch.tensor([each[key] for each in trained.state.log_history if key in each])

    def parameters(model):
        # The loss does not depend on the biases of keys: Adam makes steps of the rounding there.
        kept = (each for name, each in model.named_parameters() if "key.bias" not in name)
        return torch.cat([each.detach().flatten() for each in kept])

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        set_seed(0)
        first = trainer(folder, made(), load_best_model_at_end=True, save_total_limit=2)
        first.add_callback(Clock())
        result = first.train()
        found["seconds"] = list(seconds)
        for key in ("loss", "grad_norm", "learning_rate", "eval_loss", "eval_accuracy"):
            found[f"first {key}"] = logged(first, key)
        found["training loss"] = torch.tensor(result.training_loss)
        found["best"] = torch.tensor(first.state.best_metric)
        found["predictions"] = torch.from_numpy(first.predict(Sentences(12, 2)).predictions)
        found["evaluated"] = torch.tensor(first.evaluate()["eval_loss"])
    with tempfile.TemporaryDirectory() as folder:
        # One epoch, and the other two from its checkpoint, are as three.
        set_seed(0)
        trainer(folder, made(), max_steps=9, save_strategy="steps", save_steps=3).train()
        model = made()
        again = trainer(folder, model, max_steps=9, save_strategy="steps", save_steps=3)
        again.train(resume_from_checkpoint=f"{folder}/checkpoint-3")
        found["resumed loss"] = logged(again, "loss")
        found["resumed"] = parameters(model)
        again.save_model(f"{folder}/last")
        loaded = type(model).from_pretrained(f"{folder}/last")
        found["loaded"] = parameters(loaded)
    with tempfile.TemporaryDirectory() as folder:
        set_seed(0)
        seconds.clear()
        compiled = trainer(folder, made(), torch_compile=True)
        compiled.add_callback(Clock())
        compiled.train()
        found["compiled seconds"] = seconds
    others = {
        "label smoothing": {"label_smoothing_factor": 0.1},
        "Adafactor": {"optim": "adafactor", "lr_scheduler_type": "linear"},
        "SGD": {"optim": "sgd", "max_grad_norm": 0.1},
        "half precision": {"bf16": True},
        "checkpointed": {"gradient_checkpointing": True},
        "sorted by length": {"train_sampling_strategy": "group_by_length"},
        "NEFTune": {"neftune_noise_alpha": 5.0},
    }
    for name, more in others.items():
        with tempfile.TemporaryDirectory() as folder:
            set_seed(0)
            one = trainer(folder, made(), max_steps=3, **more)
            one.train()
            found[name] = logged(one, "loss")
    # To a twentieth: numbers of bfloat16 have three digits, and operators round at other places.
    found["half precision"] = (found["half precision"] * 20).round() / 20
    return found
