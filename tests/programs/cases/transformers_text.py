"""loss, logits, gradients of 46 architectures for text; BERT is timed"""

import numpy as np
import torch

PACKAGE = "transformers"
WORDS, WIDTH, HEADS, LAYERS = 32, 16, 2, 2
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
PLAIN = {
    "vocab_size": WORDS, "hidden_size": WIDTH, "intermediate_size": 32, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "max_position_embeddings": 32,
}  # fmt: skip
FEWER_KEYS = PLAIN | {"num_key_value_heads": 1} | ENDS
HEAD = FEWER_KEYS | {"head_dim": 8}
GPT = {"vocab_size": WORDS, "n_positions": 32, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS}
TO_WORDS = {
    "vocab_size": WORDS, "d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS,
    "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32, "max_position_embeddings": 32, "decoder_start_token_id": 2,
} | ENDS  # fmt: skip
T5 = {
    "vocab_size": WORDS, "d_model": WIDTH, "d_kv": 8, "d_ff": 32, "num_layers": LAYERS,
    "num_heads": HEADS, "decoder_start_token_id": 0,
} | ENDS  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
MODELS = {
    "BertForMaskedLM": PLAIN,
    "RobertaForMaskedLM": PLAIN | ENDS,
    "DistilBertForMaskedLM": {
        "vocab_size": WORDS, "dim": WIDTH, "hidden_dim": 32, "n_layers": LAYERS, "n_heads": HEADS,
        "max_position_embeddings": 32,
    },
    "AlbertForMaskedLM": PLAIN | {"embedding_size": 8},
    "ElectraForMaskedLM": PLAIN | {"embedding_size": 8},
    "DebertaForMaskedLM": PLAIN | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "DebertaV2ForMaskedLM": PLAIN | {
        "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 4,
        "norm_rel_ebd": "layer_norm", "share_att_key": True, "conv_kernel_size": 3,
    },
    "MPNetForMaskedLM": PLAIN,
    "BigBirdForMaskedLM": PLAIN | ENDS | {"attention_type": "original_full"},
    "FNetForMaskedLM": PLAIN | ENDS,
    "MobileBertForMaskedLM": PLAIN | {"embedding_size": 16, "intra_bottleneck_size": 16},
    "ModernBertForMaskedLM": PLAIN | ENDS | {"cls_token_id": 1, "sep_token_id": 2},
    "XLNetLMHeadModel": {
        "vocab_size": WORDS, "d_model": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "d_inner": 32,
    },
    "GPT2LMHeadModel": GPT | ENDS,
    "GPTNeoForCausalLM": {
        "vocab_size": WORDS, "hidden_size": WIDTH, "num_layers": 2, "num_heads": HEADS,
        "attention_types": [[["global", "local"], 1]], "window_size": 4,
        "max_position_embeddings": 32,
    } | ENDS,
    "GPTNeoXForCausalLM": PLAIN | ENDS,
    "GPTJForCausalLM": GPT | ENDS | {"rotary_dim": 4},
    "CodeGenForCausalLM": GPT | ENDS | {"rotary_dim": 4, "n_head": 4},
    "OPTForCausalLM": PLAIN | ENDS | {"ffn_dim": 32, "word_embed_proj_dim": 8},
    "BloomForCausalLM": {
        "vocab_size": WORDS, "hidden_size": WIDTH, "n_layer": LAYERS, "n_head": HEADS,
    } | ENDS,
    "FalconForCausalLM": PLAIN | ENDS,
    "LlamaForCausalLM": FEWER_KEYS,
    "MistralForCausalLM": FEWER_KEYS | {"sliding_window": 4},
    "MixtralForCausalLM": FEWER_KEYS | {"num_local_experts": 4, "output_router_logits": True},
    "Qwen2ForCausalLM": FEWER_KEYS,
    "Qwen2MoeForCausalLM": FEWER_KEYS | EXPERTS | {"shared_expert_intermediate_size": 16},
    "Qwen3ForCausalLM": HEAD,
    "Qwen3MoeForCausalLM": HEAD | EXPERTS,
    "GemmaForCausalLM": HEAD,
    "Gemma2ForCausalLM": HEAD | {"sliding_window": 4, "query_pre_attn_scalar": 8},
    "Gemma3ForCausalLM": HEAD | {"sliding_window": 4, "query_pre_attn_scalar": 8},
    "PhiForCausalLM": FEWER_KEYS,
    "Phi3ForCausalLM": FEWER_KEYS,
    "StableLmForCausalLM": FEWER_KEYS,
    "Starcoder2ForCausalLM": FEWER_KEYS,
    "OlmoForCausalLM": FEWER_KEYS,
    "CohereForCausalLM": FEWER_KEYS,
    "MambaForCausalLM": {
        "vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "state_size": 4,
    } | ENDS,
    "Mamba2ForCausalLM": {
        "vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "state_size": 4,
        "num_heads": 4, "head_dim": 8, "n_groups": 2, "chunk_size": 4,
    } | ENDS,
    "T5ForConditionalGeneration": T5,
    "MT5ForConditionalGeneration": T5,
    "BartForConditionalGeneration": TO_WORDS,
    "MBartForConditionalGeneration": TO_WORDS,
    "PegasusForConditionalGeneration": TO_WORDS,
    "M2M100ForConditionalGeneration": TO_WORDS,
    "MarianMTModel": TO_WORDS,
    "BertForSequenceClassification": PLAIN | {"num_labels": 3},
    "BertForTokenClassification": PLAIN | {"num_labels": 3},
    "BertForQuestionAnswering": PLAIN,
    "BertForMultipleChoice": PLAIN,
    "LlamaForSequenceClassification": FEWER_KEYS | {"num_labels": 3},
}  # fmt: skip
TIMED = ("BertForMaskedLM",)


def inputs_of(name):
    rng = np.random.default_rng(0)
    tokens = torch.from_numpy(rng.integers(3, WORDS, (2, 12)))
    mask = torch.ones_like(tokens)
    mask[1, 9:] = 0
    given = {"input_ids": tokens.where(mask == 1, torch.zeros_like(tokens)), "attention_mask": mask}
    if name.endswith("ForSequenceClassification"):
        given["labels"] = torch.tensor([0, 2])
    elif name.endswith("ForTokenClassification"):
        given["labels"] = tokens % 3
    elif name.endswith("ForQuestionAnswering"):
        given |= {"start_positions": torch.tensor([1, 2]), "end_positions": torch.tensor([4, 3])}
    elif name.endswith("ForMultipleChoice"):
        given = {key: value.reshape(1, 2, 12) for key, value in given.items()}
        given["labels"] = torch.tensor([1])
    else:
        given["labels"] = tokens.where(mask == 1, torch.full_like(tokens, -100))
    return given


def a_model(name, sizes):
    """A model by the name of its class."""
    import driver
    import transformers

    kind = getattr(transformers, name)
    model = kind(kind.config_class(**sizes)).eval()
    driver.fill(model)
    return model


def seconds_of(names, models, inputs_of):
    """Seconds of passes through some of the models, forward and backward."""
    import driver

    def passes(name):
        model, inputs = a_model(name, models[name]), inputs_of(name)

        def run():
            model.zero_grad()
            loss = model(**inputs).loss
            loss.backward()
            return loss

        return run

    return driver.seconds_of([passes(name) for name in names])


def results_of(models, inputs_of):
    """Loss, logits and the norms of gradients of models, by the names of their classes."""
    found = {}
    for name, sizes in models.items():
        model = a_model(name, sizes)
        result = model(**inputs_of(name))
        result.loss.backward()
        kinds = ("logits", "start_logits", "logits_per_image")
        logits = next(result[kind] for kind in kinds if kind in result)
        gradients = [each.grad.norm() for each in model.parameters() if each.grad is not None]
        found[f"{name} loss"], found[f"{name} logits"] = result.loss, logits
        found[f"{name} gradients"] = torch.stack(gradients)
    return found


def main():
    return seconds_of(TIMED, MODELS, inputs_of) | results_of(MODELS, inputs_of)
