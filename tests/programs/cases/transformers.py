"""GPT-2: loss and steps; Llama and BERT; `generate` with both caches; weights in a folder"""

import tempfile

import numpy as np
import torch

PACKAGE = "transformers"
SIZES = {
    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 32,
}  # fmt: skip


def words(rows, length, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(3, 32, (rows, length)))


def build():
    from transformers import GPT2Config, GPT2LMHeadModel

    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = GPT2Config(
        vocab_size=32, n_positions=32, n_embd=16, n_layer=2, n_head=2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **ends,
    )  # fmt: skip

    def loss(model, tokens):
        return model(input_ids=tokens, labels=tokens).loss

    return GPT2LMHeadModel(config), (words(2, 12),), loss


def more(model, inputs):
    import driver
    from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM

    (tokens,) = inputs
    found = {}
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    llama = LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=2, **ends))
    driver.fill(llama)
    driver.fill(model)
    for name, other in (("gpt2", model), ("llama", llama)):
        other.eval()
        options = {"max_new_tokens": 6, "do_sample": False}
        mask = torch.ones_like(tokens[:, :4])
        found[f"{name} text"] = other.generate(tokens[:, :4], attention_mask=mask, **options)
        found[f"{name} text of a static cache"] = other.generate(
            tokens[:, :4], attention_mask=mask, cache_implementation="static", **options
        )
        with torch.no_grad():
            found[f"{name} logits"] = other(tokens).logits
        with tempfile.TemporaryDirectory() as folder:
            other.save_pretrained(folder)
            again = type(other).from_pretrained(folder).eval()
        with torch.no_grad():
            found[f"{name} loaded"] = again(tokens).logits
    value = llama(input_ids=tokens, labels=tokens).loss
    value.backward()
    found["llama loss"] = value
    found["llama gradient"] = llama.model.embed_tokens.weight.grad
    bert = BertForMaskedLM(BertConfig(**SIZES))
    driver.fill(bert)
    mask = torch.ones_like(tokens)
    mask[1, 8:] = 0
    result = bert.eval()(input_ids=tokens, attention_mask=mask, labels=tokens)
    result.loss.backward()
    found["bert loss"], found["bert logits"] = result.loss, result.logits
    found["bert gradient"] = bert.bert.embeddings.word_embeddings.weight.grad
    return found
