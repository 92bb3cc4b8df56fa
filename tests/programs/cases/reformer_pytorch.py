"""a language model with reversible layers: loss; attention by hashes, text, an encoder-decoder"""

import numpy as np
import torch

PACKAGE = "reformer-pytorch"


def tokens(*shape):
    return torch.from_numpy(np.random.default_rng(0).integers(1, 20, shape))


def language_model(**options):
    from reformer_pytorch import ReformerLM

    return ReformerLM(
        num_tokens=20, dim=16, depth=2, max_seq_len=32, heads=2, dim_head=8, bucket_size=4,
        n_hashes=2, ff_chunks=2, causal=True, axial_position_emb=True, axial_position_shape=(8, 4),
        **options,
    )  # fmt: skip


def build():
    # Full attention: that by hashes draws rotations, others in compiled steps.
    model = language_model(full_attn_thres=32, weight_tie_embedding=True)

    def loss(model, given):
        scores = model(given[:, :-1])
        return torch.nn.functional.cross_entropy(scores.mT, given[:, 1:])

    return model, (tokens(2, 33),), loss


def more(model, inputs):
    import driver
    from reformer_pytorch import LSHSelfAttention, Recorder, ReformerEncDec
    from reformer_pytorch.generative_tools import TrainingWrapper

    given = inputs[0]
    found = {}
    for name, options in {
        "hashes": {}, "irreversible": {"reverse_thres": 64}, "local": {"n_local_attn_heads": 1},
        "memories": {"num_mem_kv": 8, "use_scale_norm": True, "ff_glu": True},
        "one value": {"one_value_head": True, "use_rezero": True, "attn_chunks": 2},
        "keys": {"pkm_layers": (1,), "pkm_num_keys": 32},
    }.items():  # fmt: skip
        other = language_model(**options)
        driver.fill(other)
        torch.manual_seed(0)
        found[name] = other(given[:, :-1])
        torch.nn.functional.cross_entropy(found[name].mT, given[:, 1:]).backward()
        norms = [each.grad.norm() for each in other.parameters() if each.grad is not None]
        found[f"gradients, {name}"] = torch.stack(norms)
    attention = LSHSelfAttention(dim=16, heads=2, bucket_size=4, n_hashes=2, causal=False)
    driver.fill(attention)
    values = torch.from_numpy(np.random.default_rng(1).standard_normal((2, 16, 16)))
    torch.manual_seed(0)
    mask = torch.arange(16) < torch.tensor([[12], [16]])
    found["masked"] = attention(values.float(), input_mask=mask)
    recorder = Recorder(language_model())
    driver.fill(recorder)
    torch.manual_seed(0)
    recorder(given[:, :-1])
    found["buckets"] = recorder.recordings[0][0]["buckets"]
    wrapper = TrainingWrapper(model)
    torch.manual_seed(0)
    found["text"] = wrapper.generate(given[:, :5], 6, temperature=1e-3)
    both = ReformerEncDec(
        dim=16, enc_num_tokens=20, enc_depth=1, enc_max_seq_len=16, dec_num_tokens=20, dec_depth=1,
        dec_max_seq_len=16, enc_bucket_size=4, dec_bucket_size=4, enc_heads=2, dec_heads=2,
    )  # fmt: skip
    driver.fill(both)
    torch.manual_seed(0)
    found["translation"] = both(given[:, :16], given[:, 16:32], return_loss=True)
    return found
