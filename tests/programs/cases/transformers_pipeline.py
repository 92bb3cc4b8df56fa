"""`pipeline`: classes of texts (timed), filled blanks, features, and text that goes on"""

import time

import numpy as np
import torch

PACKAGE = "transformers"
REQUIRES = ["accelerate"]
WORDS = [f"word{number}" for number in range(27)]
SIZES = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 2, "max_position_embeddings": 32}  # fmt: skip


def a_tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[BOS]", "[EOS]", "[MASK]", "[UNK]"]
    words = {word: number for number, word in enumerate([*special, *WORDS])}
    base = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    base.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=base, pad_token="[PAD]", bos_token="[BOS]", eos_token="[EOS]",
        mask_token="[MASK]", unk_token="[UNK]", padding_side="left",
    )  # fmt: skip


def main():
    import driver
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        BertForSequenceClassification,
        LlamaConfig,
        LlamaForCausalLM,
        pipeline,
    )

    tokenizer = a_tokenizer()
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, int(length))) for length in (4, 7, 5)]
    classes = BertForSequenceClassification(BertConfig(**SIZES, num_labels=3))
    masked = BertForMaskedLM(BertConfig(**SIZES))
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    writer = LlamaForCausalLM(LlamaConfig(**SIZES, **ends))
    for each in (classes, masked, writer):
        driver.fill(each)
        each.eval()

    def made(task, model):
        return pipeline(task, model=model, tokenizer=tokenizer, device="cpu")

    found = {}
    classify = made("text-classification", classes)

    def classified(size, seconds=None):
        began = time.perf_counter()
        said = classify(texts, top_k=None, batch_size=size)
        if seconds is not None:
            seconds.append(time.perf_counter() - began)
        by_name = [{each["label"]: each["score"] for each in one} for one in said]
        return torch.tensor([[each[key] for key in sorted(each)] for each in by_name])

    found["seconds"], found["compiled seconds"] = [], []
    for _ in range(8):
        found["classes by 3"] = classified(3, found["seconds"])
    for size in (1, 2):
        found[f"classes by {size}"] = classified(size)
    classes.forward = torch.compile(classes.forward)
    for _ in range(8):
        found["compiled classes by 3"] = classified(3, found["compiled seconds"])
    filled = made("fill-mask", masked)(f"{texts[0]} [MASK] {texts[1]}", top_k=4)
    found["filled"] = torch.tensor([each["score"] for each in filled])
    found["words"] = torch.tensor([each["token"] for each in filled])
    features = made("feature-extraction", masked.bert)(texts[1], return_tensors=True)
    found["features"] = features
    write = made("text-generation", writer)
    written = write(texts, max_new_tokens=5, do_sample=False, batch_size=3)
    text = "\n".join(one[0]["generated_text"] for one in written)
    found["text"] = torch.tensor(list(text.encode()))
    return found
