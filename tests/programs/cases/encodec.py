"""a codec of sound at 24 kHz: a step of reconstruction, codes, and sound from codes"""

import numpy as np
import torch

PACKAGE = "encodec"
REQUIRES = ["torchaudio"]


def sound(seed, seconds=0.2, rate=24000):
    values = np.random.default_rng(seed).standard_normal((1, 1, int(seconds * rate)))
    return torch.from_numpy(0.1 * values.astype("float32"))


def build():
    from encodec import EncodecModel

    model = EncodecModel.encodec_model_24khz(pretrained=False)

    def loss(model, sound):
        return (model.decoder(model.encoder(sound))[..., : sound.shape[-1]] - sound).square().mean()

    return model, (sound(0),), loss


def more(model, inputs):
    import driver
    from encodec import EncodecModel

    other = EncodecModel.encodec_model_24khz(pretrained=False).eval()
    driver.fill(other)
    other.set_target_bandwidth(6.0)
    with torch.no_grad():
        for number, layer in enumerate(other.quantizer.vq.layers):
            values = np.random.default_rng(number).standard_normal((1024, 128)).astype("float32")
            layer._codebook.embed.copy_(torch.from_numpy(values))
            layer._codebook.inited.fill_(1)
        frames = other.encode(sound(1))
        return {"codes": frames[0][0], "decoded": other.decode(frames)}
