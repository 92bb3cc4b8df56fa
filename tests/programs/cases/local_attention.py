"""a transformer that looks at windows: loss, and its logits; attention with and without causes"""

import numpy as np
import torch

PACKAGE = "local-attention"


def build():
    from local_attention.transformer import LocalTransformer

    model = LocalTransformer(
        num_tokens=20,
        dim=16,
        depth=2,
        max_seq_len=32,
        heads=2,
        dim_head=8,
        local_attn_window_size=8,
    )
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 20, (2, 25)))

    def loss(model, tokens):
        return model(tokens, return_loss=True)

    return model, (tokens,), loss


def more(model, inputs):
    from local_attention import LocalAttention

    (tokens,) = inputs
    rng = np.random.default_rng(1)
    queries, keys, values = (
        torch.from_numpy(rng.standard_normal((1, 2, 20, 8)).astype("float32")) for _ in range(3)
    )
    mask = torch.arange(20)[None] < 17
    found = {"logits": model.eval()(tokens)}
    model.train()
    for causal in (False, True):
        layer = LocalAttention(
            window_size=5, causal=causal, look_backward=1, look_forward=0 if causal else 1,
            autopad=True, dim=8, exact_windowsize=causal,
        )  # fmt: skip
        found[f"causal: {causal}"] = layer(queries, keys, values, mask=mask)
    return found
