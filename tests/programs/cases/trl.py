"""a small Llama by `SFTTrainer` (timed), DPO's losses, KTO, a reward model, GRPO; a LoRA adapter"""

import tempfile
import time
import warnings

import torch

PACKAGE = "trl"
REQUIRES = ["peft"]
QUESTIONS = ["word1 word2 word3", "word4 word5", "word6 word7 word8 word9", "word10 word11"]
GOOD = [" word3 word2", " word5 word6 word4", " word9 word8", " word11 word12 word13"]
BAD = [" word20", " word21 word22", " word23 word20 word21", " word22 word24"]
EXTRA = ("peft_config", "reward_funcs", "ref_model")
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def a_model(kind="LlamaForCausalLM", **more):
    import driver
    import transformers
    from cases.transformers_pipeline import SIZES

    model = getattr(transformers, kind)(transformers.LlamaConfig(**SIZES, **ENDS, **more))
    driver.fill(model)
    return model


def rows(**columns):
    from datasets import Dataset

    return Dataset.from_dict(columns)


def trained(method, data, model=None, seconds=None, **more):
    """The trainer named ``method`` after four steps, and the losses and other numbers it logged."""
    import trl
    from cases.transformers_pipeline import a_tokenizer
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        def on_step_begin(self, args, state, control, **more):
            self.began = time.perf_counter()

        def on_step_end(self, args, state, control, **more):
            if seconds is not None:
                seconds.append(time.perf_counter() - self.began)

    torch.manual_seed(0)
    model = model or a_model()
    with tempfile.TemporaryDirectory() as folder:
        common = {
            "max_steps": 4, "per_device_train_batch_size": 2, "use_cpu": True, "report_to": "none",
            "logging_steps": 1, "save_strategy": "no", "disable_tqdm": True, "bf16": False,
            "learning_rate": 1e-3, "gradient_checkpointing": False,
        }  # fmt: skip
        extra = {key: more.pop(key) for key in EXTRA if key in more}
        trainer = getattr(trl, f"{method}Trainer")(
            model=model,
            args=getattr(trl, f"{method}Config")(folder, **(common | more)),
            train_dataset=data,
            processing_class=a_tokenizer(),
            callbacks=[Clock()],
            **extra,
        )
        trainer.train()
        log = [each for each in trainer.state.log_history if "loss" in each]
    return trainer, log


def logged(log, *keys):
    return torch.tensor([[float(each[key]) for key in keys] for each in log])


def main():
    from peft import LoraConfig, PeftModel
    from transformers.utils import logging

    logging.set_verbosity_error()
    # About pinned memory, which needs a GPU.
    warnings.simplefilter("ignore")
    pairs = rows(prompt=QUESTIONS, chosen=GOOD, rejected=BAD)
    texts = rows(prompt=QUESTIONS, completion=GOOD)
    found = {"seconds": [], "compiled seconds": []}

    _, log = trained("SFT", texts, seconds=found["seconds"], max_steps=12)
    found["fine-tuned"] = logged(log, "loss", "grad_norm", "mean_token_accuracy", "entropy")
    _, log = trained("SFT", texts, seconds=found["compiled seconds"], max_steps=12,
                     torch_compile=True)  # fmt: skip
    found["compiled fine-tuned"] = logged(
        log, "loss", "grad_norm", "mean_token_accuracy", "entropy"
    )
    yield found

    whole = rows(text=[one + two for one, two in zip(QUESTIONS, GOOD, strict=True)])
    _, log = trained("SFT", whole, packing=True, max_length=8, gradient_checkpointing=True,
                     packing_strategy="wrapped")  # fmt: skip
    found["packed"] = logged(log, "loss", "grad_norm")
    adapter = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])
    torch.manual_seed(0)
    trainer, log = trained("SFT", texts, peft_config=adapter, learning_rate=1e-2)
    found["adapter"] = logged(log, "loss", "grad_norm")
    tokens = torch.arange(3, 19).reshape(2, 8)
    with tempfile.TemporaryDirectory() as folder:
        trainer.save_model(folder)
        loaded = PeftModel.from_pretrained(a_model(), folder).merge_and_unload()
        found["merged"] = loaded.eval()(tokens).logits
    yield found

    keys = "loss", "grad_norm", "rewards/margins", "logps/chosen", "logps/rejected"
    for kind in ("sigmoid", "hinge", "ipo", "apo_zero", "robust", "exo_pair", "nca_pair"):
        smoothing = {"label_smoothing": 0.1} if kind in ("robust", "exo_pair") else {}
        _, log = trained("DPO", pairs, ref_model=a_model(), loss_type=[kind], **smoothing)
        found[f"DPO {kind}"] = logged(log, *keys)
    _, log = trained("DPO", pairs, ref_model=a_model(), use_weighting=True,
                     precompute_ref_log_probs=True)  # fmt: skip
    found["DPO weighted"] = logged(log, *keys)
    unpaired = rows(prompt=QUESTIONS * 2, completion=GOOD + BAD, label=[True] * 4 + [False] * 4)
    _, log = trained("KTO", unpaired, ref_model=a_model(), per_device_train_batch_size=4)
    found["KTO"] = logged(log, "loss", "grad_norm")
    yield found

    scored = a_model("LlamaForSequenceClassification", num_labels=1)
    trainer, log = trained("Reward", pairs, scored, center_rewards_coefficient=0.01)
    found["reward model"] = logged(log, "loss", "grad_norm", "accuracy", "margin", "mean_reward")
    found["rewards"] = trainer.model.eval()(tokens).logits

    def even(completions, **more):
        return [float(sum(int(word[4:]) % 2 for word in each.split())) for each in completions]

    for method in ("GRPO", "RLOO"):
        _, log = trained(
            method, rows(prompt=QUESTIONS), reward_funcs=even, num_generations=2,
            max_completion_length=6, beta=0.0,
        )  # fmt: skip
        found[method] = logged(log, "loss", "grad_norm", "reward", "entropy")
    yield found
