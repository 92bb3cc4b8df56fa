"""a transformer with linear attention by random features: loss; logits of a language model"""

import numpy as np
import torch

PACKAGE = "performer-pytorch"


def projections(model):
    """Give the random features numbers that do not depend on the library."""
    rng = np.random.default_rng(1)
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("projection_matrix"):
                buffer.copy_(torch.from_numpy(rng.standard_normal(buffer.shape).astype("float32")))


def build():
    from performer_pytorch import Performer

    model = Performer(dim=16, depth=2, heads=2, dim_head=8, nb_features=12)
    projections(model)
    tokens = np.random.default_rng(0).standard_normal((2, 10, 16)).astype("float32")

    def loss(model, tokens):
        return (model(tokens) - 1).square().mean()

    return model, (torch.from_numpy(tokens),), loss


def more(model, inputs):
    import driver
    from performer_pytorch import PerformerLM

    language = PerformerLM(num_tokens=20, max_seq_len=16, dim=16, depth=1, heads=2, dim_head=8)
    driver.fill(language)
    projections(language)
    return {"logits": language.eval()(torch.arange(20).reshape(2, 10) % 20)}
