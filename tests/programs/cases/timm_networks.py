"""loss, logits, gradients of 37 convolutional architectures; a ConvNeXt is timed"""

PACKAGE = "timm"
DEPTHS = {"depths": (1, 1, 1, 1)}
LAYERS = {"layers": (1, 1, 1, 1)}
CHANNELS = LAYERS | {"channels": (8, 8, 16, 16)}
MODELS = {
    "cpubone_b0_bfrobust": {},
    "cs3darknet_focus_s": {},
    "darknet17": {},
    "densenet121": {"growth_rate": 4, "block_config": (1, 1, 1, 1)},
    "dla46_c": {},
    "dpn48b": {"k_sec": (1, 1, 1, 1)},
    "ese_vovnet19b_slim_dw": {},
    "fasternet_t0": DEPTHS | {"embed_dim": 8},
    "hrnet_w18_small": {},
    "lcnet_035": {},
    "lcnetv2_small": DEPTHS,
    "legacy_seresnet18": LAYERS,
    "lowformer_b0": {},
    "mobilenetv2_035": {},
    "mobilenetv3_small_050": {},
    "mobileone_s0": {},
    "regnetx_002": {},
    "regnety_002": {},
    "repvgg_a0": {},
    "resnest14d": {},
    "resnetv2_18": CHANNELS,
    "resnext26ts": {},
    "selecsls42": {},
    "skresnet18": CHANNELS,
    "starnet_s050": DEPTHS,
    "test_byobnet": {},
    "test_convnext": {},
    "test_convnext2": {},
    "test_convnext3": {},
    "test_efficientnet": {},
    "test_efficientnet_gn": {},
    "test_efficientnet_ln": {},
    "test_mambaout": {},
    "test_nfnet": {},
    "test_resnet": {},
    "tinynet_e": {},
    "tresnet_m": LAYERS,
}
TIMED = ("test_convnext",)


def main():
    from cases.timm_transformers import results_of

    return results_of(MODELS, TIMED)
