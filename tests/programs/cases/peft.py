"""LoRA on a GPT-2: steps, merged weights, an adapter in a folder; IA3 and LoHa on a perceptron"""

import tempfile

import numpy as np
import torch

PACKAGE = "peft"


def base():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=32, n_positions=32, n_embd=16, n_layer=2, n_head=2,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
    )  # fmt: skip


def build():
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["c_attn"], fan_in_fan_out=True
    )
    model = get_peft_model(base(), config)
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 32, (2, 12)))

    def loss(model, tokens):
        return model(input_ids=tokens, labels=tokens).loss

    return model, (tokens,), loss


def more(model, inputs):
    import driver
    from peft import IA3Config, LoHaConfig, PeftModel, get_peft_model

    (tokens,) = inputs
    model.eval()
    found = {"logits": model(tokens).logits}
    with model.disable_adapter():
        found["without"] = model(tokens).logits
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        other = base()
        with torch.no_grad():
            for name, value in model.get_base_model().state_dict().items():
                plain = name.replace(".base_layer", "")
                if "lora" not in name:
                    other.state_dict()[plain].copy_(value)
        again = PeftModel.from_pretrained(other, folder).eval()
        found["loaded"] = again(tokens).logits
    found["merged"] = again.merge_and_unload()(tokens).logits
    values = torch.linspace(-1, 1, 24).reshape(3, 8)
    for config in (
        IA3Config(target_modules=["0", "2"], feedforward_modules=["2"]),
        LoHaConfig(r=2, alpha=2, target_modules=["0", "2"]),
    ):
        layers = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
        changed = get_peft_model(layers, config)
        driver.fill(changed)
        result = changed(values)
        result.square().sum().backward()
        kind = type(config).__name__
        found[kind] = result
        found[f"{kind} gradients"] = torch.stack(
            [each.grad.norm() for each in changed.parameters() if each.requires_grad]
        )
    return found
