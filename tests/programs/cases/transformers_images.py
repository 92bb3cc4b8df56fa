"""loss, logits, gradients of 24 architectures for images and speech; ViT is timed"""

import numpy as np
import torch

PACKAGE = "transformers"
REQUIRES = ["scipy", "pillow"]
WORDS, WIDTH, SIZE = 32, 16, 32
PLAIN = {
    "hidden_size": WIDTH, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
}  # fmt: skip
PATCHES = PLAIN | {"image_size": SIZE, "patch_size": 8, "num_labels": 3}
STAGES = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 3}
WINDOWS = {
    "image_size": SIZE, "patch_size": 4, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 2],
    "window_size": 4, "num_labels": 3,
}  # fmt: skip
TEXT = PLAIN | {
    "vocab_size": WORDS, "max_position_embeddings": 16, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 0,
}  # fmt: skip
IMAGE = PLAIN | {"image_size": SIZE, "patch_size": 8}
BOTH = {"text_config": TEXT, "vision_config": IMAGE, "projection_dim": 8}
SOUND = PLAIN | {
    "vocab_size": WORDS, "conv_dim": [8, 8], "conv_kernel": [10, 3], "conv_stride": [5, 2],
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0, "mask_time_length": 2, "pad_token_id": 0,
}  # fmt: skip
SPEECH = {
    "vocab_size": WORDS, "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32, "max_source_positions": 24, "max_target_positions": 16,
    "decoder_start_token_id": 1, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
RESNET = {
    "num_channels": 3, "embedding_size": 8, "layer_type": "basic", "out_features": ["stage2"],
} | STAGES  # fmt: skip
BOXES = {
    "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "num_queries": 4,
    "num_labels": 3, "use_timm_backbone": False, "use_pretrained_backbone": False,
    "backbone": None,
}  # fmt: skip
MODELS = {
    "ViTForImageClassification": PATCHES,
    "DeiTForImageClassification": PATCHES,
    "BeitForImageClassification": PATCHES | {"use_relative_position_bias": True},
    "Dinov2ForImageClassification": PATCHES,
    "ViTMAEForPreTraining": PATCHES | {
        "decoder_hidden_size": WIDTH, "decoder_num_hidden_layers": 1, "mask_ratio": 0.5,
        "decoder_num_attention_heads": 2, "decoder_intermediate_size": 32,
    },
    "SwinForImageClassification": WINDOWS,
    "Swinv2ForImageClassification": WINDOWS,
    "ConvNextForImageClassification": STAGES | {"num_stages": 2},
    "ConvNextV2ForImageClassification": STAGES | {"num_stages": 2},
    "ResNetForImageClassification": RESNET,
    "RegNetForImageClassification": RESNET | {"groups_width": 8, "layer_type": "y"},
    "SegformerForSemanticSegmentation": {
        "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [8, 16],
        "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2],
        "mlp_ratios": [2, 2], "decoder_hidden_size": 8, "num_labels": 3,
    },
    "DetrForObjectDetection": BOXES,
    "YolosForObjectDetection": PATCHES | {"image_size": [SIZE, SIZE], "num_detection_tokens": 4},
    "CLIPModel": BOTH,
    "SiglipModel": BOTH,
    "BlipForConditionalGeneration": BOTH,
    "ViltForQuestionAnswering": TEXT | IMAGE | {"num_labels": 3},
    "LlavaForConditionalGeneration": {
        "text_config": TEXT | {"model_type": "llama", "max_position_embeddings": 32},
        "vision_config": IMAGE | {"model_type": "clip_vision_model"},
        "image_token_index": 31,
    },
    "WhisperForConditionalGeneration": SPEECH | {"num_mel_bins": 8},
    "Speech2TextForConditionalGeneration": SPEECH | {
        "input_feat_per_channel": 8, "conv_channels": 16, "num_conv_layers": 2,
    },
    "Wav2Vec2ForCTC": SOUND,
    "HubertForCTC": SOUND,
    "ASTForAudioClassification": PLAIN | {
        "patch_size": 4, "frequency_stride": 4, "time_stride": 4, "max_length": 16,
        "num_mel_bins": 8, "num_labels": 3,
    },
}  # fmt: skip
TIMED = ("ViTForImageClassification",)


def inputs_of(name):
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.standard_normal((2, 3, SIZE, SIZE)).astype("float32"))
    sound = torch.from_numpy(rng.standard_normal((2, 400)).astype("float32"))
    tokens = torch.from_numpy(rng.integers(3, WORDS - 1, (2, 8)))
    if name.startswith(("Wav2Vec2", "Hubert")):
        return {"input_values": sound, "labels": tokens[:, :5]}
    if name.startswith("AST"):
        return {"input_values": sound[:, :128].reshape(2, 16, 8), "labels": tokens[:, 0] % 3}
    if name.startswith(("Whisper", "Speech2Text")):
        features = sound[:, :384].reshape(2, 8, 48)
        if name.startswith("Speech2Text"):
            features = features.mT
        return {"input_features": features, "labels": tokens}
    given = {"pixel_values": images}
    if name.endswith("Classification"):
        given["labels"] = tokens[:, 0] % 3
    elif name.endswith("Segmentation"):
        given["labels"] = torch.from_numpy(rng.integers(0, 3, (2, SIZE, SIZE)))
    elif name.endswith("Detection"):
        boxes = torch.tensor([[0.4, 0.5, 0.2, 0.3], [0.6, 0.3, 0.3, 0.4]])
        one = {"class_labels": torch.tensor([0, 2]), "boxes": boxes}
        given["labels"] = [one, {"class_labels": torch.tensor([1]), "boxes": boxes[:1]}]
    elif name == "ViTMAEForPreTraining":
        given["noise"] = torch.from_numpy(rng.random((2, 16)).astype("float32"))
    elif name == "ViltForQuestionAnswering":
        given |= {"input_ids": tokens, "labels": torch.eye(3)[:2]}
    elif name.startswith("Llava"):
        tokens = torch.cat([torch.full((2, 16), 31), tokens], 1)
        given |= {"input_ids": tokens, "labels": tokens}
    elif name.startswith("Blip"):
        given |= {"input_ids": tokens, "labels": tokens}
    else:
        given |= {"input_ids": tokens, "return_loss": True}
    return given


def main():
    from cases.transformers_text import results_of, seconds_of

    return seconds_of(TIMED, MODELS, inputs_of) | results_of(MODELS, inputs_of)
