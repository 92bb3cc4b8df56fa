"""loss, logits, gradients of 34 architectures that attend or mix; DeiT is timed"""

import sys
import time
import traceback

import driver
import numpy as np
import timm
import torch

PACKAGE = "timm"
SIZE = 32
PLAIN = {"img_size": SIZE, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
WINDOWS = {
    "img_size": SIZE, "patch_size": 4, "embed_dim": 8, "depths": (2, 2), "num_heads": (1, 2),
}  # fmt: skip
WIDTHS = {"embed_dims": (8, 8, 16, 16)}
DEPTHS = {"depths": (1, 1, 1, 1)}
LAYERS = {"layers": (1, 1, 1, 1)}
HEADS = {"num_heads": (1, 1, 2, 2)}
DIMS = DEPTHS | {"dims": (8, 8, 16, 16)}
MODELS = {
    "beit_base_patch16_224": PLAIN,
    "cait_xxs24_224": PLAIN | {"depth_token_only": 1},
    "coat_tiny": {"img_size": 64, "serial_depths": (1, 1, 1, 1), "parallel_depth": 1}
    | {"embed_dims": (16, 16, 16, 16), "num_heads": 8},
    "convit_tiny": PLAIN | {"local_up_to_layer": 1},
    "davit_tiny": DEPTHS | WIDTHS | HEADS | {"window_size": 2},
    "deit3_small_patch16_224": PLAIN,
    "deit_tiny_distilled_patch16_224": PLAIN,
    "edgenext_xx_small": DIMS | {"heads": (2, 2, 2, 2), "d2_scales": (2, 2, 2, 2)},
    "efficientformerv2_s0": WIDTHS | DEPTHS | {"img_size": 64, "num_vit": 1},
    "eva02_tiny_patch14_224": PLAIN,
    "fastvit_t8": LAYERS | {"embed_dims": (8, 8, 16, 32)},
    "inception_next_atto": DIMS,
    "mambaout_femto": DIMS,
    "mobilevit_xxs": {},
    "mobilevitv2_050": {},
    "naflexvit_base_patch16_gap": {"embed_dim": 16, "depth": 2, "num_heads": 2},
    "pit_ti_224": {
        "img_size": 64, "depth": (1, 1, 1), "base_dims": (8, 8, 8), "heads": (1, 2, 4),
    },
    "pvt_v2_b0": WIDTHS | DEPTHS | HEADS,
    "repvit_m0_9": {},
    "samvit_base_patch16": PLAIN
    | {"window_size": 2, "global_attn_indexes": (1,), "neck_chans": 8},
    "sequencer2d_s": LAYERS | WIDTHS | {
        "img_size": SIZE, "hidden_sizes": (4, 4, 8, 8), "patch_sizes": (4, 2, 2, 1),
    },
    "shvit_s1": {},
    "swiftformer_xs": LAYERS | WIDTHS,
    "swin_tiny_patch4_window7_224": WINDOWS | {"window_size": 4},
    "swinv2_cr_tiny_224": WINDOWS,
    "swinv2_tiny_window8_256": WINDOWS | {"window_size": 4},
    "test_vit": {},
    "test_vit2": {},
    "test_vit3": {"img_size": SIZE},
    "test_vit4": {},
    "test_vit_relpos": {"img_size": SIZE},
    "tiny_vit_5m_224": WIDTHS | DEPTHS | HEADS | {"window_sizes": (2, 2, 2, 2)},
    "visformer_tiny": {"img_size": SIZE, "init_channels": 8, "embed_dim": 32},
    "xcit_nano_12_p8_224": PLAIN | {"cls_attn_layers": 1},
}  # fmt: skip
TIMED = ("deit3_small_patch16_224",)


def results_of(models, timed):
    """Losses, logits and the norms of gradients of models, one after the other.

    A model that fails is left out, so that others are compared, and its error is in the log.
    """
    yield driver.seconds_of([passes(name, models[name]) for name in timed])
    for name, sizes in models.items():
        began = time.perf_counter()
        try:
            yield result_of(name, sizes)
        except Exception:  # noqa: BLE001 (whatever a model raises)
            traceback.print_exc()
        print(name, f"{time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)


def a_model(name, sizes):
    """A model, an image for it, and the classes that it should give."""
    # A parameter of one number keeps about what it begins with.
    torch.manual_seed(0)
    # Without dropout, and with the statistics that batch normalization begins with.
    model = timm.create_model(name, num_classes=3, **sizes).eval()
    driver.fill(model)
    size = sizes.get("img_size", SIZE)
    values = np.random.default_rng(0).standard_normal((2, 3, size, size)).astype("float32")
    return model, torch.from_numpy(values), torch.tensor([0, 2])


def passes(name, sizes):
    """A function that passes through a model, forward and backward."""
    model, images, targets = a_model(name, sizes)

    def run():
        model.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), targets)
        loss.backward()
        return loss

    return run


def result_of(name, sizes):
    """The loss of a model, its logits and the norms of its gradients."""
    model, images, targets = a_model(name, sizes)
    logits = model(images)
    loss = torch.nn.functional.cross_entropy(logits, targets)
    loss.backward()
    gradients = [each.grad.norm() for each in model.parameters() if each.grad is not None]
    return {
        f"{name} loss": loss,
        f"{name} logits": logits,
        f"{name} gradients": torch.stack(gradients),
    }


def main():
    return results_of(MODELS, TIMED)
