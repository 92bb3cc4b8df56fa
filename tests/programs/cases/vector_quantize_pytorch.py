"""an autoencoder with a codebook: loss; residual, finite scalar and lookup-free quantization"""

import numpy as np
import torch

PACKAGE = "vector-quantize-pytorch"


class Autoencoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from vector_quantize_pytorch import VectorQuantize

        self.encode = torch.nn.Linear(12, 8)
        self.quantize = VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0)
        self.decode = torch.nn.Linear(8, 12)

    def forward(self, values):
        codes, indices, commitment = self.quantize(self.encode(values))
        return self.decode(codes), indices, commitment.sum()


def codebook(module):
    """Give the codebooks numbers that do not depend on the library."""
    rng = np.random.default_rng(1)
    with torch.no_grad():
        for name, buffer in module.named_buffers():
            if name.endswith(("embed", "embed_avg")):
                buffer.copy_(torch.from_numpy(rng.standard_normal(buffer.shape).astype("float32")))


def build():
    model = Autoencoder()
    codebook(model)
    values = np.random.default_rng(0).standard_normal((2, 10, 12)).astype("float32")

    def loss(model, values):
        decoded, _, commitment = model(values)
        return torch.nn.functional.mse_loss(decoded, values) + commitment

    return model, (torch.from_numpy(values),), loss


def more(model, inputs):
    import driver
    from vector_quantize_pytorch import FSQ, LFQ, ResidualVQ, SimVQ

    (values,) = inputs
    model.eval()
    decoded, indices, _ = model(values)
    found = {"decoded": decoded, "indices": indices, "codebook": model.quantize.codebook}
    found["from indices"] = model.quantize.get_output_from_indices(indices)
    model.train()
    features = values[..., :8]
    residual = ResidualVQ(dim=8, codebook_size=16, num_quantizers=3)
    codebook(residual)
    found["residual"], found["residual indices"], _ = residual.eval()(features)
    finite = FSQ(levels=[4, 3, 5], dim=8)
    driver.fill(finite)
    found["finite"], found["finite indices"] = finite(features)
    free = LFQ(dim=8, codebook_size=16)
    driver.fill(free)
    found["free"], found["free indices"], _ = free.eval()(features)
    simple = SimVQ(dim=8, codebook_size=16)
    codebook(simple)
    driver.fill(simple)
    found["simple"], found["simple indices"], _ = simple.eval()(features)
    return found
